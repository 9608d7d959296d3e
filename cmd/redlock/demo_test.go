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
	return len(regexp.MustCompile(`(?m)^   \S+:\d+ +`+what).FindAllString(step, -1))
}

// notHeld is the answer to a release that comes too late. The key may be missing on a node where
// C's key ended a moment later than on the others, so that D did not get it there.
const notHeld = `no +[\d.]+ [mµ]s  (another token holds the key|the key does not exist)$`

// A long node timeout costs nothing if nodes answer at once, and prevents failures on a busy
// machine.
var patient = []string{"demo", "--timeout=500ms"}

func TestDemo_SucceedsOnEmbeddedNodesAndShowsEachStep(t *testing.T) {
	t.Parallel()
	code, out, failure := call(t.Context(), patient...)
	require.Zero(t, code, failure)
	assert.Empty(t, failure)
	assert.NotContains(t, out, "\x1b", "colours without a terminal")
	step := steps(out)
	require.Len(t, step, 7, out)

	assert.Contains(t, step[0], "5 independent Redis nodes: whoever has 3 of them holds the lock")
	assert.Contains(t, step[0], demoPrefix)
	assert.Contains(t, step[0], "● yes  ○ no  · no answer, or not asked")

	assert.Equal(t, 5, rows(step[1], `yes +[\d.]+ [mµ]s$`), step[1])
	assert.Regexp(t, `●●●●●  A has the lock after [\d.]+ [mµ]s, valid for 9\.\d+ s`, step[1])

	assert.Equal(t, 5, rows(step[2], `no +[\d.]+ [mµ]s  another token holds the key$`), step[2])
	assert.Regexp(t, `○○○○○  B is refused after [\d.]+ [mµ]s: lock is taken`, step[2])

	assert.Equal(t, 2, rows(step[3], "unreachable$"), step[3])
	assert.Equal(t, 3, rows(step[3], "yes"), step[3])
	assert.Equal(t, 2, rows(step[3], "(unsent|unknown)"), step[3])
	assert.Regexp(t, `●●●··  B has the lock`, step[3])

	assert.Equal(t, 1, rows(step[4], "unreachable$"), step[4])
	assert.Equal(t, 3, rows(step[4], "(unsent|unknown)"), step[4])
	assert.Regexp(t, `●●···  A is refused after [\d.]+ [mµ]s: no quorum of nodes \(2 yes, 3 needed\)`, step[4])

	assert.GreaterOrEqual(t, strings.Count(step[5], "A waits: no quorum of nodes"), attempts, step[5])
	assert.Equal(t, 3, rows(step[5], "reachable again$"), step[5])
	assert.Contains(t, step[5], "A has the lock, valid for", step[5])

	assert.Contains(t, step[6], "and then: "+redlock.ErrExpired.Error())
	assert.GreaterOrEqual(t, rows(step[6], notHeld), 3, "%s", step[6]) // a node that was late to give it to C may be late to end it
	assert.Regexp(t, `C's release is refused after [\d.]+ [mµ]s: lock is not held`, step[6])
	assert.Contains(t, step[6], "D's lock is untouched: extended")
	assert.Contains(t, step[6], "✔ All 6 steps went as they should")
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

func TestDemo_SucceedsOnRealServersAndLeavesThemAlone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ n, minority int }{{3, 1}, {4, 1}, {5, 2}} {
		t.Run(fmt.Sprint(test.n), func(t *testing.T) {
			t.Parallel()
			servers := testredis.Real(t, test.n)
			others := make([]redis.Conn, test.n)
			for i, server := range servers {
				var err error
				others[i], err = redis.DialURL(server.URL())
				require.NoError(t, err)
				defer others[i].Close()
			}

			code, out, failure := call(t.Context(), append(patient, "--nodes="+strings.Join(testredis.URLs(servers), ","))...)
			require.Zero(t, code, failure)
			assert.Empty(t, failure)
			step := steps(out)
			require.Len(t, step, 7, out)
			assert.Equal(t, test.n, rows(step[1], "yes"), step[1])
			assert.Equal(t, test.n, rows(step[2], "no +[0-9.]+ [mµ]s  another token holds the key$"), step[2])
			assert.Equal(t, test.minority, rows(step[3], "unreachable$"), step[3])
			assert.Equal(t, 1, rows(step[4], "unreachable$"), step[4])
			assert.Equal(t, test.minority+1, rows(step[5], "reachable again$"), step[5])
			// A node that was late to give the lock to C may be late to end it, and not among those that D has.
			assert.Greater(t, rows(step[6], notHeld), test.n/2, step[6])
			fits(t, out)

			nothingLeft(t, servers)
			for _, other := range others {
				_, err := other.Do("PING")
				assert.NoError(t, err, "a connection that was not the demo's")
			}
		})
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

func TestDemo_FailsIfANodeIsDownFromTheStart(t *testing.T) {
	t.Parallel()
	servers := testredis.Real(t, 5)
	dead := servers[4]
	dead.Stop()
	code, out, failure := call(t.Context(), append(patient, "--nodes="+strings.Join(testredis.URLs(servers), ","))...)
	assert.Equal(t, exitUnavailable, code)
	assert.Contains(t, failure, "step 3 failed: expected B to get the lock from the nodes that are left, but got: ")
	assert.Contains(t, failure, "no quorum of nodes")
	for _, server := range servers {
		assert.Contains(t, failure, server.Addr())
	}
	assert.Len(t, steps(out), 4, out)
	assert.NotContains(t, out, "✔")
	nothingLeft(t, servers[:4])
}

func TestDemo_FailsIfAnotherHoldsTheLockAndLeavesItAlone(t *testing.T) {
	t.Parallel()
	servers := testredis.Real(t, 3)
	for _, server := range servers {
		_, err := server.Do("SET", "somebody's", "else")
		require.NoError(t, err)
	}
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

func TestDemo_FailsIfNoNodeAnswers(t *testing.T) {
	t.Parallel()
	servers := testredis.Real(t, 3)
	for _, server := range servers {
		server.Stop()
	}
	code, _, failure := call(t.Context(), append(patient, "--nodes="+strings.Join(testredis.URLs(servers), ","))...)
	assert.Equal(t, exitUnavailable, code)
	assert.Contains(t, failure, "step 1 failed: expected A to get the lock, but got: ")
	assert.Contains(t, failure, "connection refused")
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

func TestDemo_EndsAndCleansUpIfNobodyReadsItsOutput(t *testing.T) {
	t.Parallel()
	servers := testredis.Real(t, 3)
	var stderr bytes.Buffer
	code := run(t.Context(), append(patient, "--nodes="+strings.Join(testredis.URLs(servers), ",")), streams{closedWriter{}, &stderr})
	assert.Equal(t, exitOutput, code)
	assert.Contains(t, stderr.String(), "interrupted in step 1")
	nothingLeft(t, servers)
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
