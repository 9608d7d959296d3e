package lock_test

import (
	"math"
	"testing"
	"time"
)

// lost returns steps that begin with a round that was lost, after which node i shows seen[i].
func lost(seen ...string) []step {
	steps := []step{{"join 1", "try"}, {"lost", "*"}}
	for _, s := range seen {
		steps = append(steps, step{s, "*"})
	}
	return steps
}

func TestWait_SleepsWhileChangesArePushed(t *testing.T) {
	runAll(t, steady, map[string]queueCase{
		"until the end of the TTL that a majority is left with": {nodes: 3, steps: append(
			lost("0 held b.1 for 3s", "1 held b.1 for 1s"), []step{
				{"2 held b.1 for 2s", "tick 1.001s"},
				{"1.001s: tick", "tick 2.001s"},
				{"2.001s: tick", "try"},
			}...)},
		"a node without the key is no more to wait for": {nodes: 3, steps: append(
			lost("0 held b.1 for 3s", "1 free"), []step{
				{"2 held b.1 for 2s", "tick 2.001s"},
			}...)},
		"for half a minute, then it observes all nodes again": {nodes: 3, steps: append(
			lost("0 held b.1 for 1h", "1 held b.1 for 1h"), []step{
				{"2 held b.1 for 1h", "tick 30s"},
				{"30s: tick", "observe 0 1 2, tick 1m0s"},
			}...)},
		"but not if only one node is tracked, and another token is there": {nodes: 3, steps: append(
			lost("0 held b.1 for 1h untracked", "1 held b.1 for 1h untracked"), []step{
				{"2 held c.1 for 1h", "announce to c through 2, tick 1ms"},
				{"1ms: tick", "try"},
			}...)},
		"nor while too many have not answered": {nodes: 3, steps: append(
			lost("0 held b.1 for 1h", "1 silent"), []step{
				{"2 silent", "tick 1ms"},
				{"1ms: tick", "try"},
			}...)},
		"two of four nodes in other hands are enough to keep it from a majority, and the others are observed again": {nodes: 4, steps: append(
			lost("0 held b.1 for 1h", "1 held c.1 for 1h", "2 silent"), []step{
				{"3 silent", "tick 1ms"},
				{"1ms: tick", "observe 2 3, tick 30s"},
			}...)},
		"but not for longer than their TTLs": {nodes: 4, steps: append(
			lost("0 held b.1 for 1s", "1 held c.1 for 2s", "2 free"), []step{
				{"3 silent", "tick 1.001s"},
				{"1.001s: tick", "try"},
			}...)},
	})
}

func TestWait_PollsIfNoChangesArePushed(t *testing.T) {
	const held = "0 held b.1 for 1h untracked"
	runAll(t, steady, map[string]queueCase{
		"ever more slowly, as it is the same holder": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"lost", "*"},
			{held, "announce to b through 0, tick 1ms"},
			{"1ms: tick", "try"},
			{"lost", "*"},
			{held, "tick 3ms"},
			{"3ms: tick", "try"},
			{"lost", "*"},
			{held, "tick 7ms"},
		}},
		"never beyond the TTL": {nodes: 1, steps: append(lost(), step{"0 held b.1 for 0s untracked", "*"},
			step{"tick", "tick 1ms"}, step{"1ms: tick", "try"})},
		"if tracking was lost on too many nodes": {nodes: 3, steps: append(
			lost("0 held b.1 for 1h", "1 held b.1 for 1h", "2 held b.1 for 1h"), []step{
				{"1s: 0 lost", "tick 30s"},
				{"1 lost", "try"},
			}...)},
		"but not if it was on a few": {nodes: 3, steps: append(
			lost("0 held b.1 for 1h", "1 held b.1 for 1h", "2 held b.1 for 1h"), []step{
				{"1s: 0 lost", "tick 30s"},
				{"1.001s: 0 tracking", "observe 0, tick 30s"},
				{"0 held b.1 for 1h", "tick 30s"},
			}...)},
		"and no longer when it is active": {nodes: 1, steps: append(lost(), []step{
			{"0 held b.1 for 1h untracked", "*"},
			{"500us: 0 tracking", "observe 0, tick 30s"},
			{"1ms: 0 held b.1 for 1h", "tick 30s"},
		}...)},
	})
}

