package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

// steps splits the output of a demo: [0] is the title, [i] the i-th step.
func steps(out string) []string {
	return regexp.MustCompile(`(?m)^\d  `).Split(out, -1)
}

// rows counts the lines of a step that are about a node and match what.
func rows(step, what string) int {
	return len(regexp.MustCompile(`(?m)^   node \d+ +`+what).FindAllString(step, -1))
}

// notHeld is the answer to a release that comes too late. The key may be missing on a node where
// C's key ended a moment later than on the others, so that D did not get it there.
const notHeld = `no +[\d.]+ [mµ]s  (another token holds the key|the key does not exist)$`

// A long node timeout costs nothing if nodes answer at once, and prevents failures on a busy
// machine.
var patient = []string{"demo", "--timeout=500ms"}

func TestDemo_SucceedsOnEmbeddedNodes(t *testing.T) {
	t.Parallel()
	showsEachStep(t, 5)
}

func TestDemo_SucceedsOnRealServersAndLeavesThemAlone(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 4, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			servers := testredis.Real(t, n)
			others := make([]redis.Conn, n)
			for i, server := range servers {
				var err error
				others[i], err = redis.DialURL(server.URL())
				require.NoError(t, err)
				defer others[i].Close()
			}
			showsEachStep(t, n, "--nodes="+strings.Join(testredis.URLs(servers), ","))
			nothingLeft(t, servers)
			for _, other := range others {
				_, err := other.Do("PING")
				assert.NoError(t, err, "a connection that was not the demo's")
			}
		})
	}
}

// showsEachStep runs the demo on n nodes, which succeeds, and checks what it shows.
func showsEachStep(t *testing.T, n int, flags ...string) {
	t.Helper()
	code, out, failure := call(t.Context(), append(patient, flags...)...)
	require.Zero(t, code, failure)
	assert.Empty(t, failure)
	assert.NotContains(t, out, "\x1b", "colours without a terminal")
	step := steps(out)
	require.Len(t, step, 9, out)
	need := n/2 + 1
	marks := func(yes int) string { return strings.Repeat("●", yes) + strings.Repeat("·", n-yes) }

	assert.Contains(t, step[0], fmt.Sprintf("%d independent Redis nodes: whoever has %d of them holds the lock", n, need))
	assert.Contains(t, step[0], demoPrefix)
	assert.Len(t, regexp.MustCompile(`(?m)^       node \d+  \S+:\d+$`).FindAllString(step[0], -1), n)
	assert.Contains(t, step[0], "● yes  ○ no  · no answer, or not asked")

	assert.Equal(t, n, rows(step[1], `yes +[\d.]+ [mµ]s$`), step[1])
	assert.Regexp(t, marks(n)+`  A has the lock after [\d.]+ [mµ]s, valid for 9\.\d+ s`, step[1])

	assert.Equal(t, n, rows(step[2], `no +[\d.]+ [mµ]s  another token holds the key$`), step[2])
	assert.Regexp(t, strings.Repeat("○", n)+`  B is refused after [\d.]+ [mµ]s: lock is taken`, step[2])

	assert.Equal(t, n-need, rows(step[3], "unreachable$"), step[3])
	assert.Equal(t, need, rows(step[3], "yes"), step[3])
	assert.Equal(t, n-need, rows(step[3], "(unsent|unknown)"), step[3])
	assert.Contains(t, step[3], marks(need)+"  B has the lock")

	assert.Equal(t, 1, rows(step[4], "unreachable$"), step[4])
	assert.Equal(t, n-need+1, rows(step[4], "(unsent|unknown)"), step[4])
	refused := marks(need-1) + `  A is refused after [\d.]+ [mµ]s: no quorum of nodes \(%d yes, %d needed\)`
	assert.Regexp(t, fmt.Sprintf(refused, need-1, need), step[4])

	assert.GreaterOrEqual(t, strings.Count(step[5], "A waits: no quorum of nodes"), attempts, step[5])
	assert.Equal(t, n-need+1, rows(step[5], "reachable again$"), step[5])
	assert.Contains(t, step[5], "A has the lock, valid for", step[5])

	assert.Contains(t, step[6], "and then: "+redlock.ErrExpired.Error())
	// A node that was late to give the lock to C may be late to end it, and not among those that D has.
	assert.Greater(t, rows(step[6], notHeld), n/2, "%s", step[6])
	assert.Regexp(t, `C's release is refused after [\d.]+ [mµ]s: lock is not held`, step[6])
	assert.Contains(t, step[6], "D's lock is untouched: extended")

	assert.Contains(t, step[7], marks(n)+"  A has the lock")
	assert.Regexp(t, `the context of A's work ends after [\d.]+ [mµ]s: lock is gone`, step[7])

	numbers := regexp.MustCompile(`D writes with (\d+): done\n   C writes with (\d+): refused, as it has seen (\d+)\n`).FindStringSubmatch(step[8])
	require.NotNil(t, numbers, step[8])
	assert.Equal(t, numbers[1], numbers[3])
	assert.Less(t, numbers[2], numbers[1], "both have as many digits")
	assert.Contains(t, step[8], "✔ All 8 steps went as they should")
	assert.True(t, strings.HasSuffix(out, "Next: redlock demo --nodes URL,URL,URL · docs/guide.md\n"), out)
	fits(t, out)
}

// fits checks that what was printed fits on a screen.
func fits(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		assert.LessOrEqual(t, utf8.RuneCountInString(line), screen, line)
		assert.Equal(t, strings.TrimRight(line, " "), line, "spaces at the end")
	}
}

