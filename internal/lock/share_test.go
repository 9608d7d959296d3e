package lock_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

func TestShare_ReadersDoNotWaitForEachOther(t *testing.T) {
	runAll(t, steady, map[string]queueCase{
		"who finds the queue empty has a round at once": {nodes: 3, steps: []step{
			{"share 1", "1"},
			{"share 2", "2"},
			{"won 2", ""},
			{"won 1", ""},
			{"share 3", "3"},
			{"leave 3", ""},
			{"join 4", "try"},
		}},
		"those behind one that has won follow, up to the first writer": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"share 2", ""},
			{"share 3", ""},
			{"share 4", ""},
			{"join 5", ""},
			{"share 6", ""},
			{"4ms: won", "tick 10s"},
			{"1s: unlocked", "2"},
			{"won", "3 4, observe 0, tick 31s"},
			{"won 4", ""},
			{"won 3", ""},
		}},
		"one that loses its round takes its place again": {nodes: 1, steps: []step{
			{"share 1", "1"},
			{"share 2", "2"},
			{"share 3", "3"},
			{"won 3", ""},
			{"join 4", "try"},
			{"share 5", ""},
			{"lost 2", ""}, // behind the one that has a round
			{"lost 1", ""},
			{"won", "tick 9.996s"},
			{"1s: unlocked", "1"},
			{"won", "2 5"},
		}},
		"one that loses it in front of a writer comes first, and the writer says no more that it waits": {nodes: 1, steps: []step{
			{"share 1", "1"},
			{"join 2", "try"},
			{"lost 2", "observe 0, tick 30s"},
			{"0 held |shared for 9s", "want 0, tick 1s"},
			{"1ms: lost 1", "unwant 0, observe 0, tick 30.001s"},
			{"2ms: 0 free", "1"},
			{"won", "observe 0, tick 30.002s"},
			{"0 held |shared for 9s", "want 0, tick 1.002s"},
		}},
		"one that loses it to a writer of this process waits for its release": {nodes: 1, steps: []step{
			{"share 1", "1"},
			{"join 2", "try"},
			{"won", ""},
			{"lost 1", "tick 9.996s"},
			{"1s: unlocked", "1"},
		}},
		"several end their rounds in any order": {nodes: 1, steps: []step{
			{"share 1", "1"},
			{"share 2", "2"},
			{"share 3", "3"},
			{"won 1", ""},
			{"lost 2", "observe 0, tick 30s"},
			{"leave 3", ""},
			{"2ms: 0 free", "2"},
			{"won", ""},
		}},
		"one that gives up its round leaves nothing": {nodes: 1, steps: []step{
			{"share 1", "1"},
			{"leave 1", ""},
			{"leave 1", ""},
			{"join 2", "try"},
			{"won", ""},
		}},
		"one that comes while the lock is held here waits for its release": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"won", ""},
			{"1s: share 2", "tick 9.996s"},
			{"2s: unlocked", "2"},
		}},
	})
}

func TestShare_AWriterSaysThatItWaits(t *testing.T) {
	runAll(t, passing, map[string]queueCase{
		"each second while readers are in its way, until it has the lock": {nodes: 3, steps: []step{
			{"join 1", "try"},
			{"lost", "observe 0 1 2, tick 30s"},
			{"0 held |shared for 9s", "want 0, tick 1s"},
			{"1 held |shared for 9s", "tick 1s"},
			{"2 held |shared for 9s", "tick 1s"},
			{"1s: tick", "want 0, tick 2s"},
			{"1.5s: 0 changed", "tick 2s"},
			{"1 changed", "tick 1.508s"},
			{"1.508s: tick", "observe 0, tick 2s"},
			{"0 free", "try"},
			{"won", "unwant 0"},
		}},
		"until it gives up": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"lost", "observe 0, tick 30s"},
			{"0 held |shared for 9s", "want 0, tick 1s"},
			{"leave 1", "unwant 0"},
		}},
		"until the next that waits is a reader, which sees the nodes otherwise": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"share 2", ""},
			{"lost", "observe 0, tick 30s"},
			{"0 held |shared for 9s", "want 0, tick 1s"},
			{"leave 1", "unwant 0, observe 0, tick 30s"},
			{"0 free", "2"},
		}},
		"until a lock of this process that was not waited for is handed off to it": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"lost", "observe 0, tick 30s"},
			{"0 held |shared for 9s", "want 0, tick 1s"},
			{"tried", ""},
			{"passed", "unwant 0"},
		}},
		"and the next writer goes on": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"join 2", ""},
			{"lost", "observe 0, tick 30s"},
			{"0 held |shared for 9s", "want 0, tick 1s"},
			{"10ms: leave 1", "tick 1s"},
			{"1s: tick", "want 0, tick 2s"},
		}},
		"not to a holder that nobody shares the lock with": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"lost", "observe 0, tick 30s"},
			{"0 held a.1 for 9s", "announce to a through 0, tick 9.001s"},
		}},
		"not if it reads": {nodes: 1, steps: []step{
			{"share 1", "1"},
			{"lost 1", "observe 0, tick 30s"},
			{"0 held |wanted for 3s", "tick 3.001s"},
		}},
	})
}

