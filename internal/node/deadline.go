package node

import "time"

// One timer serves all commands of a node. They have the same timeout, so the timer goes from the oldest to the next and
// is seldom set: when it fires under steady load, it finds a command that is young and sleeps on.

// armLocked makes the timer fire at the given time, unless it fires before anyway.
func (n *Node) armLocked(at time.Time) {
	if !n.firesAt.IsZero() && !at.Before(n.firesAt) {
		return
	}
	n.firesAt = at
	if n.timer == nil {
		n.timer = time.AfterFunc(time.Until(at), n.expire)
		n.expiring.Add(1)
	} else if !n.timer.Reset(time.Until(at)) {
		n.expiring.Add(1) // not moved, but set: the call before has begun
	}
}

// expire ends the commands whose timeout is over, and cuts a connection whose oldest answer is overdue for too long.
func (n *Node) expire() {
	defer n.expiring.Done()
	n.mu.Lock()
	n.firesAt = time.Time{}
	now := time.Now()
	notices, cut, next := n.pipeline.Expire(now)
	if len(notices) > 0 {
		n.pipeline.Blame(&ConnectError{Err: ErrTimeout})
	}
	c := n.conn
	if !next.IsZero() {
		n.armLocked(next)
	}
	if n.conn != nil && !n.pipeline.Closed() {
		n.pingLocked(now)
	}
	n.mu.Unlock()
	report(notices)
	if cut {
		c.cut()
	}
}

// pingLocked tries a connection that has nothing under way, and asks again for the tracking that was refused.
func (n *Node) pingLocked(now time.Time) {
	if !now.Before(n.pingAt) {
		n.pingAt = now.Add(pingEvery)
		n.trackLocked(now)
		if n.pipeline.Idle() {
			n.sendLocked(now, newCommand(ping, nil, "", "", "PING"), nil)
		}
	}
	n.armLocked(n.pingAt)
}
