package sim

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// message is a command, or a greeting, on its way.
type message struct {
	order
	track   bool                // CLIENT CACHING YES goes before it
	script  *wire.Script        // that carries it out
	source  bool                // it has the source of that, and not the hash
	done    func(wire.Value)    // where the reply goes, at the client
	refused func()              // no process is there to be greeted
	greeted func(wire.Identity) // HELLO, INFO, and CLIENT KILL of the connection before
	asks    bool                // it is INFO alone
	before  *conn               // nil means none
}

// proves reports whether it has what proves the rights of the user before a command that takes a lock.
func (m *message) proves() bool { return m.cmd.Proof != nil && m.script == m.cmd.Proof }

// conn is one connection: what goes in on one side comes out on the other in the same
// order, later or never.
type conn struct {
	*line
	server *server // to which the name of the node led
	number int

	pushes   bool // RESP3 is spoken
	tracking bool // CLIENT TRACKING is on
	use      wire.Use
	proven   wire.Proven
	identity wire.Identity // of the server, as it said last
	process  string        // of the server
	former   bool          // the server has become a replica of the one that has taken its place

	there   stream
	back    stream
	inbox   []message     // arrived and not read
	killed  bool          // the server reads no more of it
	cut     bool          // the client receives nothing more from it
	blocked time.Duration // until when nothing gets through
}

// newConn begins one, to where the name of the node leads.
func (l *line) newConn() *conn {
	l.made++
	c := &conn{line: l, server: l.server, number: l.made, blocked: l.blocked}
	l.conns = append(l.conns, c)
	return c
}

// stream is what is on its way in one direction.
type stream struct {
	number int           // of what was sent
	held   time.Duration // until when nothing arrives
	last   time.Duration
	flight []parcel
}

type parcel struct {
	at     time.Duration // when it arrives, unless something is in the way
	arrive func()
}

// put sends something.
func (s *stream) put(c *conn, direction int, arrive func()) {
	w := c.world
	s.number++
	s.last = max(s.last, w.now+w.latency(c.client.number, c.server.number, c.number, s.number, direction))
	s.flight = append(s.flight, parcel{s.last, arrive})
	w.at(s.last, func() { s.drain(c) })
}

// drain lets arrive what is due.
func (s *stream) drain(c *conn) {
	w := c.world
	if until := max(c.blocked, s.held); until > w.now { // the network keeps trying
		w.at(until, func() { s.drain(c) })
		return
	}
	for len(s.flight) > 0 && s.flight[0].at <= w.now && w.failed == nil {
		p := s.flight[0]
		s.flight = s.flight[1:]
		p.arrive()
	}
}

func (c *conn) send(m message) {
	c.there.put(c, 1, func() {
		if m.refused != nil && !c.server.up && !c.server.gone {
			c.deliver(m.refused)
		}
		if c.killed || !c.server.up {
			return
		}
		c.inbox = append(c.inbox, m)
		c.server.conns = append(c.server.conns, c)
		c.server.serve()
	})
}

// deliver sends a reply or a push to the client.
func (c *conn) deliver(take func()) { c.back.put(c, 2, func() { c.receive(take) }) }

func (c *conn) receive(take func()) {
	c.client.do(func() {
		if !c.cut {
			take()
		}
	})
}

// breakOff ends the connection. The client notices at once; of what is on its way to
// the server the last part is lost, and the rest arrives, as what has arrived is read.
func (c *conn) breakOff(lose float64) {
	if c.cut {
		return
	}
	c.cut = true
	c.there.flight = c.there.flight[:int(float64(len(c.there.flight))*(1-lose))]
	c.log("the connection of client %d to node %d breaks", c.client.number, c.server.number)
	c.client.do(func() { c.broken(c) })
}
