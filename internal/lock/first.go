package lock

// A call of Lock that nobody is before costs as little as one of TryLock. Its first round needs no queue, and a call that waits is made when
// that round is lost. Meanwhile nobody stands for it.

// nobody is the first in the line while a first call tries. It is never offered a round, as the line does not come to it before.
var nobody = &Call{Want: new(Want), waits: true}

// First begins to take the lock for a call, if nobody is before it: no call waits or has a side round, this process does not have the
// lock, and it is not the turn of other processes. The round of the call follows, by Ask, and then Won or [Name.WaitOn]. Otherwise First returns
// false, and the call has to wait, as has one that shares the lock.
//
// A queue is not made for the first lock of a name. It is for the second, so that the wins in a row are counted.
func (n *Name) First(c *Call) bool {
	if c.Want.Kind.Several() || n.first {
		return false
	}
	if n.queue == nil && n.began == 0 {
		c.waits, c.first, n.first = true, true, true
		return true
	}
	q, now := n.queued(), n.rules.Clock.Now()
	q.expire(now)
	if q.state != idle || len(q.line.side) > 0 || now.Before(q.turn.until) {
		return false
	}
	q.line.come(c)
	c.first, n.first = true, true
	q.line.calls = append(q.line.calls, nobody)
	q.reset()
	q.begin()
	return true
}

// WaitOn puts a call into the place of a first call, the round of which has ended and was not won. Lost or Leave follows.
func (n *Name) WaitOn(first, c *Call) {
	q := n.queued()
	c.waits, c.first, c.arrived = true, false, first.arrived
	n.first = false
	q.line.calls[0] = c
}

// queued returns the queue, and makes it if there is none. A first call that tries is the first in it, and one that has the lock has won once.
func (n *Name) queued() *queue {
	if n.queue != nil {
		return n.queue
	}
	bounds := &n.rules.Pace
	q := &queue{
		key: n.key, rules: n.rules, view: view{nodes: make([]nodeState, n.rules.Nodes)},
		pace: pace{bounds: bounds, rtt: min(bounds.First, maxRTT)},
	}
	n.queue = q
	if n.first {
		q.state, q.line.calls, q.line.arrivals = trying, []*Call{nobody}, 1
		return q
	}
	if l := n.won(); l != nil {
		q.state, q.holder, q.since = ours, l, l.Start()
		q.turn.wins, q.turn.from = 1, l.Start()
	}
	return q
}

// won returns the lock that a first call has won while there was no queue; nil if there is none.
func (n *Name) won() *Lease {
	for l := range n.Leases {
		if l.first {
			return l
		}
	}
	return nil
}

// told returns the queue to which a message of another process is of use; nil if there is none.
func (n *Name) told() *queue {
	if n.queue == nil && !n.first && n.won() == nil {
		return nil
	}
	return n.queued()
}
