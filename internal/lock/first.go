package lock

// If no other call is before a call of Lock, it is a first call. It costs as little as a call of TryLock, because its
// first round needs no queue. A call that waits is made only when that round is lost. Meanwhile the placeholder nobody
// has its place in the line, if there is one.

// nobody is the placeholder at the head of the line while a first call tries. The queue never offers it a round,
// because it offers none until the round of the first call has ended.
var nobody = &Call{Want: new(Want), waits: true}

// First makes c a first call if no call is before it. Then no call waits or has a side round, this process does not
// have the lock, and other processes do not have the turn. The caller begins the round with Ask, and Won or
// [Name.WaitOn] follows. Otherwise First returns false, and the call has to wait. First also returns false for a call
// that shares the lock.
//
// First makes no queue for the first lock of a name. It makes one for the second lock, to count the wins in a row.
func (n *Name) First(c *Call) bool {
	if c.Want.Kind.Several() || n.first {
		return false
	}
	if n.queue == nil && n.began == 0 {
		c.waits, c.first, n.first = true, true, true
		return true
	}
	q := n.queued()
	if q.state == ours || !q.turn.until.IsZero() { // otherwise nothing depends on the time
		now := n.rules.Clock.Now()
		q.expire(now)
		if now.Before(q.turn.until) {
			return false
		}
	}
	if q.state != idle || len(q.line.side) > 0 {
		return false
	}
	q.line.come(c)
	c.first, n.first = true, true
	q.line.calls = append(q.line.calls, nobody)
	q.startsAgain()
	q.begin()
	return true
}

// WaitOn puts c, a call that waits, into the place of a first call whose round has ended and was not won. Lost or Leave
// follows.
func (n *Name) WaitOn(first, c *Call) {
	q := n.queued()
	c.waits, c.first, c.arrived = true, false, first.arrived
	n.first = false
	q.line.calls[0] = c
}

// queued returns the queue, and makes it if there is none. If a first call tries, its placeholder is then the head. If
// a first call has won the lock, that counts as one win.
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
