package quorum_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// nodes are a set of nodes whose clocks agree, and a client that takes locks on them, one each second.
type fencedNodes struct {
	*testing.T
	clock    quorum.CounterClock
	now      time.Time
	ahead    time.Duration // the nodes' clocks, of the client's
	counters map[string]uint64
	agreed   bool // whether the nodes granted the same number
}

// take takes the lock of a name, and returns its fencing token.
func (n *fencedNodes) take(name string) uint64 {
	n.Helper()
	n.now = n.now.Add(time.Second)
	estimate, known := n.clock.Estimate(n.now)
	if !known {
		estimate = n.now.UnixMicro()
	}
	const slack = 1_000_000
	n.agreed = true
	if n.counters[name]++; int64(n.counters[name]) <= estimate-slack || !known { // as in fenced_acquire.lua
		begin := n.now.Add(n.ahead).UnixMicro()
		if off := estimate - begin; -slack <= off && off <= slack {
			begin = estimate
		} else {
			n.agreed = false // each sets the counter to a clock of its own
		}
		n.counters[name] = max(n.counters[name], uint64(begin)+1)
	}
	n.clock.Learn(n.now, uint64(estimate), n.counters[name])
	return n.counters[name]
}

// off returns how far the estimate is off the nodes' clocks.
func (n *fencedNodes) off() time.Duration {
	micros, known := n.clock.Estimate(n.now)
	require.True(n, known)
	return time.Duration(micros-n.now.Add(n.ahead).UnixMicro()) * time.Microsecond
}

func newFencedNodes(t *testing.T, ahead time.Duration) *fencedNodes {
	return &fencedNodes{T: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), ahead: ahead, counters: map[string]uint64{}}
}

func TestCounterClock_LearnsTheTimeOfTheNodesAndFollowsClocksThatAreSet(t *testing.T) {
	for _, first := range []time.Duration{-time.Hour, -2 * time.Second, 0, time.Second, time.Hour} {
		n := newFencedNodes(t, first)
		for i, ahead := range []time.Duration{first, 0, time.Hour, -time.Hour, 3 * time.Second, -3 * time.Second, 0} {
			n.ahead = ahead
			n.now = n.now.Add(time.Minute)
			n.take(string(rune('가' + i)))
			for _, name := range []string{string(rune('나' + i)), string(rune('가' + i))} {
				n.take(name)
				require.True(t, n.agreed, "%v, at first %v", ahead, first)
			}
			require.Less(t, n.off().Abs(), time.Second)
		}
	}
}

func TestCounterClock_DoesNotStayUpAfterOneCounterThatWasAhead(t *testing.T) {
	n := newFencedNodes(t, 0)
	n.take("a")
	n.counters["ahead"] = uint64(n.now.Add(time.Hour).UnixMicro())
	n.take("ahead")
	n.take("b")
	require.False(t, n.agreed, "once")
	disagreed := 0
	for _, name := range []string{"c", "ahead", "d", "ahead", "e", "ahead", "ahead", "f", "a", "ahead", "b"} {
		n.take(name)
		require.True(t, n.agreed, name)
	}
	for i := range 600 {
		n.take("ahead")
		n.take(string(rune('가' + i)))
		if !n.agreed {
			disagreed++
		}
	}
	require.Less(t, disagreed, 600/10, "seldom, though that name is used all the time")
}

// The danger: with an estimate that lags a counter from an older copy of the data is used. A counter in use is up to a second
// behind the estimate, and so are the tokens.
func TestCounterClock_DoesNotFallBehindTheNodesWithCountersThatLag(t *testing.T) {
	n := newFencedNodes(t, 0)
	n.take("a")
	for range 1000 {
		n.now = n.now.Add(-600 * time.Millisecond) // which is one every 400 ms
		n.take("a")
		require.Greater(t, n.off(), -100*time.Millisecond)
	}
	n.ahead = 400 * time.Millisecond // what drift makes in the time of a minute
	estimate, _ := n.clock.Estimate(n.now)
	n.clock.Learn(n.now, uint64(estimate), uint64(n.now.Add(n.ahead).UnixMicro()))
	require.Zero(t, n.off().Truncate(time.Millisecond), "any token above it raises it")
}
