package lock

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
)

// line is the list of the calls that wait for a name in this process, in the order in which they came.
type line struct {
	calls    []*Call   // the first is the head, which contends for the lock
	side     []*Call   // calls with a side round, in no order
	arrivals uint64    // how many calls have come
	width    int       // how many side rounds for slots may follow a round that was won
	leftAt   time.Time // when a slot that was released here was last left to other processes, though calls waited
}

// want returns the Want of the head. It returns an empty Want if no call waits.
func (l *line) want() *Want {
	if len(l.calls) == 0 {
		return new(Want)
	}
	return l.calls[0].Want
}

// come records that a call has come to the queue.
func (l *line) come(c *Call) {
	c.waits, c.arrived = true, l.arrivals
	l.arrivals++
}

// remove takes the call at a place out of the line.
func (l *line) remove(i int) { l.calls = slices.Delete(l.calls, i, i+1) }

// sideRound records that a call has a side round.
func (l *line) sideRound(c *Call) {
	l.side = append(l.side, c)
	c.side = len(l.side)
}

// back records that the round of a call has ended. It returns the call if that was a side round, and nil otherwise. It
// returns a pointer that the line already had, and the line does not keep c. So the calls that do not wait, which have
// rounds too, can stay on the stack.
func (l *line) back(c *Call) (own *Call) {
	if c.side == 0 {
		return nil
	}
	i, last := c.side-1, len(l.side)-1
	own = l.side[i]
	l.side[i] = l.side[last]
	l.side[i].side = 1 + i
	l.side[last], l.side = nil, l.side[:last]
	own.side = 0
	return own
}

// rejoin puts a call that has lost a side round in front of the calls that came later. If the head has a round under
// way (tries), the call goes behind it. rejoin reports whether the call is the head now.
func (l *line) rejoin(c *Call, tries bool) bool {
	i := slices.IndexFunc(l.calls, func(o *Call) bool { return o.arrived > c.arrived })
	if i < 0 {
		i = len(l.calls)
	}
	if i == 0 && tries {
		i = 1
	}
	l.calls = slices.Insert(l.calls, i, c)
	return i == 0
}

// followers removes the next calls from the line that have the kind of a call that has won, and returns them. Of calls
// for a slot it removes one more with each win in a row, because each slot may be the last.
func (l *line) followers(kind form.Kind) []*Call {
	l.width = min(l.width+1, maxWidth)
	n := 0
	for n < len(l.calls) && l.calls[n].Want.Kind == kind && (!kind.HasSlots() || n < l.width) {
		n++
	}
	next := slices.Clone(l.calls[:n])
	l.calls = slices.Delete(l.calls, 0, n)
	return next
}
