package quorum_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

func TestThoseWhoWaitGetTheirTurnInTheOrderInWhichTheyCame(t *testing.T) {
	tellAll(t, steady, map[string]queueStory{
		"a round for the first, and a tick when the lock is over for the next": {nodes: 3, story: []step{
			{"join 1", "try"},
			{"join 2", ""},
			{"4ms: won", "tick 10s"},
			{"join 3", ""},
			{"1s: unlocked", "try"},
			{"1.004s: won", "tick 11s"},
			{"11s: tick", "try"},
		}},
		"one who comes while it is held waits for its end": {nodes: 1, story: []step{
			{"join 1", "try"},
			{"4ms: won", ""},
			{"1s: join 2", "tick 10s"},
			{"2s: tick", "tick 10s"},
			{"leave 2", ""},
			{"11s: join 3", "try"},
		}},
		"who gives up behind others changes nothing": {nodes: 1, story: []step{
			{"join 1", "try"},
			{"join 2", ""},
			{"join 3", ""},
			{"leave 2", ""},
			{"leave 2", ""},
			{"4ms: won", "tick 10s"},
			{"leave 3", ""},
			{"unlocked", ""},
		}},
		"who gives up in a round leaves it to the next": {nodes: 1, story: []step{
			{"join 1", "try"},
			{"join 2", ""},
			{"leave 1", "try"},
			{"leave 2", ""},
			{"join 3", "try"},
		}},
		"who gives up between rounds leaves the next what is known": {nodes: 1, story: []step{
			{"join 1", "try"},
			{"join 2", ""},
			{"lost", "look 0"},
			{"0 held a.1 for 1s", "announce to a through 0, tick 1.001s"},
			{"leave 1", "tick 1.001s"},
			{"1.001s: tick", "try"},
		}},
		"a release that is sent in a round is followed by another round": {nodes: 1, story: []step{
			{"join 1", "try"},
			{"join 2", ""},
			{"4ms: won", "tick 10s"},
			{"10s: tick", "try"},
			{"10.001s: unlocked", ""},
			{"10.002s: lost", "try"},
			{"10.003s: lost", "look 0"},
		}},
		"a look that is answered in a round tells nothing, and is sent again": {nodes: 1, story: []step{
			{"join 1", "try"},
			{"lost", "look 0"},
			{"unlocked", "try"},
			{"0 free", ""},
			{"lost", "look 0"},
		}},
		"a look that is answered after the round is older than it, and is followed by another round": {nodes: 1, story: []step{
			{"join 1", "try"},
			{"lost", "look 0"},
			{"unlocked", "try"},
			{"lost", ""},
			{"0 held b.1 for 1h", "try, announce to b through 0"},
		}},
	})
}

func TestAnIdleQueueCanBeForgotten(t *testing.T) {
	c := newCounter(1, steady)
	require.True(t, c.Idle(start))
	c.tell(t, []step{{"join 1", "try"}})
	require.False(t, c.Empty())
	require.False(t, c.Idle(start), "somebody waits")
	head, ok := c.Head()
	require.True(t, ok)
	require.Equal(t, 1, head)

	c.tell(t, []step{{"4ms: won", ""}})
	require.True(t, c.Empty())
	_, ok = c.Head()
	require.False(t, ok)
	require.False(t, c.Idle(start), "somebody holds it")

	c.tell(t, []step{{"heard b", ""}, {"10ms: unlocked", "pass to b"}})
	require.False(t, c.Idle(c.now), "it is for others to take it")
	require.True(t, c.Idle(start.Add(18*time.Millisecond)))
}

// handOver has the lock go from hand to hand until it does not any more, and says how often it did.
func handOver(t *testing.T, c *counter, most int) (times int) {
	t.Helper()
	c.tell(t, []step{{"join 0", "try"}})
	for c.do(t, fmt.Sprintf("join %d", times+1)); times < most; times++ {
		c.now = c.now.Add(10 * time.Millisecond)
		c.do(t, "won")
		c.do(t, fmt.Sprintf("join %d", times+2))
		if !c.do(t, "unlocked").Try {
			return times + 1
		}
	}
	return times
}

// Trap 23.
func TestALockGoesFromHandToHandForSoLongAndThenToAnotherProcess(t *testing.T) {
	t.Run("sooner to one that has said that it waits", func(t *testing.T) {
		c := newCounter(3, steady)
		c.Heard("b")
		require.Equal(t, 6, handOver(t, c, 100))
	})
	t.Run("later to those that say nothing", func(t *testing.T) {
		require.Equal(t, 48, handOver(t, newCounter(3, steady), 100))
	})
	t.Run("another holder in between counts", func(t *testing.T) {
		c := newCounter(1, steady)
		require.Equal(t, 47, handOver(t, c, 47))
		c.tell(t, []step{
			{"lost", "look 0"},
			{"0 held b.1 for 1s", "*"},
			{"500ms: 0 changed", "try"},
			{"504ms: won", "*"},
			{"600ms: unlocked", "try"},
		})
	})
	t.Run("so does a pause", func(t *testing.T) {
		c := newCounter(1, steady)
		require.Equal(t, 47, handOver(t, c, 47))
		c.tell(t, []step{
			{"500ms: won", "*"},
			{"leave 48", ""},
			{"leave 49", ""},
			{"600ms: unlocked", ""},
			{"700ms: join 50", "try"},
			{"704ms: won", ""},
			{"join 51", "tick 10.7s"},
			{"800ms: unlocked", "try"},
		})
	})
	t.Run("a holder of this process that has extended its lock does not", func(t *testing.T) {
		c := newCounter(1, steady)
		require.Equal(t, 47, handOver(t, c, 47))
		c.tell(t, []step{
			{"600ms: won", "tick 10.596s"},
			{"10.596s: tick", "try"},
			{"10.6s: lost", "look 0"},
			{"0 held self.1 for 9s", "tick 19.601s"},
			{"11s: unlocked", "tick 11.008s"},
		})
	})
}

