package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Calls that share a lock wait in the queue of all calls of the name, behind those before them. But they do not wait for each other. One that
// finds the queue empty has a side round at once, and so do those behind one that has won. One that loses its side round takes its place again.

// leaveEvery is how often a process leaves a slot that it releases to the first process that hears of it, though calls of its own wait. So slots that
// are held for long go to any process, and those that go from hand to hand do not wait for a round trip each time.
const leaveEvery = 100 * time.Millisecond

// maxWidth bounds the rounds for slots that begin together.
const maxWidth = 64

// wantEvery is how often a writer says that it waits, while those who share the lock are in its way.
const wantEvery = time.Second

// trySide begins a side round.
func (q *queue) trySide(acts []Act, c *Call) []Act {
	q.line.sideRound(c)
	return append(acts, Act{What: Offer, Call: c})
}

// vacated records that the release of a slot has been sent. If the next call waits for one, its round follows, and asks for that slot
// first. Every 100 ms the slot goes to the process that hears of the release first.
func (q *queue) vacated(acts []Act, now time.Time, slot wire.Slot) []Act {
	i := 0
	if q.state == trying && q.line.want().Kind.HasSlots() { // nobody passes by a writer
		i = 1
	}
	if len(q.line.calls) <= i || !q.line.calls[i].Want.Kind.HasSlots() {
		return acts
	}
	if now.Sub(q.line.leftAt) >= leaveEvery {
		q.line.leftAt = now
		return acts
	}
	c := q.line.calls[i]
	c.slot = slot
	q.line.remove(i)
	q.settle()
	return q.trySide(acts, c)
}

// start returns the slot that the nodes are to look at first: that which was released for the call, or any, so that callers do not all
// ask for the same.
func (c *Call) start(r *Rules) int {
	slot, slots := c.slot, c.Want.Slots
	c.slot = 0
	if i, ok := slot.At(); ok && i < int(slots) {
		return i
	}
	return int(r.Pace.Random(time.Duration(slots)))
}

// tell tells those who share the lock that a writer waits, while some of them are in its way.
func (q *queue) tell(acts []Act, wake *wakeUp) []Act {
	if q.line.want().Kind.Several() || !q.view.shared() || !wake.due(q.wantAt) {
		return acts
	}
	q.wantAt = wake.now.Add(wantEvery)
	wake.due(q.wantAt)
	return q.sendAll(acts, form.Want(q.key))
}

// WantChanged takes the announcement of a node that a writer waits, or no longer waits.
func (n *Name) WantChanged(acts []Act, node int) []Act {
	if n.queue == nil || !n.queue.line.want().Kind.Several() {
		return acts
	}
	return n.queue.changed(acts, node)
}

// unwant tells those who share the lock that no writer waits any longer.
func (q *queue) unwant(acts []Act) []Act {
	if q.wantAt.IsZero() {
		return acts
	}
	q.wantAt = time.Time{}
	return q.sendAll(acts, form.Unwant(q.key))
}

func (q *queue) sendAll(acts []Act, c *wire.Command) []Act {
	for i := range q.view.nodes {
		acts = append(acts, Act{Command: c, Tag: wire.Tag{What: Forgotten, Node: uint16(i)}})
	}
	return acts
}
