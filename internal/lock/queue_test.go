package lock_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/lock"
)

func TestQueue_ServesWaitersInTheOrderInWhichTheyCame(t *testing.T) {
	runAll(t, steady, map[string]queueCase{
		"a round for the first, and a tick when the lock is over for the next": {nodes: 3, steps: []step{
			{"join 1", "try"},
			{"join 2", ""},
			{"4ms: won", "tick 10s"},
			{"join 3", ""},
			{"1s: unlocked", "try"},
			{"1.004s: won", "tick 11s"},
			{"11s: tick", "try"},
		}},
		"one who comes while it is held waits for its end": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"4ms: won", ""},
			{"1s: join 2", "tick 10s"},
			{"2s: tick", "tick 10s"},
			{"leave 2", ""},
			{"11s: join 3", "try"},
		}},
		"who gives up behind others changes nothing": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"join 2", ""},
			{"join 3", ""},
			{"leave 2", ""},
			{"leave 2", ""},
			{"4ms: won", "tick 10s"},
			{"leave 3", ""},
			{"unlocked", ""},
		}},
		"who gives up in a round leaves it to the next": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"join 2", ""},
			{"leave 1", "try"},
			{"leave 2", ""},
			{"join 3", "try"},
		}},
		"who gives up between rounds leaves the next what is known": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"join 2", ""},
			{"lost", "observe 0, tick 30s"},
			{"0 held a.1 for 1s", "announce to a through 0, tick 1.001s"},
			{"leave 1", "tick 1.001s"},
			{"1.001s: tick", "try"},
		}},
		"a release that is sent in a round is followed by another round": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"join 2", ""},
			{"4ms: won", "tick 10s"},
			{"10s: tick", "try"},
			{"10.001s: unlocked", ""},
			{"10.002s: lost", "try"},
			{"10.003s: lost", "observe 0, tick 40.003s"},
		}},
		"an observation that is answered in a round counts for nothing, and is sent again": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"lost", "observe 0, tick 30s"},
			{"unlocked", "try"},
			{"0 free", ""},
			{"lost", "observe 0, tick 30s"},
		}},
		"an observation that is answered after the round counts, as what has changed since will be pushed": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"lost", "observe 0, tick 30s"},
			{"unlocked", "try"},
			{"lost", "tick 30s"},
			{"0 held b.1 for 1h", "announce to b through 0, tick 30s"},
			{"1s: 0 changed", "try"},
		}},
	})
}

func TestQueue_WatchesALockThatIsLeftOnTheNodes(t *testing.T) {
	runAll(t, steady, map[string]queueCase{
		"which wakes those who wait": {nodes: 3, steps: []step{
			{"join 1", "try"},
			{"join 2", ""},
			{"4ms: won", "tick 10s"},
			{"1s: detached", "observe 0 1 2, tick 31s"},
			{"0 held self.1 for 9s", "*"},
			{"1 held self.1 for 9s", "*"},
			{"2 held self.1 for 9s", "tick 10.001s"},
			{"2s: 0 changed", "*"},
			{"1 changed", "try"},
		}},
		"for those who come later too": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"4ms: won", ""},
			{"1s: detached", ""},
			{"join 2", "try"},
			{"lost", "observe 0, tick 31s"},
		}},
		"when a round that is under way has been lost": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"join 2", ""},
			{"4ms: won", "tick 10s"},
			{"10s: tick", "try"},
			{"detached", ""},
			{"lost", "observe 0, tick 40s"},
		}},
	})
	c := newDriver(t, 1, steady)
	c.run([]step{{"join 1", "try"}, {"4ms: won", ""}, {"detached", ""}})
	require.True(t, c.Idle(), "nobody here holds it")
}

func TestQueue_Idle(t *testing.T) {
	c := newDriver(t, 1, steady)
	require.True(t, c.Idle())
	c.run([]step{{"join 1", "try"}})
	require.Len(t, c.Waiting(), 1)
	require.False(t, c.Idle(), "somebody waits")

	c.run([]step{{"4ms: won", ""}})
	require.Empty(t, c.Waiting())
	require.False(t, c.Idle(), "somebody holds it")

	c.run([]step{{"peer b", ""}, {"10ms: unlocked", "turn to b"}})
	require.False(t, c.Idle(), "it is for others to take it")
	c.now = start.Add(18 * time.Millisecond)
	require.True(t, c.Idle())
}

// keep has the process give the lock to one of its waiters after the other, and returns how often it does.
func keep(t *testing.T, c *driver, most int, steps ...step) (times int) {
	t.Helper()
	c.run(append([]step{{"join 0", "try"}}, steps...))
	for c.do(fmt.Sprintf("join %d", times+1)); times < most; times++ {
		c.now = c.now.Add(10 * time.Millisecond)
		c.do("won")
		c.do(fmt.Sprintf("join %d", times+2))
		if !tries(c.do("unlocked")) {
			return times + 1
		}
	}
	return times
}

