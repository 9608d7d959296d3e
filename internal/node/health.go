package node

import (
	"time"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Health is the state of a node's connection.
type Health struct {
	Up bool
	// Down is how long the node was not connected: since the connection broke, or since the first attempt failed. It is 0
	// if the first attempt succeeded.
	Down time.Duration
	// Quarantined means that the server does not vote for locks: for Left or, if Left is 0, until it has been stamped. In
	// the second case Err says why it was not.
	Quarantined bool
	Left        time.Duration
	// Alone means that the server goes on granting locks while it is cut off from its replicas, though Sentinels watch it.
	Alone bool
	// Same means that the connection is still the same: only Quarantined, Left and Err may have changed.
	Same bool
	// Failed is how many attempts to connect have failed since the node was up. If the node is not up, 0 means that a
	// connection ended.
	Failed int
	// Err is why the node is not up, or why its server was not stamped (see Quarantined). It is nodeerr.ErrClosed at the
	// end of the node or of the notifications.
	Err error
}

// Reporter is notified when a connection is ready, when it breaks, when an attempt to connect fails, and when the
// quarantine of its server changes. It must not block, and must not call the node. A node knows it by its identity, so
// it must be comparable.
type Reporter interface {
	Health(node int, h Health)
}

// health is the state that a node keeps for its reporters.
type health struct {
	failed    int
	votes     standing  // the standing that was reported last
	downSince time.Time // since when the node is not up; zero while it is up, and before its first failure
}

// standing is whether a server votes.
type standing struct {
	quarantined, stamped bool
	until                time.Time // when it begins to vote, if it is quarantined and stamped
}

// standingOf returns the standing that a health shows.
func standingOf(now time.Time, h *Health) standing {
	s := standing{quarantined: h.Quarantined, stamped: h.Err == nil}
	if h.Left > 0 {
		s.until = now.Add(h.Left)
	}
	return s
}

// differs reports whether the standing has changed enough to report it. It ignores a change of until by less than a
// second. The age of a stamp is uncertain by the time that the stamp was on its way.
func (s standing) differs(from standing) bool {
	later := s.until.Sub(from.until)
	return s.quarantined != from.quarantined || s.stamped != from.stamped || later.Abs() >= time.Second
}

// Report notifies r until Unreport. node is the number of the node in these notifications. If the node is connected, r
// is notified of that at once.
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

// Unreport ends the notifications of r. The last one says that the node is closed.
func (n *Node) Unreport(r Reporter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := Health{Err: nodeerr.ErrClosed}
	if n.conn == nil { // no connection ends, so Failed must not be 0
		h.Failed = max(1, n.health.failed)
	}
	if node, notified := n.reports[r]; notified {
		delete(n.reports, r)
		r.Health(node, h)
	}
}

// healthLocked returns the health of a node that is connected.
func (n *Node) healthLocked(now time.Time) Health {
	h := Health{Up: true, Alone: n.conn.alone && n.server().Watched}
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

// brokenLocked reports that the connection broke, or that it ended with the node.
func (n *Node) brokenLocked(err error) {
	switch {
	case n.pipeline.Closed():
		err = nodeerr.ErrClosed
	case err == nil: // the connection was cut
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

// reportLocked notifies each Reporter.
func (n *Node) reportLocked(h Health) {
	for r, node := range n.reports {
		r.Health(node, h)
	}
}
