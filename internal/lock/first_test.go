package lock_test

import "testing"

func TestFirst_IsAsIfTheCallHadWaited(t *testing.T) {
	runAll(t, steady, map[string]queueCase{
		"one after the other has a round at once, and no queue is needed for the first": {nodes: 3, steps: []step{
			{"first 1", ""},
			{"4ms: won 1", ""},
			{"1s: unlocked", ""},
			{"first 2", ""},
			{"1.004s: won 2", ""},
			{"2s: unlocked", ""},
			{"first 3", ""},
		}},
		"one that comes during the round is behind it": {nodes: 3, steps: []step{
			{"first 1", ""},
			{"not first 2", ""},
			{"4ms: won 1", "tick 10s"},
			{"1s: unlocked", "try"},
		}},
		"also if there was a queue": {nodes: 3, steps: []step{
			{"join 1", "try"},
			{"leave 1", ""},
			{"first 2", ""},
			{"not first 3", ""},
			{"4ms: won 2", "tick 10s"},
		}},
		"one that comes while the lock is held waits for its end": {nodes: 1, steps: []step{
			{"first 1", ""},
			{"4ms: won 1", ""},
			{"1s: not first 2", "tick 10s"},
			{"10s: tick", "try"},
		}},
		"one that comes when the lock has expired does not": {nodes: 1, steps: []step{
			{"first 1", ""},
			{"4ms: won 1", ""},
			{"10s: first 2", ""},
		}},
		"a round that is lost leaves the call in front of those that came during it": {nodes: 1, steps: []step{
			{"first 1", ""},
			{"not first 2", ""},
			{"lost 1", "observe 0, tick 30s"},
			{"0 held a.1 for 1s", "announce to a through 0, tick 1.001s"},
			{"1.001s: tick", "try"},
			{"1.005s: won", "tick 11.001s"},
			{"leave 2", ""},
		}},
		"one that gives up leaves its turn to the next": {nodes: 1, steps: []step{
			{"first 1", ""},
			{"not first 2", ""},
			{"leave 1", "try"},
		}},
		"one that gives up alone leaves nobody": {nodes: 1, steps: []step{
			{"first 1", ""},
			{"leave 1", ""},
			{"first 2", ""},
		}},
		"a call that shares the lock waits its turn": {nodes: 1, steps: []step{
			{"share 1", "1"},
			{"not first 2", "try"},
		}},
		"nobody is before others while it is their turn": {nodes: 1, steps: []step{
			{"first 1", ""},
			{"4ms: won 1", ""},
			{"peer b", ""},
			{"1s: unlocked", "turn to b"},
			{"not first 2", "announce to b through 0, tick 1.008s"},
		}},
		"a peer that announces itself during the round has its turn after it": {nodes: 1, steps: []step{
			{"first 1", ""},
			{"peer b", ""},
			{"4ms: won 1", ""},
			{"1s: unlocked", "turn to b"},
		}},
		"a turn that comes during the round is taken if the round is lost": {nodes: 1, steps: []step{
			{"first 1", ""},
			{"0 turn c", ""},
			{"lost 1", "try"},
		}},
		"and handed off if nobody is here": {nodes: 1, steps: []step{
			{"0 turn c d", "turn to c before d"},
		}},
	})
}