func TestTurnsGoFromProcessToProcess(t *testing.T) {
	tellAll(t, steady, map[string]queueStory{
		"the baton goes to the first that has said that it waits, with the others": {nodes: 3, story: []step{
			{"join 1", "try"},
			{"4ms: won", ""},
			{"heard b", ""},
			{"heard c", ""},
			{"heard b", ""},
			{"heard self", ""},
			{"heard d", ""},
			{"unlocked", "pass to b before c d"},
			{"unlocked", ""},
		}},
		"whoever gives up last passes it on": {nodes: 3, story: []step{
			{"join 1", "try"},
			{"heard b", ""},
			{"leave 1", "pass to b"},
		}},
		"but not while it is held": {nodes: 3, story: []step{
			{"join 1", "try"},
			{"4ms: won", ""},
			{"heard b", ""},
			{"join 2", "tick 10s"},
			{"leave 2", ""},
		}},
		"the holder is told once that somebody waits, and so is the next": {nodes: 3, story: []step{
			{"join 1", "try"},
			{"lost", "look 0 1 2"},
			{"0 held b.1 for 1s", "announce to b through 0, tick 30s"},
			{"1 held b.1 for 1s", "tick 1.001s"},
			{"2 held c.1 for 1s", "announce to c through 2, tick 1.001s"},
		}},
		"a turn that a majority has told begins a round, and the rest of the news none": {nodes: 3, story: []step{
			{"join 1", "try"},
			{"lost", "look 0 1 2"},
			{"0 told c", ""},
			{"0 told c", ""},
			{"2 told c", "try"},
			{"1 told c", ""},
			{"lost", ""}, // the looks are still under way
			{"1 told", ""},
			{"2 told", "try"},
			{"4ms: won", ""},
			{"unlocked", "pass to c"},
		}},
		"a turn that comes in a round is not lost with it": {nodes: 3, story: []step{
			{"join 1", "try"},
			{"0 told", ""},
			{"1 told", ""},
			{"lost", "try"},
			{"lost", "look 0 1 2"},
		}},
		"nor with one for a lock that was held here until then": {nodes: 1, story: []step{
			{"join 1", "try"},
			{"4ms: won", ""},
			{"join 2", "tick 10s"},
			{"10s: tick", "try"},
			{"0 told", ""},
			{"lost", "try"},
		}},
		"a turn that comes when nobody waits goes on": {nodes: 3, story: []step{
			{"0 told b c", ""},
			{"1 told b c", "pass to b before c"},
			{"0 told", ""},
			{"1 told", ""},
		}},
		"news of a turn that was taken before do not spoil the next": {nodes: 3, story: []step{
			{"join 1", "try"},
			{"4ms: won", ""},
			{"0 told", ""},
			{"1 told", ""},
			{"2 told", ""},
			{"heard b", ""},
			{"10ms: unlocked", "pass to b"},
			{"11ms: join 2", "tick 18ms"},
			{"1 told", ""},
			{"0 told", "try"},
		}},
	})
}

func TestWhoPassesTheTurnOnLooksTwiceBeforeItTakesWhatLooksFree(t *testing.T) {
	tellAll(t, steady, map[string]queueStory{
		"the other has taken it": {nodes: 1, story: []step{
			{"join 1", "try"},
			{"4ms: won", ""},
			{"heard b", ""},
			{"10ms: unlocked", "pass to b"},
			{"12ms: join 2", "tick 18ms"},
			{"18ms: tick", "look 0, tick 30.01s"},
			{"20ms: 0 held b.1 for 1s", "announce to b through 0, tick 420ms"},
		}},
		"the other does not want it": {nodes: 1, story: []step{
			{"join 1", "try"},
			{"4ms: won", ""},
			{"heard b", ""},
			{"10ms: unlocked", "pass to b"},
			{"12ms: join 2", "tick 18ms"},
			{"18ms: tick", "look 0, tick 30.01s"},
			{"20ms: 0 free", "tick 28ms"},
			{"28ms: tick", "look 0, tick 30.01s"},
			{"30ms: 0 free", "try"},
		}},
	})
}

func TestNoMoreRivalsAreRememberedThanAMessageCanCarry(t *testing.T) {
	c := newCounter(1, steady)
	c.tell(t, []step{{"join 1", "try"}, {"4ms: won", ""}})
	for i := range 1000 {
		c.Heard(strconv.Itoa(i))
	}
	require.Len(t, c.Unlocked(c.now).Pass.Rivals, 255)
}

func TestARoundThatTookForEverDoesNotMakeOthersWaitForEver(t *testing.T) {
	c := newCounter(1, steady)
	c.tell(t, []step{{"join 1", "try"}, {"heard b", ""}})
	c.Won(start.Add(time.Hour), quorum.Grant{Start: start, TTL: 2 * time.Hour})
	c.tell(t, []step{
		{"1h0m1s: unlocked", "pass to b"},
		{"join 2", "tick 1h0m1.107s"}, // an eighth of 400 ms, twice, and the 7 ms that were
	})
}
