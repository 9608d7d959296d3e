package quorum_test

import (
	"testing"
	"time"
)

// lost begins a story with a round that was lost, after which node i shows seen[i].
func lost(seen ...string) []step {
	story := []step{{"join 1", "try"}, {"lost", "*"}}
	for _, s := range seen {
		story = append(story, step{s, "*"})
	}
	return story
}

func TestAWaiterSleepsWhileItIsToldOfChanges(t *testing.T) {
	tellAll(t, steady, map[string]queueStory{
		"until the end of the TTL that a majority is left with": {nodes: 3, story: append(
			lost("0 held b.1 for 3s", "1 held b.1 for 1s"), []step{
				{"2 held b.1 for 2s", "tick 2.001s"},
				{"1.001s: tick", "tick 2.001s"},
				{"2.001s: tick", "try"},
			}...)},
		"a node without the key is no more to wait for": {nodes: 3, story: append(
			lost("0 held b.1 for 3s", "1 free"), []step{
				{"2 held b.1 for 2s", "tick 2.001s"},
			}...)},
		"for half a minute, then it looks again": {nodes: 3, story: append(
			lost("0 held b.1 for 1h", "1 held b.1 for 1h"), []step{
				{"2 held b.1 for 1h", "tick 30s"},
				{"30s: tick", "look 0 1 2, tick 1m0s"},
			}...)},
		"but not while one node alone tells, of what another holds there": {nodes: 3, story: append(
			lost("0 held b.1 for 1h unwatched", "1 held b.1 for 1h unwatched"), []step{
				{"2 held c.1 for 1h", "announce to c through 2, tick 1ms"},
				{"1ms: tick", "try"},
			}...)},
		"nor while too many have not answered": {nodes: 3, story: append(
			lost("0 held b.1 for 1h", "1 silent"), []step{
				{"2 silent", "tick 1ms"},
				{"1ms: tick", "try"},
			}...)},
		"two of four nodes in other hands are enough to keep it from a majority": {nodes: 4, story: append(
			lost("0 held b.1 for 1h", "1 held c.1 for 1h", "2 silent"), []step{
				{"3 silent", "tick 30s"},
			}...)},
		"but not for longer than their TTLs": {nodes: 4, story: append(
			lost("0 held b.1 for 1s", "1 held c.1 for 2s", "2 silent"), []step{
				{"3 silent", "tick 1.001s"},
				{"1.001s: tick", "try"},
			}...)},
	})
}