func TestShare_WhoSharesSaysWhatItWaitsFor(t *testing.T) {
	runAll(t, steady, map[string]queueCase{
		"its number of slots if more have one, until it has one": {nodes: 1, steps: []step{
			{"slot 1", "1"},
			{"lost 1", "observe 0, tick 30s"},
			{"0 held |slots for 9s", "tick 9.001s"},
			{"1s: 0 changed", "1"},
			{"lost 1", "observe 0, tick 31s"},
			{"0 over |slots for 9s", "want 2|slots, tick 2s"},
			{"1.1s: 0 told", "observe 0, tick 2s"},
			{"0 held |slots for 9s", "tick 2s"},
			{"2s: tick", "want 2|slots, tick 3s"},
			{"2.1s: 0 changed", "observe 0, tick 3s"},
			{"0 free", "1"},
			{"won", "unwant 2|slots"},
		}},
		"or until it gives up": {nodes: 1, steps: []step{
			{"slot 1", "1"},
			{"share 2", "2"},
			{"lost 1", "observe 0, tick 30s"},
			{"lost 2", ""},
			{"0 over |slots for 9s", "want 2|slots, tick 1s"},
			{"leave 1", "unwant 2|slots, observe 0, tick 30s"},
		}},
		"that nobody of another kind may come, until there are none": {nodes: 3, steps: []step{
			{"share 1", "1"},
			{"lost 1", "observe 0 1 2, tick 30s"},
			{"0 held |wanted for 3s", "tick 3.001s"},
			{"1 held |slots for 9s", "want 0|shared, tick 1s"},
			{"2 held |slots for 9s", "tick 1s"},
			{"1.1s: tick", "want 0|shared, tick 2.1s"},
			{"1.2s: 1 changed", "tick 2.1s"},
			{"2 changed", "1"},
			{"lost 1", "observe 0 1 2, tick 2.1s"},
			{"0 held |wanted for 3s", "tick 2.1s"},
			{"1 held |wanted for 3s", "unwant 0|shared, tick 4.201s"},
		}},
		"not what others say again": {nodes: 1, steps: []step{
			{"share 1", "1"},
			{"lost 1", "observe 0, tick 30s"},
			{"0 held |wanted for 3s", "tick 3.001s"},
			{"1s: 0 told", "observe 0, tick 3.001s"},
			{"0 told", ""},
			{"0 held |wanted for 3s", "tick 4.001s"},
			{"2s: 0 told", "observe 0, tick 4.001s"},
			{"0 free", "1"},
			{"0 told", ""},
		}},
	})
}

func TestShare_DataBesideTheKeyEndsTheWaitsOfItsKindOnly(t *testing.T) {
	runAll(t, steady, map[string]queueCase{
		"and the next observes the key": {nodes: 1, steps: []step{
			{"share 1", "1"},
			{"share 2", "2"},
			{"lost 1", "observe 0, tick 30s"},
			{"lost 2", ""},
			{"join 3", ""},
			{"0 data", "dismiss, observe 0, tick 30s"},
			{"0 free", "try"},
		}},
	})
}

func TestShare_PassesThoseThatWaitAfterEightWriters(t *testing.T) {
	d := newDriver(t, 9, steady)
	d.run([]step{
		{"share 1", "1"},
		{"lost 1", "observe 0 1 2 3 4 5 6 7 8, tick 30s"},
		{"0 held a.1 for 9s", "*"},
		{"1 held a.2 for 9s", "*"},
		{"2 held a.1 for 9s", "*"}, // the same writer
		{"3 held a.3 for 9s", "*"},
		{"4 held |wanted for 9s", "*"}, // none
		{"5 held a.4 for 9s", "*"},
		{"6 held a.5 for 9s", "*"},
		{"7 held a.6 for 9s", "*"},
		{"8 held a.7 for 9s", "announce to a through 8, tick 9.001s"},
		{"0 changed", "*"},
		{"share 2", ""},
	})
	require.False(t, passes(d, 1))
	d.run([]step{
		{"1s: 0 changed", "tick 9.001s"},
		{"1 changed", "*"},
		{"2 changed", "*"},
		{"3 changed", "*"},
		{"4 changed", "1"},
		{"lost 1", "observe 0 1 2 3 4 5 6 7 8, tick 31s"},
		{"0 held a.8 for 9s", "observe 0, announce to a through 0, tick 10.001s"},
		{"1 held a.8 for 9s", "observe 1, tick 10.001s"},
	})
	require.True(t, passes(d, 1))
	require.False(t, passes(d, 2), "who comes later has not seen them")
}

