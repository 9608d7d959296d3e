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
	now := time.Now()
	n.mu.Lock()
	n.alarm = time.Time{}
	var notices []notice
	var next time.Time // when to look again
	look := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	tell := func(o *op, answer Answer, reason error) {
		if !o.told {
			o.told = true
			notices = append(notices, notice{*o, Reply{Answer: answer, Err: reason}})
		}
	}
	for i := range n.sent.all() {
		if o := &n.sent.all()[i]; now.Before(o.deadline) {
			look(o.deadline)
		} else {
			n.suspect = true
			if o.cmd.kind != restore {
				tell(o, Maybe, ErrTimeout)
			}
		}
	}
	unsent := ErrTimeout
	if n.link == nil && n.down != nil {
		unsent = n.down
	}
	n.queue.keep(func(o *op) bool {
		switch {
		case now.Before(o.deadline):
			look(o.deadline)
			return true
		case o.cmd.kind == release: // something of ours may be on the server
			tell(o, Maybe, unsent)
			if n.link == nil {
				n.owed.push(*o)
			}
			return n.link != nil
		default:
			tell(o, Unsent, unsent)
			return false
		}
	})
	if n.link == nil && n.down == nil && len(notices) > 0 {
		n.down = &ConnectError{Err: ErrTimeout}
	}
	var stuck *link
	if n.sent.len() > 0 && n.link != nil && !n.link.doomed {
		limit := n.sent.all()[0].deadline.Add(n.opts.maxOverdue)
		if !now.Before(limit) {
			stuck = n.link
			stuck.doomed = true
			stuck.cutting.Add(1)
		} else {
			look(limit)
		}
	}
	if !next.IsZero() {
		n.armLocked(next)
	}
	n.mu.Unlock()
	deliver(notices)
	if stuck != nil {
		stuck.wire.cut()
		stuck.cutting.Done()
	}
}
