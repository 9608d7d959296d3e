package node

import "time"

// One timer serves all commands of a node. They have the same timeout, so the timer goes from the oldest to the next and
// is seldom set: when it fires under steady load, it finds a command that is young and sleeps on.

// armLocked makes the timer fire at the given time, unless it fires before anyway.
func (n *Node) armLocked(at time.Time) {
	if n.firesAt.IsZero() || at.Before(n.firesAt) {
		n.firesAt = at
		n.timer.Reset(time.Until(at))
	}
}

// expire ends the commands whose timeout is over, and cuts a connection whose oldest answer is overdue for too long. It
// tries a connection that has nothing under way, asks again for the tracking that was refused, and begins a look.
func (n *Node) expire() {
	n.expiring <- struct{}{}
	defer func() { <-n.expiring }()
	n.mu.Lock()
	n.firesAt = time.Time{}
	now := time.Now()
	cut, next := n.pipeline.Expire(now)
	if !next.IsZero() {
		n.armLocked(next)
	}
	c := n.conn
	if c != nil && !n.pipeline.Closed() {
		if !now.Before(n.pingAt) {
			n.pingAt = now.Add(pingEvery)
			n.trackLocked(now)
			if n.pipeline.Idle() {
				n.sendLocked(now, ping.pending("", "PING"))
			}
		}
		n.armLocked(n.pingAt)
		if n.guard.Unstamped() {
			if !now.Before(n.stampAt) {
				n.identifyLocked(now)
			}
			n.armLocked(n.stampAt)
		}
		n.lookLocked(now)
	}
	n.unlock()
	if cut {
		c.Cut()
	}
}