// nothingLeft checks that neither a key nor a connection of the tool is left. The servers may take
// a moment to notice that a connection was closed.
func nothingLeft(t *testing.T, servers []*testredis.Process) {
	t.Helper()
	for _, server := range servers {
		keys, err := redis.Strings(server.Do("KEYS", "*"))
		require.NoError(t, err)
		assert.Empty(t, keys, server.Addr())
		assert.Eventually(t, func() bool {
			clients, err := redis.String(server.Do("CLIENT", "LIST"))
			return err == nil && !strings.Contains(clients, "name=redlock-")
		}, 5*time.Second, 5*time.Millisecond, "connections to %s", server.Addr())
	}
}

func TestDemo_FailsIfNodesAreDownFromTheStart(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		nodes, down, steps int
		failure            string
	}{
		{5, 1, 3, "step 3 failed: expected B to get the lock from the nodes that are left, but got: "},
		{3, 3, 1, "step 1 failed: expected A to get the lock, but got: "},
	} {
		servers := testredis.Real(t, test.nodes)
		each(servers[:test.down], (*testredis.Process).Stop)
		code, out, failure := call(t.Context(), append(patient, "--nodes="+strings.Join(testredis.URLs(servers), ","))...)
		assert.Equal(t, exitUnavailable, code)
		assert.Contains(t, failure, test.failure)
		assert.Contains(t, failure, "no quorum of nodes")
		assert.Contains(t, failure, "connection refused")
		named := 0
		for _, server := range servers {
			if strings.Contains(failure, server.Addr()+": ") {
				named++
			}
		}
		assert.Greater(t, named, test.nodes/2, "a majority is named: %s", failure)
		assert.Len(t, steps(out), 1+test.steps, out)
		assert.NotContains(t, out, "✔")
		nothingLeft(t, servers[test.down:])
	}
}

func TestDemo_FailsIfAnotherHoldsTheLockAndLeavesItAlone(t *testing.T) {
	t.Parallel()
	servers := testredis.Real(t, 3)
	do(t, servers, "SET", "somebody's", "else")
	var out bytes.Buffer
	demo := demoCmd{Nodes: testredis.URLs(servers), TTL: 10 * time.Second, Timeout: 500 * time.Millisecond, name: "somebody's"}
	require.NoError(t, demo.Validate())
	err := demo.Run(t.Context(), streams{&out, &out})
	require.ErrorIs(t, err, redlock.ErrTaken)
	assert.ErrorContains(t, err, "step 1 failed: expected A to get the lock, but got: ")
	assert.Equal(t, 3, rows(out.String(), "no +[0-9.]+ [mµ]s  another token holds the key$"), out.String())
	for _, server := range servers {
		value, err := redis.String(server.Do("GET", "somebody's"))
		require.NoError(t, err)
		assert.Equal(t, "else", value)
	}
}

// trigger is a writer that calls do once, when text has been written.
type trigger struct {
	bytes.Buffer
	text string
	do   func()
}

func (w *trigger) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if w.do != nil && strings.Contains(w.String(), w.text) {
		w.do()
		w.do = nil
	}
	return n, err
}

var errMeant = errors.New("the test ends the command")

func TestDemo_InterruptedEndsSoonAndCleansUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		at   string // what is on the screen
		step int    // where that is; the next one may have begun
	}{
		"before the first step":                     {"redlock-demo:", 1},
		"while A holds the lock":                    {"A has the lock", 1},
		"while nodes are unreachable":               {"unreachable\n", 3},
		"while B holds the lock on a majority":      {"B has the lock", 3},
		"without a majority":                        {"A is refused", 4},
		"while A waits":                             {"A waits", 5},
		"when the nodes have just become reachable": {"reachable again", 5},
		"while C works":                             {"C has the lock", 6},
		"while D holds the lock, and C had it":      {"D has the lock", 6},
		"after a release that has been refused":     {"release is refused", 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := testredis.Real(t, 3)
			ctx, cancel := context.WithCancelCause(t.Context())
			out := &trigger{text: test.at, do: func() { cancel(errMeant) }}
			var stderr bytes.Buffer
			code := run(ctx, append(patient, "--nodes="+strings.Join(testredis.URLs(servers), ",")), streams{out, &stderr})
			require.Nil(t, out.do, "never printed %q:\n%s", test.at, out)
			nothingLeft(t, servers)
			assert.Equal(t, exitInternal, code)
			assert.Regexp(t, fmt.Sprintf("interrupted in step [%d-%d]", test.step, test.step+1), stderr.String())
			assert.NotContains(t, out.String(), "✔")
		})
	}
}

func TestExpect_ExplainsWhatWasExpectedAndWhatCame(t *testing.T) {
	require.NoError(t, expect("A to get the lock", nil, nil))
	require.NoError(t, expect("A to be refused", redlock.ErrTaken, fmt.Errorf("try: %w", redlock.ErrTaken)))
	require.EqualError(t, expect("A to get the lock", nil, redlock.ErrTaken),
		"expected A to get the lock, but got: redlock: lock is taken")
	require.EqualError(t, expect("A to be refused", redlock.ErrTaken, nil),
		`expected A to be refused with "lock is taken", but it succeeded`)
	require.EqualError(t, expect("A to be refused", redlock.ErrTaken, redlock.ErrNoQuorum),
		`expected A to be refused with "lock is taken", but got: redlock: no quorum of nodes`)
}
