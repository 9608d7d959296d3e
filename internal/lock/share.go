package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Calls that share a lock wait in the queue of all calls of the name, behind the calls before them. But they do not
// wait for each other. A call that finds the queue empty has a side round at once. When a call has won, the calls
// behind it that share the lock have side rounds too. A call that loses its side round takes its place again.

// leaveEvery is how often a process leaves a slot that it releases to others, though calls of its own wait. The first
// process that hears of the release gets it. So a slot that is held for longer may go to any process. A slot that
// changes hands faster within this process does not wait for a round trip each time.
const leaveEvery = 100 * time.Millisecond

// maxWidth is the highest number of rounds for slots that begin together.
const maxWidth = 64

// trySide begins a side round.
func (q *queue) trySide(acts []Act, c *Call) []Act {
	q.line.sideRound(c)
	return append(acts, Act{What: Offer, Call: c})
}

// vacated records that this process has sent the release of a slot. If the next call waits for a slot, its round
// follows, and asks for that slot first. But once in [leaveEvery] the slot goes to the process that hears of the
// release first. While processes with different numbers of slots wait, each released slot does.
func (q *queue) vacated(acts []Act, now time.Time, slot wire.Slot) []Act {
	i := 0
	if q.state == trying && q.line.want().Kind.HasSlots() { // no call overtakes a writer
		i = 1
	}
	if len(q.line.calls) <= i || !q.line.calls[i].Want.Kind.HasSlots() {
		return acts
	}
	if now.Sub(q.line.leftAt) >= leaveEvery || now.Sub(q.view.wantedAt) < form.WantFor || !q.wantAt.IsZero() {
		q.line.leftAt = now
		return acts
	}
	c := q.line.calls[i]
	c.slot = slot
	q.line.remove(i)
	q.settle()
	return q.trySide(acts, c)
}

// start returns the index of the slot that the nodes look at first. That is the slot that was released for the call, or
// that its [Repeat] has chosen. Without one it is a random slot, so that callers do not all ask for the same.
func (c *Call) start(r *Rules) int {
	slot, slots := c.slot, c.Want.Slots
	c.slot = 0
	if i, ok := slot.At(); ok && i < int(slots) {
		return i
	}
	return int(r.Pace.Random(time.Duration(slots)))
}
