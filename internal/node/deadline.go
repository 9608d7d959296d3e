package node

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// One timer serves all commands of a node. All commands have the same timeout, so the timer is set for the oldest one.
// Under steady load it is seldom set: when it fires, it finds that the oldest command is young, and is set for that
// one.

// armLocked makes the timer fire at the given time, unless it fires before anyway.
func (n *Node) armLocked(at time.Time) {
	if n.firesAt.IsZero() || at.Before(n.firesAt) {
		n.firesAt = at
		n.timer.Reset(time.Until(at))
	}
}

// expire runs when the timer fires. It ends the commands whose timeout is over, and cuts a connection whose oldest
// answer is overdue for too long. When it is time, it also tests a connection that has nothing under way, and begins a
// look. It asks again for tracking and for the stamp then.
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
	switch {
	case len(n.postponed) == 0:
	case now.Before(n.retryAt):
		n.armLocked(n.retryAt)
	default:
		n.retryLocked(now)
	}
	c := n.conn
	if cut {
		c.overdue = true
	}
	if c != nil && !n.pipeline.Closed() {
		if !now.Before(n.pingAt) {
			n.pingAt = now.Add(pingEvery)
			n.trackLocked(now)
			c.barred = nil
			n.attendAllLocked(now)
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

// postponeLocked sends clean-up once more after a while.
func (n *Node) postponeLocked(op wire.Op[pending]) {
	if n.pipeline.Closed() {
		return
	}
	if len(n.postponed) == 0 {
		n.retryAt = time.Now().Add(retryAfter)
		n.armLocked(n.retryAt)
	}
	n.postponed = append(n.postponed, op)
}

// retryLocked sends clean-up that was postponed.
func (n *Node) retryLocked(now time.Time) {
	for _, op := range n.postponed {
		n.pipeline.Undone(now, op)
	}
	n.postponed = nil
	n.wakeLoop()
}