// Contenders that lose to each other again and again would never resolve a split vote.
func TestWait_BacksOffAfterSplitVotes(t *testing.T) {
	runAll(t, steady, map[string]queueCase{
		"what observations free is not taken at once": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"lost", "*"},
			{"0 free", "tick 1ms"},
			{"1ms: tick", "try"},
			{"lost", "*"},
			{"0 free", "tick 3ms"},
		}},
		"unless a holder was in the way": {nodes: 3, steps: append(lost("0 held b.1 for 1h", "1 held b.1 for 1h", "2 held b.1 for 1h"), []step{
			{"0 changed", "tick 30s"},
			{"1 changed", "try"},
		}...)},
		"and never for longer than the longest pause": {nodes: 1, steps: func() (steps []step) {
			steps = append(steps, step{"join 1", "try"})
			for range 30 {
				steps = append(steps, step{"lost", "*"}, step{"0 free", "*"}, step{"unlocked", "try"})
			}
			return append(steps, step{"lost", "*"}, step{"0 free", "tick 100ms"})
		}()},
	})
}

func TestWait_TakesAWakeUpAsAHint(t *testing.T) {
	extended := append(lost("0 held b.1 for 10s", "1 held b.1 for 10s", "2 held b.1 for 10s"), []step{
		{"3s: 0 changed", "tick 10.001s"},
		{"1 changed", "try"},
		{"2 changed", ""},
		{"3.002s: lost", "observe 0 1 2, tick 33.002s"},
		{"0 held b.1 for 10s", "*"},
		{"1 held b.1 for 10s", "*"},
		{"2 held b.1 for 10s", "tick 13.003s"},
	}...)
	runAll(t, steady, map[string]queueCase{
		"the first leads to a round, as soon as a majority may be free": {nodes: 5, steps: append(
			lost("0 held b.1 for 1h", "1 held b.1 for 1h", "2 held b.1 for 1h", "3 free", "4 held b.1 for 1h"), []step{
				{"1s: 4 changed", "tick 30s"},
				{"1.001s: 0 changed", "try"},
			}...)},
		"and to nothing, if no other follows": {nodes: 3, steps: append(
			lost("0 held b.1 for 1h", "1 held b.1 for 1h", "2 held b.1 for 1h"), []step{
				{"1s: 2 changed", "tick 30s"},
				{"30s: tick", "observe 0 1 2, tick 1m0s"},
			}...)},
		"the next to an observation, one node after the other until a majority cannot be free": {nodes: 3, steps: append(extended, []step{
			{"6s: 1 changed", "tick 13.003s"},
			{"0 changed", "observe 0, tick 13.003s"},
			{"2 changed", "tick 13.003s"},
			{"6.001s: 0 held b.1 for 10s", "observe 1, tick 13.003s"},
			{"6.002s: 1 held b.1 for 10s", "tick 13.003s"},
			{"9s: 1 changed", "observe 1, tick 13.003s"},
			{"9.001s: 1 held b.1 for 10s", "tick 13.003s"},
		}...)},
		"and to a round if that node is free": {nodes: 3, steps: append(extended, []step{
			{"6s: 1 changed", "tick 13.003s"},
			{"0 changed", "observe 0, tick 13.003s"},
			{"6.001s: 0 free", "try"},
		}...)},
		"what one node alone holds is no other holder": {nodes: 3, steps: append(
			lost("0 held c.1 for 5s", "1 held b.1 for 10s", "2 held b.1 for 10s"), []step{
				{"1s: 1 changed", "*"},
				{"1.001s: 2 changed", "try"},
				{"lost", "observe 0 1 2, tick 31.001s"},
				{"0 held c.1 for 5s", "*"},
				{"1 held b.1 for 10s", "*"},
				{"2 held b.1 for 10s", "*"},
				{"2s: 0 changed", "tick 6.002s"},
				{"1 changed", "observe 0, tick 6.002s"},
				{"0 held c.1 for 10s", "announce to c through 0, tick 11.002s"},
			}...)},
		"a lock that goes from hand to hand is observed ever more slowly": {nodes: 1, steps: append(lost("0 held b.1 for 10s"), []step{
			{"1s: 0 changed", "try"},
			{"lost", "*"},
			{"0 held b.2 for 10s", "*"},
			{"1.001s: 0 changed", "observe 0, tick 11.001s"},
			{"1.002s: 0 held b.3 for 10s", "*"},
			{"1.003s: 0 changed", "tick 1.01s"},
			{"1.01s: tick", "observe 0, tick 11.003s"},
			{"1.011s: 0 held b.4 for 10s", "*"},
			{"1.012s: 0 changed", "tick 1.027s"},
			{"1.027s: tick", "observe 0, tick 11.012s"},
			{"1.028s: 0 free", "tick 1.036s"}, // the next may be about to take it
			{"1.036s: tick", "try"},
		}...)},
		"a change that is pushed before the answer to an observation happened before it": {nodes: 1, steps: append(lost("0 held b.1 for 10s"), []step{
			{"1s: 0 changed", "try"},
			{"lost", "observe 0, tick 31s"},
			{"0 changed", ""},
			{"0 held b.1 for 10s", "tick 11.001s"},
			{"0 changed", "observe 0, tick 11.001s"},
		}...)},
		"so did the loss of tracking": {nodes: 1, steps: append(lost("0 silent", "0 tracking"), []step{
			{"0 lost", "*"},
			{"0 held b.1 for 1h", "announce to b through 0, tick 30s"},
		}...)},
	})
}

