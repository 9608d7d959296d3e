package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/benchreport"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// A long node timeout prevents failures on a busy machine.
var shortRun = []string{"bench", "--callers=4", "--duration=250ms", "--warm-up=50ms", "--timeout=500ms"}

// bench runs the command and returns what it printed as JSON.
func bench(t *testing.T, wantCode int, args ...string) (r benchreport.Report, failure string) {
	t.Helper()
	code, out, failure := call(t.Context(), append(append(shortRun, "--json"), args...)...)
	require.Equal(t, wantCode, code, failure)
	require.NoError(t, json.Unmarshal([]byte(out), &r), out)
	return r, failure
}

// gone checks that the nodes that the bench started have ended.
func gone(t *testing.T, r benchreport.Report) {
	t.Helper()
	for _, node := range r.Nodes {
		_, err := net.Dial("tcp", node.Addr)
		assert.Error(t, err, node.Addr)
	}
}

func faulty(r benchreport.Report, fault string) (nodes []benchreport.Node) {
	for _, node := range r.Nodes {
		if r.Faults[node.Addr] == fault {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

func TestBench_MeasuresServersThatItStartsAndEndsThem(t *testing.T) {
	testredis.Real(t, 0) // skips this test too if redis-server is missing
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
		assert.Zero(t, node.Answers["unknown"]+node.Answers["unsent"], node.Addr)
		assert.NotZero(t, node.Latency.P50)
	}
	assert.NotZero(t, r.Cycles)
	assert.Equal(t, r.Cycles, r.Of(benchreport.Acquire).Count)
	assert.Equal(t, r.Cycles, r.Of(benchreport.Release).Count)
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

func TestBench_GoesOnWithOneNodeFrozenOneKilledAndOneSlow(t *testing.T) {
	t.Parallel()
	testredis.Real(t, 0)
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

func TestBench_FailsAndShowsWhyIfAMajorityFailsDuringTheRun(t *testing.T) {
	t.Parallel()
	testredis.Real(t, 0)
	for _, fault := range []string{"--freeze=2", "--kill=2"} {
		r, failure := bench(t, exitInternal, "--count=3", "--timeout=100ms", "--duration=500ms", fault)
		assert.Contains(t, failure, "no cycle succeeded")
		assert.Contains(t, failure, "no quorum of nodes")
		assert.Zero(t, r.Cycles)
		require.NotEmpty(t, r.Failures)
		assert.Equal(t, "no_quorum", r.Failures[0].Kind)
		assert.Equal(t, r.Failures[0].Count, r.Of(benchreport.Refusal).Count)
		assert.NotZero(t, r.Lost)
		gone(t, r)
	}
}

func TestBench_CallersOfAHotLockWaitForIt(t *testing.T) {
	t.Parallel()
	servers := testredis.Real(t, 3)
	r, failure := bench(t, 0, "--names=hot", "--nodes="+strings.Join(testredis.URLs(servers), ","))
	assert.Empty(t, failure)
	assert.Equal(t, remoteKind, r.Kind)
	assert.NotZero(t, r.Cycles)
	assert.Less(t, r.Lost, 5+r.Won/2, "they wait for each other, instead of asking again and again")
	for _, f := range r.Failures {
		assert.Equal(t, "unfinished", f.Kind)
	}
	nothingLeft(t, servers)
}

func TestBench_StartsEmbeddedNodesIfRedisServerIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("QUORUMLOCK_REDIS_SERVER", "")
	r, failure := bench(t, 0, "--count=3", "--kill=1")
	assert.Empty(t, failure)
	assert.Equal(t, embeddedKind+", as redis-server is not installed", r.Kind)
	assert.NotZero(t, r.Cycles)
	killed := faulty(r, "killed")
	require.Len(t, killed, 1)
	assert.Zero(t, killed[0].Answers["yes"])
	gone(t, r)

	code, out, failure := call(t.Context(), append(shortRun, "--freeze=1")...)
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, failure, "--freeze needs redis-server processes: redis-server is not installed")
	assert.Empty(t, out)
}

func TestBench_InterruptedShowsItsResultUntilThenAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, names := range []string{"distinct", "hot"} {
		t.Run(names, func(t *testing.T) {
			t.Parallel()
			servers := testredis.Real(t, 3)
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
			code, out, failure := call(ctx, "bench", "--names="+names, "--warm-up=0s", "--duration=1h", "--timeout=2s",
				"--nodes="+strings.Join(testredis.URLs(servers), ","))
			<-watching
			assert.Equal(t, exitInternal, code)
			assert.Contains(t, failure, "interrupted after")
			assert.Contains(t, failure, "of 1h:")
			assert.Contains(t, out, "(interrupted)")
			assert.Contains(t, out, servers[2].Addr())
			nothingLeft(t, servers)
		})
	}
}

func TestBench_InterruptedBeforeTheMeasurementLeavesNothing(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, out, failure := call(ctx, shortRun...)
	assert.Equal(t, exitInternal, code)
	assert.Contains(t, failure, "context canceled")
	assert.Empty(t, out)
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestBench_RefusesInvalidFlagsAndNamesThem(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing")) // nothing can be started
	one := "--nodes=redis://127.0.0.1:1"
	refuses(t, []string{"bench"}, map[string][]string{
		"--callers must be between 1 and 1000, not 0":    {"--callers=0"},
		"--callers must be between 1 and 1000, not -1":   {"--callers=-1"},
		"--callers must be between 1 and 1000, not 5000": {"--callers=5000"},
		"--rate must be between 0 and 1000000, not -5":   {"--rate=-5"},
		"--rate must be between 0 and 1000000, not NaN":  {"--rate=NaN"},
		"--rate must be between 0 and 1000000, not +Inf": {"--rate=Inf"},
		`"many"`: {"--rate=many"},
		`--names must be one of "distinct","hot"`: {"--names=cold"},
		`but got "cold"`: {"--names=cold"},
		"--ttl must be between 100ms and 1m, not 10ms":     {"--ttl=10ms"},
		"--ttl must be between 100ms and 1m, not 1h":       {"--ttl=1h"},
		"--timeout must be between 1ms and 2.5s, not 0s":   {"--timeout=0s"},
		"not 3s: at most a quarter of the TTL":             {"--timeout=3s"},
		"--duration must be between 10ms and 24h, not 1ms": {"--duration=1ms"},
		"--warm-up must be between 0s and 24h, not -1s":    {"--warm-up=-1s"},
		"--count must be between 1 and 15, not 0":          {"--count=0"},
		"--count must be between 1 and 15, not 16":         {"--count=16"},
		"--freeze must be between 0 and 15, not -1":        {"--freeze=-1"},
		"--kill must be between 0 and 15, not -2":          {"--kill=-2"},
		"--freeze 6, --kill 0 and --slow 0 need 6 nodes":   {"--freeze=6"},
		"--slow 2 need 6 nodes, but --count is 5":          {"--freeze=2", "--kill=2", "--slow=2", "--latency=1ms"},
		"--nodes cannot be combined with --count":          {"--count=3", one},
		"with --count, --freeze":                           {"--freeze=1", one},
		"--freeze, --kill":                                 {"--kill=1", one},
		"--kill and --latency: these are for nodes":        {"--latency=5ms", one},
		"--latency must be between 0s and 1m, not -5ms":    {"--latency=-5ms"},
		"--slow must be between 1 and 15, not 0":           {"--slow=0", "--latency=5ms"},
		"--slow needs --latency":                           {"--slow=2"},
		"--nodes: no URL given":                            {"--nodes="},
		"--nodes: node 1: scheme: must be redis://":        {"--nodes=http://a"},
		"did you mean redis:// before it?":                 {"--nodes=localhost:6379"},
		"--json and --csv can't be used together":          {"--json", "--csv"},
		"the key prefix":                                   {"--prefix=a\nb", one},
	})
}

func TestBench_FencingLeavesOnlyCountersThatExpire(t *testing.T) {
	servers := testredis.Mini(t, 3)
	r, _ := bench(t, 0, "--fencing", "--callers=2", "--nodes="+strings.Join(testredis.URLs(servers), ","))
	assert.True(t, r.Fencing)
	assert.NotZero(t, r.Cycles)
	assert.Contains(t, strings.Join(r.Headline(), "\n"), "names distinct, with fencing")
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

func TestBench_FailsAtOnceWithTheReasonOfEachUnreachableNode(t *testing.T) {
	t.Parallel()
	servers := testredis.Real(t, 3)
	servers[0].Stop()
	servers[1].Stop()
	code, out, failure := call(t.Context(), append(shortRun, "--duration=1h", "--nodes="+strings.Join(testredis.URLs(servers), ","))...)
	assert.Equal(t, exitUnavailable, code)
	assert.Empty(t, out)
	assert.Contains(t, failure, "the bench needs 2 of 3 nodes")
	assert.Equal(t, 2, strings.Count(failure, "connection refused"), failure)
	assert.Contains(t, failure, servers[0].Addr())
	nothingLeft(t, servers[2:])
}
