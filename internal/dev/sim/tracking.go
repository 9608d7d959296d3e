package sim

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
)

// note is a message from one client to another.
type note struct {
	to   string
	what string // as in lock.Message
	key  string
	who  []lock.Peer
}

// greet ends the connection before, if that is permitted. It decides what the new one is for: pushes if
// RESP3 is spoken, and invalidations among them if the node permits CLIENT TRACKING.
func (s *server) greet(c, before *conn) {
	c.process = s.identity.Process
	if before != nil && s.plan.Fencing {
		before.killed, before.inbox = true, nil
	}
	c.pushes, c.tracking = true, s.plan.Tracking
	switch chance := s.chance(c.client.number, s.number, c.number, 15); {
	case !s.plan.Tracking:
		c.pushes = s.chance(s.number, 15)&1 == 0
	case s.plan.Fickle && chance&3 == 0:
		c.pushes, c.tracking = chance&4 == 0, false
	}
}

// track has the next change of a key pushed.
func (s *server) track(c *conn, key string) {
	if !slices.Contains(s.tracked[key], c) {
		s.tracked[key] = append(s.tracked[key], c)
	}
	s.lapse(key)
}

// lapse has a tracked key deleted some time after its TTL, if at all: else a command that comes across it
// deletes it.
func (s *server) lapse(key string) {
	e, ok := s.peek(key, s.now())
	c := s.chance(s.number, int(e.expires.Milliseconds()), 8)
	if !ok || e.forever || c%4 == 0 {
		return
	}
	late := time.Duration(c>>8%75) * time.Millisecond
	if c%4 == 1 {
		late = time.Duration(c>>8%2000) * time.Millisecond
	}
	over := time.Duration(float64((e.expires-s.now()).Milliseconds()+2)/s.clock.rate) * time.Millisecond
	s.after(over+late, func() { s.expire(key, e.token) })
}

// expire deletes a key whose time is over.
func (s *server) expire(key, token string) {
	e, there := s.keys[key]
	if !there || !s.up || e.token != token || len(s.tracked[key]) == 0 {
		return
	}
	if s.world.now < s.frozen {
		s.at(s.frozen, func() { s.expire(key, token) })
		return
	}
	if _, ok := s.get(key, s.now()); ok {
		s.lapse(key) // extended
	}
}

// invalidate pushes a change to every connection on which the key was tracked since it changed last, but that on which the
// command came which has made it (NOLOOP).
func (s *server) invalidate(key string) {
	s.world.changed(key)
	conns := s.tracked[key]
	delete(s.tracked, key)
	for _, c := range conns {
		if c != s.current {
			s.push(c, func() { c.invalidated(key) })
		}
	}
}

// publish pushes a message to another client. It returns how many connections get it.
func (s *server) publish(n *note) (receivers int64) {
	for _, client := range s.clients {
		for _, c := range client.lines[s.number].conns {
			if c.pushes && client.self == n.to {
				s.push(c, func() { c.message(n) })
				receivers++
			}
		}
	}
	return receivers
}

// push sends something that nobody has asked for.
func (s *server) push(c *conn, take func()) {
	if !c.killed {
		c.deliver(take)
	}
}

// invalidated reports a change to the queue of the key.
func (l *line) invalidated(key string) {
	if l.trace != nil {
		l.log("client %d: node %d invalidates %s", l.client.number, l.server.number, key)
	}
	of, asked := form.Wanted(key)
	for _, n := range l.client.names {
		switch {
		case asked && n.key == of:
			n.do(func() { n.act(n.lock.WantChanged(nil, l.server.number)) })
		case n.key == key:
			n.do(func() { n.act(n.lock.Changed(nil, l.server.number)) })
		}
	}
}

// trackingActive records that every key may have changed.
func (l *line) trackingActive() {
	for _, n := range l.client.names {
		n.do(func() { n.act(n.lock.TrackingActive(nil, l.server.number)) })
	}
	for _, n := range l.client.names {
		n.do(func() {
			for t := range n.lock.Leases {
				if t.Tracked {
					n.act(t.Changed(nil, l.server.number))
				}
			}
		})
	}
}

// message takes what another client has published.
func (l *line) message(note *note) {
	c := l.client
	c.log("client %d: message through node %d: %s %s %v", c.number, l.server.number, note.key, note.what, note.who)
	n := c.name(note.key)
	n.do(func() {
		if note.what == lock.Waits {
			n.act(n.lock.PeersWait(nil, l.server.number, note.who))
			return
		}
		acts, _ := n.lock.TurnPassed(nil, l.server.number, note.who)
		n.act(acts)
	})
}