func TestAWaiterAsksAgainAndAgainWhereItIsToldOfNoChanges(t *testing.T) {
	const held = "0 held b.1 for 1h unwatched"
	tellAll(t, steady, map[string]queueStory{
		"ever more slowly, as it is the same holder": {nodes: 1, story: []step{
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
		"never beyond the TTL": {nodes: 1, story: append(lost(), step{"0 held b.1 for 0s unwatched", "*"},
			step{"tick", "tick 1ms"}, step{"1ms: tick", "try"})},
		"at a pause from when its ear broke": {nodes: 1, story: append(lost("0 held b.1 for 1h"), []step{
			{"1s: 0 deaf", "tick 1.001s"},
			{"1.001s: 0 hearing", "look 0, tick 30s"},
			{"0 held b.1 for 1h", "tick 30s"},
		}...)},
		"and no longer from when it is": {nodes: 1, story: append(lost(), []step{
			{"0 held b.1 for 1h unwatched", "*"},
			{"500us: 0 hearing", "look 0, tick 30s"},
			{"1ms: 0 held b.1 for 1h", "tick 30s"},
		}...)},
	})
}

// Trap 20.
func TestContendersThatLostToEachOtherPauseEverLonger(t *testing.T) {
	tellAll(t, steady, map[string]queueStory{
		"what looks free is not taken at once": {nodes: 1, story: []step{
			{"join 1", "try"},
			{"lost", "*"},
			{"0 free", "tick 1ms"},
			{"1ms: tick", "try"},
			{"lost", "*"},
			{"0 free", "tick 3ms"},
		}},
		"unless a holder was in the way": {nodes: 3, story: append(lost("0 held b.1 for 1h", "1 held b.1 for 1h", "2 held b.1 for 1h"), []step{
			{"0 changed", "tick 8ms"},
			{"1 changed", "try"},
		}...)},
		"and never for longer than the longest pause": {nodes: 1, story: func() (story []step) {
			story = append(story, step{"join 1", "try"})
			for range 30 {
				story = append(story, step{"lost", "*"}, step{"0 free", "*"}, step{"unlocked", "try"})
			}
			return append(story, step{"lost", "*"}, step{"0 free", "tick 100ms"})
		}()},
	})
}

func TestAWakeUpIsAHint(t *testing.T) {
	extended := append(lost("0 held b.1 for 10s", "1 held b.1 for 10s", "2 held b.1 for 10s"), []step{
		{"3s: 0 changed", "tick 3.008s"},
		{"1 changed", "try"},
		{"2 changed", ""},
		{"3.002s: lost", "look 0 1 2"},
		{"0 held b.1 for 10s", "*"},
		{"1 held b.1 for 10s", "*"},
		{"2 held b.1 for 10s", "tick 13.003s"},
	}...)
	tellAll(t, steady, map[string]queueStory{
		"the first leads to a round, as soon as a majority may be free": {nodes: 5, story: append(
			lost("0 held b.1 for 1h", "1 held b.1 for 1h", "2 held b.1 for 1h", "3 free", "4 held b.1 for 1h"), []step{
				{"1s: 4 changed", "tick 1.008s"},
				{"1.001s: 0 changed", "try"},
			}...)},
		"or to a look, where nothing comes after it": {nodes: 3, story: append(
			lost("0 held b.1 for 1h", "1 held b.1 for 1h", "2 held b.1 for 1h"), []step{
				{"1s: 2 changed", "tick 1.008s"},
				{"1.008s: tick", "look 2, tick 30s"},
				{"1.009s: 2 free", "tick 30s"},
				{"1.01s: 0 changed", "try"},
			}...)},
		"the next to a look, and an extension by the holder costs no more than that": {nodes: 3, story: append(extended, []step{
			{"6s: 1 changed", "look 1, tick 13.003s"},
			{"0 changed", "tick 13.003s"},
			{"2 changed", "tick 13.003s"},
			{"6.001s: 1 held b.1 for 10s", "tick 16.002s"},
			{"9s: 1 changed", "look 1, tick 16.002s"},
			{"9.001s: 1 held b.1 for 10s", "tick 19.002s"},
			{"10s: 1 changed", "look 1, tick 19.002s"},
			{"10.001s: 1 free", "try"}, // what the others hold went with it
		}...)},
		"a key that changed though nothing has happened to it tells nothing of the others": {nodes: 3, story: append(extended, []step{
			{"6s: 1 changed", "look 1, tick 13.003s"},
			{"0 changed", "tick 13.003s"},
			{"6.001s: 1 held b.1 for 7s", "look 0, tick 13.003s"},
		}...)},
		"nor does an extension of what one node alone holds": {nodes: 3, story: append(
			lost("0 held c.1 for 5s", "1 held b.1 for 10s", "2 held b.1 for 10s"), []step{
				{"1s: 1 changed", "*"},
				{"1.001s: 2 changed", "try"},
				{"lost", "look 0 1 2"},
				{"0 held c.1 for 5s", "*"},
				{"1 held b.1 for 10s", "*"},
				{"2 held b.1 for 10s", "*"},
				{"2s: 0 changed", "look 0, tick 11.002s"},
				{"1 changed", "tick 11.002s"},
				{"0 held c.1 for 10s", "look 1, announce to c through 0, tick 11.002s"},
			}...)},
		"what goes from hand to hand is looked at once in a while": {nodes: 1, story: append(lost("0 held b.1 for 10s"), []step{
			{"1s: 0 changed", "try"},
			{"lost", "*"},
			{"0 held b.2 for 10s", "*"},
			{"1.001s: 0 changed", "look 0, tick 11.001s"},
			{"1.002s: 0 held b.3 for 10s", "*"},
			{"1.003s: 0 changed", "tick 1.01s"},
			{"1.01s: tick", "look 0, tick 1.402s"},
			{"1.011s: 0 held b.4 for 10s", "*"},
			{"1.012s: 0 changed", "tick 1.027s"},
			{"1.027s: tick", "look 0, tick 1.402s"},
			{"1.028s: 0 free", "tick 1.036s"}, // the next may be about to take it
			{"1.036s: tick", "look 0, tick 1.402s"},
			{"1.037s: 0 free", "try"},
		}...)},
		"what a node that has changed hands shows is taken for all, and looked at again": {nodes: 3, story: append(extended, []step{
			{"4s: 0 changed", "look 0, tick 13.003s"},
			{"1 changed", "*"},
			{"2 changed", "*"},
			{"0 held c.1 for 1h", "announce to c through 0, tick 4.4s"},
			{"4.4s: tick", "look 0 1 2, tick 34.4s"},
		}...)},
		"a change that comes during the look is looked at again": {nodes: 1, story: append(lost("0 held b.1 for 10s"), []step{
			{"1s: 0 changed", "try"},
			{"lost", "look 0"},
			{"0 changed", ""},
			{"0 held b.1 for 10s", "look 0, tick 11.001s"},
		}...)},
		"so is what a look shows during which the ear broke": {nodes: 1, story: append(lost("0 silent", "0 hearing"), []step{
			{"0 deaf", "*"},
			{"0 held b.1 for 1h", "try, announce to b through 0"},
		}...)},
		"so is one that came before a look that failed": {nodes: 3, story: append(lost("0 held b.1 for 10s", "1 held b.1 for 10s"), []step{
			{"2 hearing", "*"},
			{"2 silent", "look 2, tick 10.001s"},
			{"2 silent", "tick 10.001s"},
		}...)},
	})
}

// The round begins before the ear comes to it: the look that was due for the ear is due after the round.
func TestALookThatARoundTakesThePlaceOfIsNotWaitedFor(t *testing.T) {
	tellAll(t, steady, map[string]queueStory{
		"where the ear comes back": {nodes: 3, story: append(lost("0 free", "1 free", "2 free"), []step{
			{"1ms: 2 hearing", "try"},
			{"lost", "look 0 1 2"},
		}...)},
		"where it is all that there is": {nodes: 1, story: append(lost("0 free"), []step{
			{"0 changed", "tick 1ms"},
			{"1ms: 0 hearing", "try"},
			{"lost", "look 0"},
		}...)},
	})
}

func TestAKeyWithoutATTL(t *testing.T) {
	seen := []string{"0 held old", "1 held old", "2 free"}
	never := steady
	never.Heal = 0
	t.Run("is in the way for ever where nobody heals", func(t *testing.T) {
		newCounter(3, never).tell(t, append(lost(seen...), step{"29s: tick", "tick 30s"}, step{"30s: tick", "look 0 1 2, tick 1m0s"}))
	})
	tellAll(t, steady, map[string]queueStory{
		"is taken over when it was there for long enough": {nodes: 3, story: append(lost(seen...), []step{
			{"tick", "tick 1s"},
			{"999ms: tick", "tick 1s"},
			{"1s: tick", "heal 0 1, tick 30s"},
			{"0 healed", "try"},
		}...)},
		"is not what changes, or another": {nodes: 1, story: append(lost("0 held old"), []step{
			{"500ms: 0 changed", "try"},
			{"lost", "look 0"},
			{"0 held old", "tick 1.5s"},
			{"600ms: 0 hearing", "look 0, tick 30.5s"},
			{"0 held new", "announce to new through 0, tick 1.6s"},
			{"700ms: 0 hearing", "look 0, tick 30.5s"},
			{"0 held new", "tick 1.6s"},
		}...)},
		"is not what was seen on another node alone": {nodes: 3, story: append(lost("0 held b.1 for 1h", "1 held b.1 for 1h", "2 held b.1 for 1h"), []step{
			{"1s: 0 changed", "*"},
			{"1 changed", "try"},
			{"lost", "*"},
			{"0 held b.1 for 1h", "*"},
			{"1 held b.1 for 1h", "*"},
			{"2 held b.1 for 1h", "*"},
			{"2s: 0 changed", "look 0, tick 31s"},
			{"1 changed", "*"},
			{"0 held old", "announce to old through 0, tick 2.008s"},
			{"2.008s: tick", "look 1, tick 2.4s"},
		}...)},
		"is known again after a look that failed": {nodes: 1, story: append(lost("0 held old"), []step{
			{"500ms: 0 hearing", "look 0, tick 30s"},
			{"0 silent", "*"},
			{"lost", "*"},
			{"0 held old", "tick 1s"},
		}...)},
		"is looked at when it was not taken over": {nodes: 1, story: append(lost("0 held old"), []step{
			{"1s: tick", "heal 0, tick 30s"},
			{"1.001s: 0 not healed", "look 0, tick 30s"},
			{"1.002s: 0 held old", "tick 2.002s"},
		}...)},
		"is not looked at while it is taken over": {nodes: 3, story: append(lost("0 held old", "1 held b.1 for 10s", "2 held b.1 for 10s"), []step{
			{"1s: tick", "heal 0, tick 10.001s"},
			{"0 changed", "tick 10.001s"},
			{"1 changed", "tick 1.008s"},
			{"1.008s: tick", "look 1, tick 10.001s"},
		}...)},
	})
}

// Nothing that comes while it is held here is of interest, and all of it is looked at afterwards.
func TestAHolderDoesNotListen(t *testing.T) {
	tellAll(t, steady, map[string]queueStory{"": {nodes: 1, story: []step{
		{"join 1", "try"},
		{"lost", "look 0"},
		{"unlocked", "try"},
		{"4ms: won", ""},
		{"0 free", ""},
		{"0 changed", ""},
		{"0 deaf", ""},
		{"0 hearing", ""},
		{"join 2", "tick 10s"},
		{"10s: tick", "try"},
		{"lost", "look 0"},
		{"leave 2", ""},
		{"0 held b.1 for 1s", ""},
		{"0 not healed", ""},
	}}})
}

func TestAPauseIsAtRandomBetweenAQuarterAndTheWhole(t *testing.T) {
	longest := steady
	longest.Random = func(below time.Duration) time.Duration { return below - 1 }
	newCounter(1, longest).tell(t, []step{
		{"join 1", "try"},
		{"lost", "*"},
		{"0 free", "tick 3.999999ms"},
		{"4ms: tick", "try"},
		{"lost", "*"},
		{"0 free", "tick 11.999999ms"},
	})
}

func TestAPaceThatOverflowsIsTheSlowest(t *testing.T) {
	pace := steady
	pace.First, pace.Most = 1<<60, 1<<61
	newCounter(1, pace).tell(t, []step{
		{"join 1", "try"},
		{"lost", "*"}, {"unlocked", "try"},
		{"lost", "*"}, {"unlocked", "try"},
		{"lost", "*"}, {"unlocked", "try"},
		{"lost", "*"}, {"unlocked", "try"},
		{"lost", "*"}, {"0 free", "tick " + time.Duration(1<<59).String()},
	})
}