// A name that one process releases and takes again at once, for ever, would starve the others.
func TestQueue_KeepsTheLockForSoManyWinsAndThenYields(t *testing.T) {
	t.Run("sooner to a peer that has announced itself", func(t *testing.T) {
		require.Equal(t, 6, keep(t, newDriver(t, 3, steady), 100, step{"peer b", ""}))
	})
	t.Run("later to others", func(t *testing.T) {
		require.Equal(t, 48, keep(t, newDriver(t, 3, steady), 100))
	})
	t.Run("another holder in between counts", func(t *testing.T) {
		c := newDriver(t, 1, steady)
		require.Equal(t, 47, keep(t, c, 47))
		c.run([]step{
			{"lost", "observe 0, tick 30.47s"},
			{"0 held b.1 for 1s", "*"},
			{"500ms: 0 changed", "try"},
			{"504ms: won", "*"},
			{"600ms: unlocked", "try"},
		})
	})
	t.Run("a holder of this process that has extended its lock does not", func(t *testing.T) {
		c := newDriver(t, 1, steady)
		require.Equal(t, 47, keep(t, c, 47))
		c.run([]step{
			{"600ms: won", "tick 10.596s"},
			{"10s: extended", ""},
			{"10.596s: tick", "tick 20s"},
			{"11s: unlocked", "tick 11.008s"},
		})
	})
}

func TestTurn_GoesFromProcessToProcess(t *testing.T) {
	runAll(t, steady, map[string]queueCase{
		"the lock goes to the first peer that waits, with the names of the others": {nodes: 3, steps: []step{
			{"join 1", "try"},
			{"4ms: won", ""},
			{"peer b", ""},
			{"peer c", ""},
			{"peer b", ""},
			{"peer self", ""},
			{"peer d", ""},
			{"unlocked", "turn to b before c d"},
			{"unlocked", ""},
		}},
		"the last waiter that gives up hands it over": {nodes: 3, steps: []step{
			{"join 1", "try"},
			{"peer b", ""},
			{"leave 1", "turn to b"},
		}},
		"but not while it is held": {nodes: 3, steps: []step{
			{"join 1", "try"},
			{"4ms: won", ""},
			{"peer b", ""},
			{"join 2", "tick 10s"},
			{"leave 2", ""},
		}},
		"a waiter announces itself once to the holder, and to the next": {nodes: 3, steps: []step{
			{"join 1", "try"},
			{"lost", "observe 0 1 2, tick 30s"},
			{"0 held b.1 for 1s", "announce to b through 0, tick 1.001s"},
			{"1 held b.1 for 1s", "tick 1.001s"},
			{"2 held c.1 for 1s", "announce to c through 2, tick 1.001s"},
		}},
		"a turn that comes through a majority begins a round, and its other messages none": {nodes: 3, steps: []step{
			{"join 1", "try"},
			{"lost", "observe 0 1 2, tick 30s"},
			{"0 turn c", ""},
			{"0 turn c", ""},
			{"2 turn c", "try"},
			{"1 turn c", ""},
			{"lost", "tick 30s"}, // the observations are still under way
			{"1 turn", ""},
			{"2 turn", "try"},
			{"4ms: won", ""},
			{"unlocked", "turn to c"},
		}},
		"one that comes in a round is not lost with it": {nodes: 3, steps: []step{
			{"join 1", "try"},
			{"0 turn", ""},
			{"1 turn", ""},
			{"lost", "try"},
			{"lost", "observe 0 1 2, tick 30s"},
		}},
		"nor with one for a lock that was held here until then": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"4ms: won", ""},
			{"join 2", "tick 10s"},
			{"10s: tick", "try"},
			{"0 turn", ""},
			{"lost", "try"},
		}},
		"one that comes when nobody waits goes on to the next": {nodes: 3, steps: []step{
			{"0 turn b c", "turn to b before c"}, // as nobody has ever waited
			{"join 1", "try"},
			{"leave 1", ""},
			{"0 turn b c", "turn to b before c"},
			{"1 turn", ""},
		}},
		"late messages of one do not count for the next": {nodes: 3, steps: []step{
			{"join 1", "try"},
			{"4ms: won", ""},
			{"0 turn", ""},
			{"1 turn", ""},
			{"2 turn", ""},
			{"peer b", ""},
			{"10ms: unlocked", "turn to b"},
			{"11ms: join 2", "announce to b through 0, tick 18ms"},
			{"1 turn", ""},
			{"0 turn", "try"},
		}},
	})
}

