package lock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

func TestQueue_ReadersGoTogether(t *testing.T) {
	runAll(t, steady, map[string]queueCase{
		"each at once, while nobody else waits": {nodes: 1, steps: []step{
			{"read 1", "read 1"},
			{"read 2", "read 2"},
			{"won 2", ""},
			{"won 1", ""},
		}},
		"behind one that has lost its round, when that has won, up to the first writer": {nodes: 1, steps: []step{
			{"read 1", "read 1"},
			{"lost 1", "observe 0, tick 30s"},
			{"read 2", ""},
			{"read 3", ""},
			{"join 4", ""},
			{"read 5", ""},
			{"0 free", "tick 1ms"},
			{"1ms: tick", "read 1"},
			{"won 1", "*"},
		}},
	})
	d := newDriver(t, 1, steady)
	d.run([]step{{"read 1", "*"}, {"lost 1", "*"}, {"read 2", ""}, {"read 3", ""}, {"join 4", ""}, {"read 5", ""}, {"0 free", "*"}, {"1ms: tick", "read 1"}})
	require.Equal(t, []int{2, 3}, offered(d.do("won 1")))
}

// offered are the calls that have a round now.
func offered(acts []lock.Act) (calls []int) {
	for i := range acts {
		if acts[i].What == lock.Offer {
			calls = append(calls, acts[i].Call.Of.(int))
		}
	}
	return calls
}

func TestQueue_ReaderThatHasLostTakesItsPlaceAgain(t *testing.T) {
	d := newDriver(t, 1, steady)
	d.run([]step{{"read 1", "read 1"}, {"read 2", "read 2"}, {"join 3", "try"}, {"join 4", ""}, {"lost 2", ""}, {"lost 1", ""}})
	var order []int
	for _, c := range d.Waiting() {
		order = append(order, c.Of.(int))
	}
	require.Equal(t, []int{3, 1, 2, 4}, order, "behind one that has a round")
}

func TestQueue_WriterSaysThatItWaitsForReaders(t *testing.T) {
	runAll(t, steady, map[string]queueCase{
		"again each second, and takes it back when it has the lock": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"lost", "observe 0, tick 30s"},
			{"0 held readers for 10s", "want, tick 1s"},
			{"1s: tick", "want, tick 2s"},
			{"1.5s: 0 changed", "*"},
			{"won", "unwant"},
		}},
		"and when it gives up": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"read 2", ""},
			{"lost", "observe 0, tick 30s"},
			{"0 held readers for 10s", "want, tick 1s"},
			{"leave 1", "unwant, observe 0, tick 30s"},
		}},
		"not if a writer waits behind it": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"join 2", ""},
			{"lost", "observe 0, tick 30s"},
			{"0 held readers for 10s", "want, tick 1s"},
			{"leave 1", "tick 1s"},
		}},
		"not to another writer": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"lost", "observe 0, tick 30s"},
			{"0 held a.1 for 10s", "announce to a through 0, tick 10.001s"},
		}},
	})
}

func TestQueue_ReaderTriesWhenAWriterWaitsNoMore(t *testing.T) {
	runAll(t, steady, map[string]queueCase{
		"one that waits is told": {nodes: 1, steps: []step{
			{"read 1", "read 1"},
			{"lost 1", "observe 0, tick 30s"},
			{"0 held wanted for 3s", "tick 3.001s"},
			{"5ms: 0 want", "read 1"},
		}},
		"a writer in front of it has nothing to be told": {nodes: 1, steps: []step{
			{"join 1", "try"},
			{"read 2", ""},
			{"lost", "observe 0, tick 30s"},
			{"0 held a.1 for 3s", "announce to a through 0, tick 3.001s"},
			{"5ms: 0 want", ""},
		}},
	})
}

// What a writer has seen says nothing to the reader that is the first now, and the reverse.
func TestQueue_ObservationOfAnotherKindIsMadeAgain(t *testing.T) {
	d := newDriver(t, 1, steady)
	d.run([]step{{"join 1", "try"}, {"read 2", ""}, {"lost", "observe 0, tick 30s"}, {"leave 1", "tick 30s"}})
	seen := wire.Reply{Answer: quorum.Yes, Value: "|readers", TTL: wire.NoTTL, Tracked: true}
	acts := d.Answered(nil, wire.Tag{What: lock.Watch, Serial: uint32(form.Lock)}, &seen)
	require.Equal(t, "observe 0, tick 30s", inWords(acts))
	state, _ := d.Seen(0)
	require.False(t, state.Held)
}