// An observation that is due when a round begins is not sent, so it must not be waited for after the round.
func TestWait_DoesNotAwaitAnObservationThatARoundReplaces(t *testing.T) {
	runAll(t, steady, map[string]queueCase{
		"if tracking becomes active": {nodes: 3, steps: append(lost("0 free", "1 free", "2 free"), []step{
			{"1ms: 2 tracking", "try"},
			{"lost", "observe 0 1 2, tick 30.001s"},
		}...)},
		"on the only node": {nodes: 1, steps: append(lost("0 free"), []step{
			{"0 changed", "tick 1ms"},
			{"1ms: 0 tracking", "try"},
			{"lost", "observe 0, tick 30.001s"},
		}...)},
	})
}

func TestWait_KeyWithoutATTL(t *testing.T) {
	seen := []string{"0 held old", "1 held old", "2 free"}
	never := steady
	never.Heal = 0
	t.Run("is in the way for ever if nobody heals", func(t *testing.T) {
		newDriver(t, 3, never).run(append(lost(seen...), []step{
			{"9s: tick", "tick 10s"},
			{"10s: tick", "stuck for 10s on 0 1, tick 30s"},
			{"29s: tick", "tick 30s"},
			{"30s: tick", "observe 0 1 2, tick 1m0s"},
			{"0 held old", "*"},
			{"1 held old", "tick 1m0s"},
			{"denied", ""},
		}...))
	})
	runAll(t, steady, map[string]queueCase{
		"is deleted when it was there for long enough": {nodes: 3, steps: append(lost(seen...), []step{
			{"tick", "tick 1s"},
			{"999ms: tick", "tick 1s"},
			{"1s: tick", "observe 0 1, tick 10s"},
			{"0 held old", "heal 0, tick 10s"},
			{"1 held old", "heal 1, tick 10s"},
			{"0 healed", "try"},
		}...)},
		"is not what changes, or another": {nodes: 1, steps: append(lost("0 held old"), []step{
			{"500ms: 0 changed", "try"},
			{"lost", "observe 0, tick 30.5s"},
			{"0 held old", "tick 1.5s"},
			{"600ms: 0 tracking", "observe 0, tick 30.5s"},
			{"0 held new", "announce to new through 0, tick 1.6s"},
		}...)},
		"is not what may have changed": {nodes: 1, steps: append(lost("0 held old"), []step{
			{"500ms: 0 tracking", "observe 0, tick 30s"},
			{"0 held old", "tick 1.5s"},
			{"600ms: 0 lost", "try"}, // nobody would tell when it changes
			{"lost", "observe 0, tick 30.6s"},
			{"0 held old", "tick 1.6s"},
			{"700ms: 0 tracking", "observe 0, tick 30.6s"},
			{"0 held old", "tick 1.7s"},
		}...)},
		"is not what was seen on another node alone": {nodes: 3, steps: append(lost("0 held b.1 for 1h", "1 held b.1 for 1h", "2 held b.1 for 1h"), []step{
			{"1s: 0 changed", "*"},
			{"1 changed", "try"},
			{"lost", "*"},
			{"0 held b.1 for 1h", "*"},
			{"1 held b.1 for 1h", "*"},
			{"2 held b.1 for 1h", "*"},
			{"2s: 0 changed", "tick 31s"},
			{"1 changed", "observe 0, tick 31s"},
			{"0 held old", "announce to old through 0, tick 3s"},
			{"3s: tick", "observe 0, tick 31s"},
			{"0 held old", "heal 0, tick 31s"},
		}...)},
		"is known again after an observation that failed": {nodes: 1, steps: append(lost("0 held old untracked"), []step{
			{"500ms: tick", "try"},
			{"lost", "*"},
			{"0 silent", "*"},
			{"700ms: tick", "try"},
			{"lost", "*"},
			{"0 held old", "tick 1s"},
		}...)},
		"is observed if it was not deleted": {nodes: 1, steps: append(lost("0 held old"), []step{
			{"1s: tick", "observe 0, tick 10s"},
			{"0 held old", "heal 0, tick 10s"},
			{"1.001s: 0 not healed", "observe 0, tick 30s"},
			{"1.002s: 0 held old", "tick 2.002s"},
		}...)},
		"is not observed while it is being deleted": {nodes: 3, steps: append(lost("0 held old", "1 held b.1 for 10s", "2 held b.1 for 10s"), []step{
			{"1s: tick", "observe 0, tick 10.001s"},
			{"0 held old", "heal 0, announce to old through 0, tick 10.001s"},
			{"0 changed", ""},
			{"1 changed", "tick 10.001s"},
		}...)},
	})
}