func TestShare_AnObservationForAnotherKindCountsForNothing(t *testing.T) {
	runAll(t, steady, map[string]queueCase{
		"of a writer that has given up": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"share 2", ""},
			{"lost", "observe 0, tick 30s"},
			{"leave 1", "tick 30s"},
			{"0 held |shared for 9s", "observe 0, tick 30s"},
			{"0 free", "2"},
		}},
		"that a writer waits is nothing to a writer": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"lost", "observe 0, tick 30s"},
			{"0 told", ""},
			{"0 held a.1 for 9s", "announce to a through 0, tick 9.001s"},
			{"0 told", ""},
		}},
	})
}

func TestShare_SlotsGoFromHandToHand(t *testing.T) {
	released := []step{ // a slot was left to others, as a call waits here
		{"slot 1", "1"},
		{"won 1", ""},
		{"slot 2", "2"},
		{"lost 2", "observe 0, tick 30s"},
		{"0 held |slots for 9s", "tick 9.001s"},
		{"10s: unlocked", ""},
	}
	left := slices.Concat(released, []step{ // and a call waits for another one
		{"slot 1", ""},
		{"0 changed", "2"},
		{"won 2", "1"},
		{"lost 1", "observe 0, tick 40s"},
	})
	runAll(t, steady, map[string]queueCase{
		"one more call follows each that has won": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"slot 2", ""},
			{"slot 3", ""},
			{"slot 4", ""},
			{"slot 5", ""},
			{"slot 6", ""},
			{"share 7", ""},
			{"won", "tick 9.996s"},
			{"1s: unlocked", "2"},
			{"won", "3, observe 0, tick 31s"}, // as there may be one more
			{"won 3", ""},
			{"0 free", "4"},
			{"won", "5 6, observe 0, tick 31s"}, // or two
		}},
		"none follows one that has lost": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"slot 2", ""},
			{"slot 3", ""},
			{"won", "tick 9.996s"},
			{"1s: unlocked", "2"},
			{"lost", "observe 0, tick 31s"},
			{"0 held |slots for 9s", "tick 10.001s"},
		}},
		"a release is followed by the round of the next": {nodes: 1, steps: []step{
			{"slot 1", "1"},
			{"won 1", ""},
			{"slot 2", "2"},
			{"slot 3", "3"},
			{"lost 2", "observe 0, tick 30s"},
			{"lost 3", ""},
			{"0 held |slots for 9s", "tick 9.001s"},
			{"200ms: unlocked", ""}, // it is left to whoever comes first
			{"0 changed", "2"},
		}},
		"and then each one for a while": {nodes: 1, steps: slices.Concat(left, []step{
			{"0 held |slots for 9s", "tick 19.001s"},
			{"10.01s: unlocked", "1"},
		})},
		"but not while another process waits that comes first": {nodes: 1, steps: slices.Concat(left, []step{
			{"0 held |wanted for 3s", "tick 13.001s"},
			{"10.01s: unlocked", ""},
		})},
		"nor while this process has said that there are too many": {nodes: 1, steps: []step{
			{"slot 1", "1"},
			{"won 1", ""},
			{"slot 2", "2"},
			{"slot 3", "3"},
			{"slot 4", "4"},
			{"lost 2", "observe 0, tick 30s"},
			{"lost 3", ""},
			{"lost 4", ""},
			{"0 over |slots for 9s", "want 2|slots, tick 1s"},
			{"200ms: unlocked", ""},
			{"0 changed", "2"},
			{"won 2", "3, observe 0, tick 1s"},
			{"lost 3", "tick 1s"},
			{"0 held |slots for 9s", "tick 1s"},
			{"210ms: unlocked", ""},
		}},
		"but a slot does not pass by a writer that has its round": {nodes: 1, steps: slices.Concat(released, []step{
			{"0 changed", "2"},
			{"won 2", ""},
			{"join 3", "try"},
			{"slot 4", ""},
			{"10.01s: unlocked", ""},
			{"lost 3", "observe 0, tick 40.01s"},
		})},
	})
}

func TestLost_LeavesACallThatDoesNotWaitOnTheStack(t *testing.T) {
	d := newDriver(t, 1, steady)
	a := d.ask(d.call("0"), 0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		c := lock.Call{Want: new(lock.Want)}
		d.Lost(nil, &c, a)
	}))
}

func TestLost_ASlotIsNoBoundOfFencingTokens(t *testing.T) {
	d := newDriver(t, 1, steady)
	d.run([]step{{"slot 1", "1"}})
	c := d.calls[1]
	a := d.ask(c, 0)
	d.answer(&a.Round, &wire.Reply{Answer: quorum.Yes, Slot: wire.SlotAt(699)})
	d.Lost(nil, c, a)
	d.run([]step{{"leave 1", ""}, {"join 2", "try"}})
	require.Zero(t, d.ask(d.calls[2], 0).Ask.Floor)
}
