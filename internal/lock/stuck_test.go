package lock_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Somebody's data does not go away when a lock is released, so that who waits for it would wait for ever.
func TestQueue_DoesNotWaitForSomebodysData(t *testing.T) {
	runAll(t, steady, map[string]queueCase{
		"on a majority of the nodes": {nodes: 3, steps: append(lost("0 data", "2 free"), []step{
			{"1 data", "dismiss"},
		}...)},
		"on half of them": {nodes: 4, steps: append(lost("0 data", "1 free", "2 free"), []step{
			{"3 data", "dismiss"},
		}...)},
		"but on fewer it does, and leaves that alone": {nodes: 3, steps: append(lost("0 data", "1 held b.1 for 9s"), []step{
			{"2 held b.1 for 10s", "tick 9.001s"},
			{"1s: tick", "tick 9.001s"},
			{"2s: 1 changed", "tick 2.004s"},
			{"2s: 2 changed", "try"},
		}...)},
		"which does not count if it has changed": {nodes: 3, steps: append(lost("0 data", "0 changed", "2 held b.1 for 10s"), []step{
			{"1 data", "tick 4ms"},
			{"4ms: tick", "observe 0, tick 10.001s"},
			{"0 data", "dismiss"},
		}...)},
		"or may have": {nodes: 3, steps: append(lost("0 data", "2 held b.1 for 10s"), []step{
			{"0 lost", "tick 10.001s"},
			{"1 data", "tick 1ms"},
			{"0 tracking", "observe 0, tick 10.001s"},
			{"0 data", "dismiss"},
		}...)},
		"and a node that may have it is asked again": {nodes: 3, steps: append(lost("0 data", "1 held b.1 for 1h"), []step{
			{"2 silent", "tick 1ms"},
			{"1ms: tick", "observe 2, tick 30s"},
			{"2ms: 2 silent", "tick 3ms"},
			{"3ms: tick", "observe 2, tick 30s"},
			{"2 data", "dismiss"},
		}...)},
		"and those that have changed, if they are too few for a round": {nodes: 4, steps: append(lost("0 held b.1 for 1h", "1 held b.1 for 1h", "2 free"), []step{
			{"3 free", "tick 30s"},
			{"1s: 2 changed", "tick 30s"},
			{"1s: 3 changed", "tick 1.004s"},
			{"1.004s: tick", "observe 2 3, tick 30s"},
			{"2 data", "tick 30s"},
			{"3 data", "dismiss"},
		}...)},
		"or one that does not push": {nodes: 3, steps: append(lost("0 data", "1 held b.1 for 1h"), []step{
			{"2 held b.1 for 1h untracked", "tick 1ms"},
			{"1ms: tick", "observe 2, tick 30s"},
			{"2 data", "dismiss"},
		}...)},
		"nor while it is observed anew": {nodes: 3, steps: append(lost("0 data", "1 held b.1 for 10s", "2 held b.1 for 10s"), []step{
			{"1s: 0 tracking", "observe 0, tick 10.001s"},
			{"1s: 1 tracking", "observe 1, tick 10.001s"},
			{"1 data", "tick 10.001s"},
			{"0 free", "tick 10.001s"},
		}...)},
	})
}

func TestQueue_RefusesAllThatWait(t *testing.T) {
	c := newDriver(t, 1, steady)
	c.run(append(lost(), step{"join 2", ""}))
	var dismissed []any
	for _, a := range c.do("0 data") {
		dismissed = append(dismissed, a.Call.Of)
	}
	require.Equal(t, []any{1, 2}, dismissed)
	require.Empty(t, c.Waiting())
	require.True(t, c.Idle())
	c.run([]step{{"leave 1", ""}, {"0 changed", ""}, {"join 3", "try"}, {"won", ""}})
}