// What comes while the lock is held here is ignored, and all nodes are observed afterwards.
func TestWait_IgnoresChangesWhileTheLockIsHeldHere(t *testing.T) {
	runAll(t, steady, map[string]queueCase{"": {nodes: 1, steps: []step{
		{"join 1", "try"},
		{"lost", "observe 0, tick 30s"},
		{"unlocked", "try"},
		{"4ms: won", ""},
		{"0 free", ""},
		{"0 changed", ""},
		{"0 lost", ""},
		{"0 tracking", ""},
		{"join 2", "tick 10s"},
		{"10s: tick", "try"},
		{"lost", "observe 0, tick 40s"},
		{"leave 2", ""},
		{"0 held b.1 for 1s", ""},
		{"0 not healed", ""},
	}}})
}

// The last call leaves while an observation is under way, and the next one comes while others have the turn.
func TestWait_DoesNotTrustWhatANodeShowedBeforeItChanged(t *testing.T) {
	newDriver(t, 1, steady).run([]step{
		{"join 1", "try"},
		{"4ms: won", ""},
		{"peer b", ""},
		{"10ms: unlocked", "turn to b"},
		{"join 2", "*"},
		{"0 turn", "try"},
		{"lost", "*"},
		{"leave 2", ""},
		{"0 held b.1 for 1s", "*"},
		{"12ms: 0 changed", ""},
		{"join 3", "observe 0, tick 1.011s"},
	})
}

func TestWait_PausesBetweenAQuarterAndTheWholeOfTheBackOff(t *testing.T) {
	longest := steady
	longest.Random = func(below time.Duration) time.Duration { return below - 1 }
	newDriver(t, 1, longest).run([]step{
		{"join 1", "try"},
		{"lost", "*"},
		{"0 free", "tick 3.999999ms"},
		{"4ms: tick", "try"},
		{"lost", "*"},
		{"0 free", "tick 11.999999ms"},
	})
}

func TestWait_BackOffThatOverflowsIsTheLongest(t *testing.T) {
	pace := steady
	pace.First, pace.Most = 1<<60, 1<<61
	newDriver(t, 1, pace).run([]step{
		{"join 1", "try"},
		{"lost", "*"}, {"unlocked", "try"},
		{"lost", "*"}, {"unlocked", "try"},
		{"lost", "*"}, {"unlocked", "try"},
		{"lost", "*"}, {"unlocked", "try"},
		{"lost", "*"}, {"0 free", "tick 30s"}, // with what has overflowed the pause would be over
	})
}

// The product must not overflow to something short either.
func TestWait_BackOffThatWrapsAroundIsTheLongest(t *testing.T) {
	pace := steady
	pace.First, pace.Most = 1<<44+1, 1<<62
	steps := []step{{"join 1", "try"}}
	for range 20 {
		steps = append(steps, step{"lost", "*"}, step{"unlocked", "try"})
	}
	newDriver(t, 1, pace).run(append(steps, []step{{"lost", "*"}, {"0 free", "tick 30s"}}...))
}

// The danger: the longest TTL that a server can name is over at once.
func TestWait_ATTLWithoutEndIsNotOver(t *testing.T) {
	const forEver = "0 held b.1 for 2562047h47m16.854775806s"
	newDriver(t, 1, steady).run([]step{
		{"join 1", "try"}, {"lost", "observe 0, tick 30s"}, {forEver, "announce to b through 0, tick 30s"}, {"10s: tick", "tick 30s"},
	})
}

// The danger: it yields for no time, or for years.
func TestWait_YieldsForSomeRoundTripsHoweverLongTheBackOff(t *testing.T) {
	for _, longest := range []time.Duration{time.Hour, math.MaxInt64/2 + 1, math.MaxInt64} {
		pace := steady
		pace.First, pace.Most = longest, longest
		newDriver(t, 1, pace).run([]step{
			{"join 1", "try"}, {"won", "*"}, {"peer b", ""}, {"unlocked", "turn to b"}, {"join 2", "announce to b through 0, tick 1.751s"},
		})
	}
}
