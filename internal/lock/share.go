package lock

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Calls that share a lock wait in the queue of all calls of the name, behind whoever came before. But they do not wait for each other: one that
// finds the queue empty, and those behind one that has won, have their rounds at once, beside the queue. One that loses its round takes
// its place again.

// leaveEvery is how often a process leaves a permit that is released to whoever comes first, though calls of its own wait. So permits that
// are held for long go to any process, and those that go from hand to hand do not wait for a round trip each time.
const leaveEvery = 100 * time.Millisecond

// maxWidth bounds the rounds for permits that begin together.
const maxWidth = 64

// wantEvery is how often a writer says that it waits, while those who share the lock are in its way.
const wantEvery = time.Second

func (c *Call) shares() bool { return c.Want.Kind != form.Lock }

// want returns what the first call waits for.
func (q *queue) want() *Want {
	if len(q.calls) == 0 {
		return new(Want)
	}
	return q.calls[0].Want
}

// goBeside begins a round beside the queue.
func (q *queue) goBeside(acts []Act, c *Call) []Act {
	q.beside = append(q.beside, c)
	c.beside = len(q.beside)
	return append(acts, Act{What: Offer, Call: c})
}

// back takes it that a call has ended its round, and returns it if that was beside the queue. So the calls that do not wait, which have
// their rounds too, can stay on the stack: the queue keeps no pointer that it is passed here.
func (q *queue) back(c *Call) (own *Call) {
	if c.beside == 0 {
		return nil
	}
	i, last := c.beside-1, len(q.beside)-1
	own = q.beside[i]
	q.beside[i] = q.beside[last]
	q.beside[i].beside = 1 + i
	q.beside[last], q.beside = nil, q.beside[:last]
	own.beside = 0
	return own
}

// follow begins the rounds of the calls that come next, as far as they share the lock with one that has won. Of those that want a permit
// there is one more for each win in a row, as each may be the last.
func (q *queue) follow(acts []Act, kind form.Kind) []Act {
	q.width = min(q.width+1, maxWidth)
	for n := 0; len(q.calls) > 0 && q.calls[0].Want.Kind == kind && (kind == form.Read || n < q.width); n++ {
		acts = q.goBeside(acts, q.calls[0])
		q.calls = slices.Delete(q.calls, 0, 1)
	}
	return acts
}

// rejoin puts a call that has lost a round beside the queue in front of those that came later, but for one that has a round. It reports
// whether the call is the first now.
func (q *queue) rejoin(c *Call) bool {
	i := slices.IndexFunc(q.calls, func(o *Call) bool { return o.arrived > c.arrived })
	if i < 0 {
		i = len(q.calls)
	}
	if i == 0 && q.state == trying {
		i = 1
	}
	q.calls = slices.Insert(q.calls, i, c)
	return i == 0
}

// vacated takes it that the release of a permit has been sent. If the next call waits for one, it has its round behind it, and asks for its
// slot first. Then and when that is left to whoever is told of the release first, here or elsewhere.
func (q *queue) vacated(acts []Act, now time.Time, slot uint64) []Act {
	i := 0
	if q.state == trying && q.want().Kind == form.Permit { // nobody passes by a writer
		i = 1
	}
	if len(q.calls) <= i || q.calls[i].Want.Kind != form.Permit {
		return acts
	}
	if now.Sub(q.leftAt) >= leaveEvery {
		q.leftAt = now
		return acts
	}
	c := q.calls[i]
	c.slot = slot
	q.calls = slices.Delete(q.calls, i, i+1)
	if q.state == watching {
		q.settle()
	}
	return q.goBeside(acts, c)
}

// start returns the slot that the nodes are to look at first: that which was released for the call, or any, so that callers do not all
// ask for the same.
func (c *Call) start(r *Rules) int {
	slot, limit := c.slot, uint64(c.Want.Limit)
	if c.slot = 0; 0 < slot && slot <= limit {
		return int(slot - 1) //nolint:gosec // a limit is 1024 at most
	}
	return int(r.Pace.Random(time.Duration(c.Want.Limit)))
}

// tell tells those who would share the lock that a writer waits, while some of those who do are in its way.
func (q *queue) tell(acts []Act, wake *wakeUp) []Act {
	if q.want().Kind != form.Lock || q.count(func(n *nodeState) bool { return n.Held && form.IsMark(n.Token) }) == 0 || !wake.due(q.wantAt) {
		return acts
	}
	q.wanting, q.wantAt = true, wake.now.Add(wantEvery)
	wake.due(q.wantAt)
	return q.sendAll(acts, form.Want(q.key))
}

// WantChanged takes the announcement of a node that a writer waits, or waits no more.
func (n *Name) WantChanged(acts []Act, node int) []Act {
	if n.queue == nil || n.queue.want().Kind == form.Lock {
		return acts
	}
	return n.queue.changed(acts, node)
}

// unwant tells them that it waits no more.
func (q *queue) unwant(acts []Act) []Act {
	if !q.wanting {
		return acts
	}
	q.wanting, q.wantAt = false, time.Time{}
	return q.sendAll(acts, form.Unwant(q.key))
}

func (q *queue) sendAll(acts []Act, c *wire.Command) []Act {
	for i := range q.nodes {
		acts = append(acts, Act{Command: c, Tag: wire.Tag{What: Forgotten, Node: uint16(i)}})
	}
	return acts
}
