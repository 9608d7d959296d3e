package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/load"
	"github.com/quorumlock/quorumlock/internal/redistest"
)

// The node timeout is long, so that a busy machine is not taken for a failing node.
var shortRun = []string{"bench", "--callers=4", "--duration=250ms", "--warm-up=50ms", "--timeout=500ms"}

// bench runs the command and returns what it printed as JSON.
func bench(t *testing.T, wantCode int, args ...string) (r report, failure string) {
	t.Helper()
	code, out, failure := call(t.Context(), append(append(shortRun, "--json"), args...)...)
	require.Equal(t, wantCode, code, failure)
	require.NoError(t, json.Unmarshal([]byte(out), &r), out)
	return r, failure
}

// gone checks that the nodes of its own are not there any more.
func gone(t *testing.T, r report) {
	t.Helper()
	for _, node := range r.Nodes {
		_, err := net.Dial("tcp", node.Addr)
		assert.Error(t, err, node.Addr)
	}
}

func faulty(r report, fault string) (nodes []load.Node) {
	for _, node := range r.Nodes {
		if r.Faults[node.Addr] == fault {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

func TestABenchMeasuresItsOwnServersAndEndsThem(t *testing.T) {
	redistest.Real(t, 0) // skips this test too where redis-server is missing
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	r, failure := bench(t, 0)
	assert.Empty(t, failure)
	assert.Equal(t, processKind, r.Kind)
	assert.Empty(t, r.Failures)
	assert.False(t, r.Corrected)
	require.Len(t, r.Nodes, 5)
	for _, node := range r.Nodes {
		assert.NotZero(t, node.Answers["yes"], node.Addr)
		assert.Zero(t, node.Answers["maybe"]+node.Answers["unsent"], node.Addr)
		assert.NotZero(t, node.Latency.P50)
	}
	assert.NotZero(t, r.Cycles)
	assert.Equal(t, r.Cycles, r.Of(load.Acquire).Count)
	assert.Equal(t, r.Cycles, r.Of(load.Release).Count)
	assert.Equal(t, r.Cycles, r.Won)
	decided := int64(0)
	for _, node := range r.Nodes {
		decided += node.Decided
	}
	assert.Equal(t, r.Won, decided)
	gone(t, r)
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestAQuorumGoesOnWhereOneNodeIsFrozenOneKilledAndOneSlow(t *testing.T) {
	t.Parallel()
	redistest.Real(t, 0)
	const delay = 30 * time.Millisecond
	r, failure := bench(t, 0, "--freeze=1", "--kill=1", "--latency=30ms", "--rate=100")
	assert.Empty(t, failure)
	assert.NotZero(t, r.Cycles)
	assert.True(t, r.Corrected)
	assert.InDelta(t, 100, r.Asked, 0)

	frozen, killed, slow := faulty(r, "frozen"), faulty(r, "killed"), faulty(r, "30ms later")
	require.Len(t, frozen, 1)
	require.Len(t, killed, 1)
	require.Len(t, slow, 1)
	assert.Zero(t, frozen[0].Answers["yes"])
	assert.Zero(t, killed[0].Answers["yes"])
	assert.Equal(t, r.Won, slow[0].Answers["yes"], "without two nodes all of the other three are needed")
	assert.GreaterOrEqual(t, slow[0].Latency.P50, 0.99*float64(delay.Microseconds()))
	assert.Greater(t, slow[0].Decided, r.Won/2, "it is the last of the three, but on a busy machine")
	gone(t, r)
}

func TestWithoutAMajorityTheResultShowsItAndTheBenchFails(t *testing.T) {
	t.Parallel()
	redistest.Real(t, 0)
	for _, fault := range []string{"--freeze=2", "--kill=2"} {
		r, failure := bench(t, 1, "--count=3", "--timeout=20ms", fault)
		assert.Contains(t, failure, "not one cycle succeeded")
		assert.Contains(t, failure, "no quorum of nodes")
		assert.Zero(t, r.Cycles)
		require.NotEmpty(t, r.Failures)
		assert.Equal(t, "no_quorum", r.Failures[0].Kind)
		assert.Equal(t, r.Failures[0].Count, r.Of(load.Refusal).Count)
		assert.NotZero(t, r.Lost)
		gone(t, r)
	}
}

func TestCallersOfAHotLockWaitForIt(t *testing.T) {
	t.Parallel()
	servers := redistest.Real(t, 3)
	r, failure := bench(t, 0, "--names=hot", "--nodes="+strings.Join(redistest.URLs(servers), ","))
	assert.Empty(t, failure)
	assert.Equal(t, remoteKind, r.Kind)
	assert.NotZero(t, r.Cycles)
	assert.Less(t, r.Lost, r.Won/2, "they wait for each other, instead of asking again and again")
	for _, f := range r.Failures {
		assert.Equal(t, "unfinished", f.Kind)
	}
	nothingLeft(t, servers)
}

func TestWithoutRedisServerTheNodesAreEmbeddedAndSaidToBe(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r, failure := bench(t, 0, "--count=3", "--kill=1")
	assert.Empty(t, failure)
	assert.Equal(t, embeddedKind, r.Kind)
	assert.NotZero(t, r.Cycles)
	killed := faulty(r, "killed")
	require.Len(t, killed, 1)
	assert.Zero(t, killed[0].Answers["yes"])
	gone(t, r)

	code, out, failure := call(t.Context(), append(shortRun, "--freeze=1")...)
	assert.Equal(t, 80, code)
	assert.Contains(t, failure, "--freeze: 1: needs processes of its own: redis-server is not installed")
	assert.Empty(t, out)
}

func TestABenchThatIsInterruptedShowsWhatItHasAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, names := range []string{"distinct", "hot"} {
		t.Run(names, func(t *testing.T) {
			t.Parallel()
			servers := redistest.Real(t, 3)
			ctx, cancel := context.WithCancel(t.Context())
			watching := make(chan struct{})
			go func() { // until some cycles are over
				defer close(watching)
				defer cancel()
				for {
					stats, err := redis.String(servers[0].Do("INFO", "commandstats"))
					if !assert.NoError(t, err) || strings.Contains(stats, "cmdstat_evalsha:calls=") {
						return
					}
				}
			}()
			html := filepath.Join(t.TempDir(), "report.html")
			code, out, failure := call(ctx, "bench", "--names="+names, "--warm-up=0s", "--duration=1h", "--timeout=2s",
				"--html="+html, "--nodes="+strings.Join(redistest.URLs(servers), ","))
			<-watching
			assert.Equal(t, 1, code)
			assert.Contains(t, failure, "interrupted after")
			assert.Contains(t, failure, "of 1h0m0s")
			assert.Contains(t, out, "(interrupted)")
			assert.Contains(t, out, servers[2].Addr())
			assert.FileExists(t, html)
			nothingLeft(t, servers)
		})
	}
}

func TestAnInterruptBeforeTheMeasurementLeavesNothing(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	old := filepath.Join(dir, "old.svg")
	require.NoError(t, os.WriteFile(old, []byte("the last one"), 0o600))
	code, out, failure := call(ctx, append(shortRun, "--html="+filepath.Join(dir, "new.html"), "--svg="+old)...)
	assert.Equal(t, 1, code)
	assert.Contains(t, failure, "context canceled")
	assert.Empty(t, out)
	assert.NoFileExists(t, filepath.Join(dir, "new.html"))
	content, err := os.ReadFile(old)
	require.NoError(t, err)
	assert.Equal(t, "the last one", string(content))
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestAFileThatCannotBeWrittenIsAnErrorBeforeAnythingIsStarted(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	missing := filepath.Join(temporary, "missing", "report.svg")
	fresh := filepath.Join(temporary, "report.html")
	code, out, failure := call(t.Context(), append(shortRun, "--html="+fresh, "--svg="+missing)...)
	assert.Equal(t, 1, code)
	assert.Contains(t, failure, "--svg: open "+missing)
	assert.Empty(t, out)
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestAnOutputThatIsClosedIsAnError(t *testing.T) {
	t.Parallel()
	servers := redistest.Real(t, 1)
	var stderr bytes.Buffer
	code := run(t.Context(), append(shortRun, "--nodes="+servers[0].URL()), streams{closedWriter{}, &stderr})
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr.String(), "closed pipe")
	nothingLeft(t, servers)
}

type closedWriter struct{}

func (closedWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestBenchFlagsThatMakeNoSenseAreRefusedAtOnceNamingTheValue(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing")) // nothing can be started
	one := "--nodes=redis://127.0.0.1:1"
	for want, args := range map[string][]string{
		"--callers: 0: must be from 1":                    {"--callers=0"},
		"--callers: -1: must be from 1":                   {"--callers=-1"},
		"--callers: 5000: must be from 1 to 1000":         {"--callers=5000"},
		"--rate: -5: must be from 0 to":                   {"--rate=-5"},
		"--rate: NaN: must be from 0 to":                  {"--rate=NaN"},
		"--rate: +Inf: must be":                           {"--rate=Inf"},
		`"many"`:                                          {"--rate=many"},
		`--names must be one of "distinct","hot"`:         {"--names=cold"},
		`but got "cold"`:                                  {"--names=cold"},
		"--ttl: 10ms: must be from 100ms":                 {"--ttl=10ms"},
		"--ttl: 1h0m0s: must be from":                     {"--ttl=1h"},
		"--timeout: 0s: must be from 1ms":                 {"--timeout=0s"},
		"--timeout: 3s: must be from 1ms to a quarter":    {"--timeout=3s"},
		"--duration: 1ms: must be from 10ms":              {"--duration=1ms"},
		"--warm-up: -1s: must be from 0s":                 {"--warm-up=-1s"},
		"--count: 0: must be from 1 to 15":                {"--count=0"},
		"--count: 16: must be from 1 to 15":               {"--count=16"},
		"--count: 3: only for nodes that the bench":       {"--count=3", one},
		"--freeze: -1: must not be below zero":            {"--freeze=-1"},
		"--kill: -2: must not be below zero":              {"--kill=-2"},
		"--freeze 6, --kill 0, --slow 0: these are 6":     {"--freeze=6"},
		"--freeze 2, --kill 2, --slow 2: these are 6":     {"--freeze=2", "--kill=2", "--slow=2", "--latency=1ms"},
		"--freeze: 1: only for nodes that the bench":      {"--freeze=1", one},
		"--kill: 1: only for nodes that the bench":        {"--kill=1", one},
		"--latency: 5ms: only for nodes that the bench":   {"--latency=5ms", one},
		"--latency: -5ms: must be from 0s":                {"--latency=-5ms"},
		"--slow: 0: must be at least 1":                   {"--slow=0", "--latency=5ms"},
		"--slow: 2: says how many nodes --latency is for": {"--slow=2"},
		"--nodes: pool: no URL given":                     {"--nodes="},
		`scheme "http"`:                                   {"--nodes=http://a"},
		`--prefix: redlock: the key prefix`:               {"--prefix=a\nb"},
		"--json and --csv can't be used together":         {"--json", "--csv"},
		"--html and --svg: x: must be two files":          {"--html=x", "--svg=x"},
	} {
		t.Run(want, func(t *testing.T) {
			code, out, failure := call(t.Context(), append([]string{"bench"}, args...)...)
			assert.Equal(t, 80, code)
			assert.Contains(t, failure, "redlock: error: ")
			assert.Contains(t, failure, want)
			assert.Empty(t, out)
		})
	}
}

func TestABenchWithFencingTakesLocksWithTokens(t *testing.T) {
	servers := redistest.Mini(t, 3)
	r, _ := bench(t, 0, "--fencing", "--callers=2", "--nodes="+strings.Join(redistest.URLs(servers), ","))
	assert.True(t, r.Fencing)
	assert.NotZero(t, r.Cycles)
	assert.Contains(t, strings.Join(r.headline(), "\n"), "names distinct, with fencing")
	for _, server := range servers {
		keys, err := redis.Strings(server.Do("KEYS", "*"))
		require.NoError(t, err)
		require.Len(t, keys, 2, "a counter for each caller's lock, and no lock")
		for _, key := range keys {
			assert.True(t, strings.HasSuffix(key, ":fence"), key)
			left, err := redis.Int(server.Do("PTTL", key))
			require.NoError(t, err)
			assert.Positive(t, left)
			assert.LessOrEqual(t, left, 70_000)
		}
	}
}
