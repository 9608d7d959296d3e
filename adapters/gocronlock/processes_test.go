package gocronlock_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// seconds returns how many ticks a test watches.
func seconds(t *testing.T) int {
	t.Helper()
	text := os.Getenv(envSeconds)
	if text == "" {
		return 10
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// count adds up the runs of each tick, and returns the first and the last tick too.
func count(t *testing.T, runs []run) (of map[int]int, first, last int) {
	t.Helper()
	of = map[int]int{}
	for _, r := range runs {
		tick, err := strconv.Atoi(r.tick)
		require.NoError(t, err, "%q", r.tick)
		of[tick]++
		if first == 0 || tick < first {
			first = tick
		}
		last = max(last, tick)
	}
	return of, first, last
}

// requireEachTickOnce is for ticks that are so many seconds apart.
func requireEachTickOnce(t *testing.T, all []run, every int) {
	t.Helper()
	of, first, last := count(t, all)
	for tick := first; tick <= last; tick += every {
		require.Equal(t, 1, of[tick], "tick %d of those from %d to %d: %v", tick, first, last, all)
	}
}

// The dangers: a short job that runs again where the clock is behind; a tick that nobody runs, as the instances have taken the
// servers from each other.
func TestLocker_OfThreeInstancesWhoseClocksDifferOneRunsEachTickAlsoIfAServerDies(t *testing.T) {
	t.Parallel()
	servers := testredis.Real(t, 5)
	children, runs := start(t, "locker", servers, 0, 100*time.Millisecond, -100*time.Millisecond)
	var all []run
	for n := range seconds(t) {
		all = append(all, next(t, runs))
		if n == 3 {
			servers[2].Stop()
		}
	}
	for _, c := range children {
		c.stop()
	}
	for r := range runs {
		all = append(all, r)
	}
	requireEachTickOnce(t, all, 1)
}

func TestElector_WhenTheLeaderIsKilledAnotherInstanceRunsTheJobs(t *testing.T) {
	t.Parallel()
	servers := testredis.Real(t, 5)
	children, runs := start(t, "elector", servers, 0, 100*time.Millisecond, -100*time.Millisecond)
	all := []run{next(t, runs)}
	leader := all[0].instance
	for range 2 {
		r := next(t, runs)
		require.Equal(t, leader, r.instance, "one instance is the leader")
		all = append(all, r)
	}
	servers[2].Stop()
	children[leader].Kill()
	second := next(t, runs)
	for second.instance == leader { // what it had printed
		all = append(all, second)
		second = next(t, runs)
	}
	all = append(all, second)
	for range 2 {
		r := next(t, runs)
		require.Equal(t, second.instance, r.instance, "one instance is the leader")
		all = append(all, r)
	}
	children[second.instance].stop()
	third := next(t, runs)
	for third.instance == second.instance {
		all = append(all, third)
		third = next(t, runs)
	}
	require.NotEqual(t, leader, third.instance)
	of, _, _ := count(t, all)
	for tick, n := range of {
		require.Equal(t, 1, n, "tick %d: %v", tick, all)
	}
}
