package node

import (
	"time"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Health is how a node is connected.
type Health struct {
	Up   bool
	Down time.Duration // for how long it was not: since the connection broke, or since the first attempt; 0 if that succeeded
	// Quarantined means that the server does not vote for locks for Left; or, if Left is 0, until it has been stamped: Err says why it was not.
	Quarantined bool
	Left        time.Duration
	Same        bool // the connection is that of before: only what is above has changed
	// Failed is how many attempts to connect have failed since the node was up. 0 and an Err mean that a connection ended.
	Failed int
	Err    error // why the node is not up, see also Quarantined; nodeerr.ErrClosed at the end of the node or of the notifications
}

// A Reporter is notified when a connection is ready, when it breaks, and of each attempt to connect that fails. It must not
// block, and must not call the node. It is known by its identity, so it must be comparable.
type Reporter interface {
	Health(node int, h Health)
}

// health is what a node remembers for its reporters.
type health struct {
	failed    int
	votes     standing  // that was reported last
	downSince time.Time // zero while the node is up, or was never used
}

// standing is whether a server votes.
type standing struct {
	quarantined, stamped bool
	until                time.Time // when it votes, if it is quarantined and stamped
}

func standingOf(now time.Time, h *Health) standing {
	s := standing{quarantined: h.Quarantined, stamped: h.Err == nil}
	if h.Left > 0 {
		s.until = now.Add(h.Left)
	}
	return s
}

// differs reports whether it is worth telling that a server votes from now on, or not. The age of a stamp is known but for the time for
// which it was on its way.
func (s standing) differs(from standing) bool {
	later := s.until.Sub(from.until)
	return s.quarantined != from.quarantined || s.stamped != from.stamped || later.Abs() >= time.Second
}

// Report notifies r, under the number node, until Unreport. If the node is connected, r is notified of that at once.
func (n *Node) Report(r Reporter, node int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reports == nil {
		n.reports = map[Reporter]int{}
	}
	n.reports[r] = node
	if n.conn != nil {
		r.Health(node, n.healthLocked(time.Now()))
	}
}

// Unreport ends the notifications of r. For r the node is closed then.
func (n *Node) Unreport(r Reporter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := Health{Err: nodeerr.ErrClosed}
	if n.conn == nil { // no connection ends
		h.Failed = max(1, n.health.failed)
	}
	if node, notified := n.reports[r]; notified {
		delete(n.reports, r)
		r.Health(node, h)
	}
}

// healthLocked returns the health of a node that is connected.
func (n *Node) healthLocked(now time.Time) Health {
	h := Health{Up: true}
	if why := n.guard.Quarantine(now); why != nil {
		h.Quarantined, h.Err = true, why.Err
		if why.Err == nil {
			h.Left = why.Left
		}
	}
	return h
}

// upLocked reports that the node is connected.
func (n *Node) upLocked(now time.Time) {
	h := n.healthLocked(now)
	if since := n.health.downSince; !since.IsZero() {
		h.Down, h.Failed = now.Sub(since), n.health.failed
	}
	n.health = health{votes: standingOf(now, &h)}
	n.reportLocked(h)
}

// brokenLocked reports that the connection broke, or ended with the node.
func (n *Node) brokenLocked(err error) {
	switch {
	case n.pipeline.Closed():
		err = nodeerr.ErrClosed
	case err == nil: // it was cut
		err = nodeerr.ErrBroken
	}
	n.health.downSince = time.Now()
	n.reportLocked(Health{Err: err})
}

// failedLocked reports that an attempt to connect has failed, perhaps because the node is closed.
func (n *Node) failedLocked(err error) {
	if n.health.failed++; n.health.downSince.IsZero() {
		n.health.downSince = time.Now()
	}
	n.reportLocked(Health{Failed: n.health.failed, Err: err})
}

func (n *Node) reportLocked(h Health) {
	for r, node := range n.reports {
		r.Health(node, h)
	}
}