func TestTurn_LeavesTimeToThePeer(t *testing.T) {
	runAll(t, steady, map[string]queueCase{
		"the other has taken it": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"4ms: won", ""},
			{"peer b", ""},
			{"10ms: unlocked", "turn to b"},
			{"12ms: join 2", "announce to b through 0, tick 18ms"},
			{"18ms: tick", "observe 0, tick 30.01s"},
			{"20ms: 0 held b.1 for 1s", "announce to b through 0, tick 1.021s"},
		}},
		"a message of the turn before, which comes late, changes nothing": {nodes: 3, steps: []step{
			{"join 1", "try"},
			{"4ms: won", ""},
			{"peer b", ""},
			{"10ms: unlocked", "turn to b"},
			{"12ms: join 2", "announce to b through 0, tick 18ms"},
			{"2 turn", ""},
			{"18ms: tick", "observe 0, tick 30.01s"},
		}},
		"a peer that has not seen the release, and says that it waits, changes nothing": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"4ms: won", ""},
			{"peer b", ""},
			{"10ms: unlocked", "turn to b"},
			{"12ms: join 2", "announce to b through 0, tick 18ms"},
			{"peer c", ""},
			{"18ms: tick", "observe 0, tick 30.01s"},
			{"20ms: 0 held b.1 for 1s", "announce to b through 0 c, tick 1.021s"},
		}},
		"the other takes it when it looks free": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"4ms: won", ""},
			{"peer b", ""},
			{"10ms: unlocked", "turn to b"},
			{"12ms: join 2", "announce to b through 0, tick 18ms"},
			{"18ms: tick", "observe 0, tick 30.01s"},
			{"20ms: 0 free", "tick 28ms"},
			{"22ms: 0 changed", "tick 28ms"},
			{"28ms: tick", "observe 0, tick 30.01s"},
			{"30ms: 0 held b.1 for 1s", "announce to b through 0, tick 1.031s"},
		}},
		"the other does not want it": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"4ms: won", ""},
			{"peer b", ""},
			{"10ms: unlocked", "turn to b"},
			{"12ms: join 2", "announce to b through 0, tick 18ms"},
			{"18ms: tick", "observe 0, tick 30.01s"},
			{"20ms: 0 free", "tick 28ms"},
			{"28ms: tick", "try"},
		}},
	})
}

func TestTurn_RemembersNoMorePeersThanAMessageCanCarry(t *testing.T) {
	c := newDriver(t, 1, steady)
	c.run([]step{{"join 1", "try"}, {"4ms: won", ""}})
	for i := range 1000 {
		c.PeersWait(nil, 0, []lock.Peer{{Owner: strconv.Itoa(i)}})
	}
	for _, a := range c.do("unlocked") {
		if a.What == lock.Publish {
			require.Len(t, a.Message.Peers, 255)
			return
		}
	}
	require.Fail(t, "the turn was not passed")
}

func TestTurn_YieldDelayIsBoundedAfterALongRound(t *testing.T) {
	c := newDriver(t, 1, steady)
	c.run([]step{{"join 1", "try"}, {"peer b", ""}})
	c.now, c.calls[1].Want.TTL = start.Add(time.Hour), 2*time.Hour
	c.won(time.Hour)
	c.run([]step{
		{"1h0m1s: unlocked", "turn to b"},
		{"join 2", "announce to b through 0, tick 1h0m1.107s"}, // an eighth of 400 ms, twice, and the 7 ms that were
	})
}

func TestQueue_IsTakenIfANodeWasSeenToBeHeldOrItIsTheTurnOfOthers(t *testing.T) {
	c := newDriver(t, 3, steady)
	c.run(append(lost(), step{"0 data", "*"}))
	require.False(t, c.Taken(start.Add(1)), "nothing is known, and data of another program is in nobody's hands")
	c.run([]step{{"1 held b.1 for 1s", "*"}})
	require.True(t, c.Taken(start.Add(1)))

	c = newDriver(t, 3, steady)
	c.run([]step{{"peer b", ""}, {"join 1", "try"}, {"peer b", ""}, {"4ms: won", ""}})
	require.True(t, c.Taken(start.Add(time.Hour)), "it is held here")
	c.run([]step{{"unlocked", "turn to b"}})
	require.True(t, c.Taken(c.now), "it was held here")
	require.True(t, c.Taken(c.now.Add(1)), "the other has its turn")
	c.now = start.Add(time.Second)
	require.False(t, c.Taken(c.now))
}

// The danger: who lets his locks expire has the memory of his process filled with them.
func TestName_ForgetsLocksThatHaveExpired(t *testing.T) {
	c := newDriver(t, 3, steady)
	for range 10 {
		c.run([]step{{"tried", ""}})
		c.now = c.now.Add(c.ttl)
	}
	leases := 0
	for range c.Leases {
		leases++
	}
	require.Equal(t, 1, leases)
}
