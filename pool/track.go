package pool

import "time"

// track has the node's link tell this connection of changes, as soon as both are
// there, and again when one of them is another. It returns false if this connection is to be given up.
func (s *session) track(now time.Time) bool {
	e, n := s.ear, s.ear.node
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.link
	switch {
	case e.giveWay:
		return false
	case l == nil || s.link.client == 0 || s.channels[invalidations] != subscribed:
		return true // what the server tells a client that is not subscribed is lost
	case l.server != s.link.server && l.server != "" && s.link.server != "":
		return false // one of the two is at a process that is gone: the number means nothing to the other
	}
	if l != s.tried {
		s.tried, s.retrack.at = l, time.Time{}
	}
	if e.failed != nil {
		s.retrack.later(now, longestPause(e.failed))
		e.failed = nil
	}
	if e.tracking != 0 && e.tracking != s.told {
		// With the link before, this connection may have died unnoticed: it is tried.
		s.told, s.retrack, s.pingAt = e.tracking, backoff{}, now
	}
	if e.asked != nil || e.tracking != 0 {
		return true
	}
	if now.Before(s.retrack.at) {
		s.dueAt(s.retrack.at)
		return true
	}
	cmd := newTracking(s.link.client)
	first, err := n.commands.Send(now, order{cmd: cmd, to: e}.op())
	if err != nil {
		s.retrack.later(now, maxPause)
		s.dueAt(s.retrack.at)
		return true
	}
	l.tracks, e.asked = true, cmd
	n.armLocked(now.Add(n.opts.timeout))
	if first {
		n.rouse()
	}
	return true
}

// Reply implements [Receiver], for tracking.
func (e *ear) Reply(_ int, cmd *Command, reply Reply) {
	e.node.mu.Lock()
	defer e.node.mu.Unlock()
	if cmd != e.asked {
		return // on another link, or to tell an ear that is gone
	}
	e.asked, e.failed = nil, reply.Err
	if reply.Answer == Yes {
		e.last++
		e.tracking = e.last
	}
	e.rouse()
}

// coversLocked says whether what is looked at may be watched. A tracking that is under
// way does not count: until it is in force the link may track for an ear that is gone.
func (e *ear) coversLocked() bool { return e != nil && e.tracking != 0 }