func TestQueue_SaysOnceThatItWaitsForKeysWithoutATTL(t *testing.T) {
	never := steady
	never.Heal = 0
	runAll(t, never, map[string]queueCase{
		"when as many as are in the way have been the same for long": {nodes: 3, steps: append(lost("0 held old"), []step{
			{"2s: 1 held old", "tick 12s"},
			{"3s: 2 free", "tick 12s"},
			{"12s: tick", "stuck for 10s on 0 1, tick 30s"},
			{"13s: tick", "tick 30s"},
		}...)},
		"and not of those on a minority": {nodes: 3, steps: append(lost("0 held old", "1 held b.1 for 1h"), []step{
			{"2 held b.1 for 1h", "tick 30s"},
			{"20s: tick", "tick 30s"},
		}...)},
		"and not of those that change": {nodes: 1, steps: append(lost("0 held old"), []step{
			{"9s: 0 changed", "try"},
			{"lost", "*"},
			{"0 held old", "tick 19s"},
			{"18s: 0 tracking", "*"},
			{"0 held new", "announce to new through 0, tick 28s"},
			{"28s: tick", "stuck for 10s on 0, tick 39s"},
		}...)},
		"and again if others have come into the way": {nodes: 1, steps: append(lost("0 held old"), []step{
			{"10s: tick", "stuck for 10s on 0, tick 30s"},
			{"11s: 0 changed", "try"},
			{"lost", "*"},
			{"0 held old", "tick 21s"},
			{"21s: tick", "stuck for 10s on 0, tick 41s"},
		}...)},
		"also if it polls": {nodes: 1, steps: append(lost("0 held old untracked"), []step{
			{"10s: tick", "try"},
			{"lost", "stuck for 10s on 0, observe 0, tick 40s"},
		}...)},
	})
}

// Those who have keys without a TTL, and most need them healed, often try once and never wait.
func TestDenied_HealsThoughNobodyWaits(t *testing.T) {
	runAll(t, steady, map[string]queueCase{
		"what a later call finds unchanged": {nodes: 3, steps: []step{
			{"denied", "observe 0 1 2"},
			{"0 held old", ""},
			{"1 held old", ""},
			{"2 free", ""},
			{"100ms: denied", ""},
			{"500ms: denied", "observe 0 1 2"},
			{"0 held old", ""},
			{"1 held new", ""},
			{"2 free", ""},
			{"1s: denied", "observe 0 1 2"},
			{"0 held old", "heal 0"},
			{"1 held new", ""},
			{"2 free", ""},
			{"0 healed", ""},
			{"1.5s: denied", "observe 0 1 2"},
			{"1 held new", "heal 1"},
			{"1 not healed", ""},
		}},
		"not what has changed": {nodes: 1, steps: []step{
			{"denied", "observe 0"},
			{"0 held old", ""},
			{"500ms: 0 changed", ""},
			{"1.1s: denied", "observe 0"},
			{"0 held old", ""},
			{"2s: denied", "observe 0"},
			{"0 held old", ""},
			{"2.1s: denied", "observe 0"},
			{"0 held old", "heal 0"},
		}},
		"not beside waiters, who do": {nodes: 1, steps: []step{
			{"denied", "observe 0"},
			{"0 held old", ""},
			{"join 1", "try"},
			{"denied", ""},
			{"lost", "*"},
			{"denied", ""},
			{"500ms: 0 held old", "announce to old through 0, tick 1s"},
		}},
		"not while the lock is held here": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"won", ""},
			{"denied", ""},
			{"10s: denied", "observe 0"},
		}},
		"and waiters go on with what such calls have seen": {nodes: 1, steps: []step{
			{"denied", "observe 0"},
			{"0 held old", ""},
			{"900ms: join 1", "try"},
			{"lost", "*"},
			{"0 held old", "announce to old through 0, tick 1s"},
		}},
	})
}

func TestDenied_IsRememberedUntilTheKeyIsHealed(t *testing.T) {
	c := newDriver(t, 1, steady)
	require.False(t, c.Healing())
	c.run([]step{{"denied", "*"}, {"0 held old", ""}})
	require.True(t, c.Healing())
	c.run([]step{{"1s: denied", "*"}, {"0 held old", "heal 0"}, {"0 healed", ""}})
	require.False(t, c.Healing())
}
