package sim

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// stamp sends what the guard asks for, and then calls ready, with the refusal if that was the end.
func (l *line) stamp(c *conn, set []string, ready func(error)) {
	if set == nil {
		ready(nil)
		return
	}
	cmd := wire.Stamp("node", set)
	c.send(message{order: order{cmd: cmd}, source: true, done: func(v wire.Value) {
		r := cmd.Reply(&v)
		if set = l.guard.Stamped(l.client.mono.Now(), set, &r); set == nil && r.Err != nil {
			ready(r.Err)
			return
		}
		l.stamp(c, set, ready)
	}})
}

// stampChanged has the stamp read again, as it may have changed.
func (l *line) stampChanged(c *conn) {
	if c != l.conn {
		return
	}
	if l.guard.Changed(l.client.mono.Now()) {
		l.identify(c)
	}
	l.restamp(c)
}

// identify asks the server of a connection who it is, and then for its stamp.
func (l *line) identify(c *conn) {
	answered := false
	l.client.after(nodeTimeout+maxOverdue, func() { // as with any other command
		if !answered && c == l.conn {
			c.breakOff(0)
		}
	})
	wrong := func() {
		answered = true
		l.wrong(c, errReplica)
	}
	c.send(message{asks: true, refused: wrong, greeted: func(server wire.Identity) {
		answered = true
		if l.found(c, server); c != l.conn || l.commands.Life.State() != wire.Serving {
			return
		}
		c.identity = server
		l.stamp(c, l.guard.Connected(l.client.mono.Now(), server), func(err error) {
			if wire.Wrong(err) {
				l.wrong(c, err)
			}
		})
	}})
}

// restamp asks a server again that has refused its stamp.
func (l *line) restamp(c *conn) {
	if !l.guard.Unstamped() {
		return
	}
	l.client.after(time.Second, func() {
		if c == l.conn && !c.cut && l.guard.Unstamped() {
			l.identify(c)
			l.restamp(c)
		}
	})
}

// stamp is one, and when it expires.
type stamp struct {
	value   string
	expires time.Duration
}

// restamp carries out a command of a guard.
func (s *server) restamp(c *conn, set []string) wire.Value {
	chance := s.chance(c.client.number, s.number, c.number, int(s.world.now), 25)
	value, left := s.stamped.value, s.stamped.expires-s.now()
	switch {
	case chance%8 == 0:
		return wire.Value{Kind: '-', Text: []byte("NOREPLICAS Not enough good replicas to write.")}
	case value != "" && set[1] == "NX": // it stays
	case set[1] == "XX":
		value = set[0]
	default:
		value, left = set[0], millis(set[len(set)-1])
	}
	if c.tracking {
		s.watched = append(s.watched, c)
	}
	if value != s.stamped.value {
		s.restamped(c)
	}
	if s.stamped = (stamp{value, s.now() + left}); value != set[0] {
		s.log("node %d has the stamp %s, and not %s", s.number, value, set[0])
	}
	return wire.Value{Kind: '*', Items: []wire.Value{{Kind: '$', Text: []byte(value)}, number(left.Milliseconds())}}
}

// restamped pushes that the stamp has changed to every connection that has read it since it changed last, but that which has changed it.
func (s *server) restamped(by *conn) {
	watched := s.watched
	s.watched = nil
	for _, c := range watched {
		if c == by {
			s.watched = append(s.watched, c)
		} else {
			s.push(c, func() { c.stampChanged(c) })
		}
	}
}
