package pool

import "time"

// One timer serves all commands of a node. They have the same timeout, so it goes
// from the oldest to the next and is seldom set: when it fires under steady load,
// it finds a command that is young, and sleeps on.

// armLocked makes the timer fire at the given time, unless it fires before anyway.
// (It may be set for much later: for when an overdue answer has been out for too long.)
func (n *Node) armLocked(at time.Time) {
	if !n.alarm.IsZero() && !at.Before(n.alarm) {
		return
	}
	n.alarm = at
	if n.timer == nil {
		n.timer = time.AfterFunc(time.Until(at), n.expire)
		n.expiring.Add(1)
	} else if !n.timer.Reset(time.Until(at)) {
		n.expiring.Add(1) // not moved, but set: the call before has begun
	}
}

// expire ends the commands whose deadline is over and gives up a connection whose
// oldest answer is overdue for too long.
func (n *Node) expire() {
	defer n.expiring.Done()
	n.mu.Lock()
	n.alarm = time.Time{}
	now := time.Now()
	notices, cut, next := n.commands.Expire(now)
	if len(notices) > 0 {
		n.commands.Blame(&ConnectError{Err: ErrTimeout})
	}
	var stuck *link
	if cut {
		stuck = n.link
		stuck.cutting.Add(1)
	}
	if !next.IsZero() {
		n.armLocked(next)
	}
	if n.link != nil && !n.commands.Closed() {
		n.pingLocked(now)
	}
	n.mu.Unlock()
	tell(notices)
	if stuck != nil {
		stuck.wire.cut()
		stuck.cutting.Done()
	}
}

// pingLocked tries a connection that has nothing under way.
func (n *Node) pingLocked(now time.Time) {
	if !now.Before(n.pingAt) {
		n.pingAt = now.Add(pingEvery)
		if n.commands.Idle() {
			if _, err := n.commands.Send(now, newPing()); err == nil {
				n.armLocked(now.Add(n.opts.timeout))
				n.rouse()
			}
		}
	}
	n.armLocked(n.pingAt)
}
