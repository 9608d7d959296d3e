package lock_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/lock"
)

func TestPeers_TheListGoesFromHolderToHolder(t *testing.T) {
	runAll(t, steady, map[string]queueCase{
		"and is with one process at a time": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"lost", "observe 0, tick 30s"},
			{"peer b c", "tick 30s"},
			{"0 held c.1 for 1s", "announce to c through 0 b, tick 1.001s"},
			{"10ms: 0 changed", "observe 0, tick 1.001s"},
			{"0 held d.1 for 1s", "announce to d through 0, tick 1.011s"},
		}},
		"also the process that passes its turn, if it waits": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"join 2", ""},
			{"join 3", ""},
			{"join 4", ""},
			{"join 5", ""},
			{"join 6", ""},
			{"join 7", ""},
			{"won", "*"},
			{"unlocked", "try"},
			{"won", "*"},
			{"unlocked", "try"},
			{"won", "*"},
			{"unlocked", "try"},
			{"won", "*"},
			{"unlocked", "try"},
			{"won", "*"},
			{"unlocked", "try"},
			{"won", "*"},
			{"peer b c", ""},
			{"unlocked", "turn to b before c self, tick 8ms"},
		}},
		"but not if nobody waits for the lock": {nodes: 1, steps: []step{
			{"peer b c d", "announce to c through 0 before b d"},
			{"join 1", "try"},
			{"leave 1", ""},
			{"peer b c", "announce to c through 0 before b"},
			{"peer b", ""},
		}},
		"and stays if it cannot go on, for the next lock": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"leave 1", ""},
			{"peer b", ""},
			{"tried", ""},
			{"unlocked", "turn to b"},
		}},
		"but is forgotten when others have had their turn": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"4ms: won", ""},
			{"5ms: unlocked", ""},
			{"peer b", ""},
			{"1s: join 2", "try"},
			{"1004ms: won", ""},
			{"unlocked", ""},
		}},
		"to a process that has the lock without having waited": {nodes: 1, steps: []step{
			{"tried", ""},
			{"peer b c", ""},
			{"unlocked", "turn to b before c"},
		}},
		"from a process that shares the lock, and has no token that others see": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"share 2", ""},
			{"lost", "observe 0, tick 30s"},
			{"0 held a.1 for 1s", "announce to a through 0, tick 1.001s"},
			{"leave 1", "observe 0, tick 30s"},
			{"peer b c", "tick 30s"},
			{"0 free", "2"},
			{"won", "announce to b through -1 before c"},
		}},
	})
}

func TestPeers_WhoIsBehindLetsOthersGoFirst(t *testing.T) {
	behind := []step{
		{"join 1", "try"},
		{"lost", "observe 0, tick 30s"},
		{"0 held a.1 for 1s", "announce to a through 0, tick 1.001s"},
	}
	after := func(more ...step) queueCase { return queueCase{nodes: 1, steps: append(behind[:3:3], more...)} }
	runAll(t, steady, map[string]queueCase{
		"if the holder has heard of it": after(
			step{"0 heard", ""},
			step{"10ms: 0 changed", "tick 18ms"}, // the estimate of the round trip, twice
			step{"18ms: tick", "observe 0, tick 1.001s"},
			step{"0 free", "try"},
		),
		"but comes first when it has the turn": after(
			step{"0 heard", ""},
			step{"10ms: 0 changed", "tick 18ms"},
			step{"0 turn", "try"},
		),
		"or the list": after(
			step{"0 heard", ""},
			step{"10ms: 0 changed", "tick 18ms"},
			step{"peer b", "observe 0, tick 1.001s"},
			step{"0 free", "try"},
		),
		"not if the holder gets no messages": after(
			step{"0 unheard", ""},
			step{"10ms: 0 changed", "try"},
		),
		"nor because of an answer about the holder before": after(
			step{"1ms: 0 changed", "*"},
		),
		"once for each holder": after(
			step{"0 heard", ""},
			step{"10ms: 0 changed", "tick 18ms"},
			step{"18ms: tick", "observe 0, tick 1.001s"},
			step{"0 held a.1 for 1s", "tick 1.019s"},
			step{"20ms: 0 changed", "observe 0, tick 1.019s"},
		),
	})
}

func TestPeers_WhoIsFarGetsTime(t *testing.T) {
	d := newDriver(t, 1, steady)
	d.run([]step{{"join 1", "try"}, {"4ms: won", ""}})
	d.PeersWait(nil, 0, []lock.Peer{{Owner: owner("far"), RTT: 10 * time.Millisecond}, {Owner: owner("b"), RTT: time.Hour}})
	d.run([]step{
		{"10ms: unlocked", "turn to far before b"},
		{"join 2", "announce to far through 0, tick 110ms"}, // not hours
	})
}

// Writers that wait have said so, and keep it out. If it came in on its turn, readers would have the lock all the time.
func TestPeers_WhoSharesGivesTheListOnIfOthersKeepItOutOnItsTurn(t *testing.T) {
	d := newDriver(t, 1, steady)
	d.run([]step{
		{"share 1", "1"},
		{"lost 1", "observe 0, tick 30s"},
		{"0 held a.1 for 9s", "announce to a through 0, tick 9.001s"},
		{"0 turn b c", "1"},
	})
	require.False(t, passes(d, 1))
	d.run([]step{
		{"lost 1", "observe 0, tick 30s"},
		{"0 held |wanted for 3s", "announce to b through -1 before c, tick 3.001s"},
	})
}

// A call begins to wait where one that has given up has told the holder. It does not try before others.
func TestPeers_WhoComesAgainIsBehindLikeBefore(t *testing.T) {
	newDriver(t, 1, steady).run([]step{
		{"join 1", "try"},
		{"lost", "observe 0, tick 30s"},
		{"0 held a.1 for 1s", "announce to a through 0, tick 1.001s"},
		{"leave 1", ""},
		{"join 2", "try"},
		{"lost", "observe 0, tick 30s"},
		{"0 held a.1 for 1s", "announce to a through 0, tick 1.001s"},
		{"0 heard", ""},
		{"10ms: 0 changed", "tick 18ms"},
	})
}

// passes reports whether a round of a call passes by those that wait and come first.
func passes(d *driver, call int) bool {
	acts := d.Ask(nil, new(lock.Acquire), d.calls[call], owner("self")+".1", nil)
	return slices.Contains(acts[0].Command.Args, "pass")
}
