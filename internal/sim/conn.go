package sim

import "time"

// message is a command on its way, or the request to end another connection.
type message struct {
	cmd    command
	greets bool        // it is no command, but the first on its connection
	kill   *conn       // the connection to end, with the greeting
	done   func(reply) // where the reply goes, at the client
}

// answer is a reply on its way.
type answer struct {
	to message
	r  reply
}

// conn is one connection: what goes in on one side comes out on the other in the same
// order, later or never.
type conn struct {
	world  *world
	line   *line
	client *client
	server *server
	number int
	life   int  // of the server's process
	ear    *ear // whose connection it is; nil: it is the one for commands
	// redirect is where the server tells of changes to what was looked at here.
	redirect *conn

	there   stream[message]
	back    stream[answer]
	inbox   []message     // arrived and not read
	killed  bool          // the server reads no more of it
	cut     bool          // the client is told nothing more from it
	blocked time.Duration // until when nothing gets through
}

// stream is what is on its way in one direction.
type stream[T any] struct {
	number int // of what was sent
	last   time.Duration
	flight []parcel[T]
}

type parcel[T any] struct {
	at   time.Duration // when it arrives, unless something is in the way
	what T
}

// put sends something.
func (s *stream[T]) put(c *conn, direction int, what T, arrive func(T)) {
	w := c.world
	s.number++
	s.last = max(s.last, w.now+w.latency(c.client.number, c.server.number, c.number, s.number, direction))
	s.flight = append(s.flight, parcel[T]{s.last, what})
	w.at(s.last, func() { s.drain(c, arrive) })
}

// drain lets arrive what is due.
func (s *stream[T]) drain(c *conn, arrive func(T)) {
	w := c.world
	if c.blocked > w.now { // the network keeps trying
		w.at(c.blocked, func() { s.drain(c, arrive) })
		return
	}
	for len(s.flight) > 0 && s.flight[0].at <= w.now && w.failed == nil {
		p := s.flight[0]
		s.flight = s.flight[1:]
		arrive(p.what)
	}
}

func (c *conn) send(m message) { c.there.put(c, 1, m, c.arrive) }

func (c *conn) arrive(m message) {
	if c.killed || !c.server.up {
		return
	}
	c.inbox = append(c.inbox, m)
	c.server.conns = append(c.server.conns, c)
	c.server.serve()
}

func (c *conn) reply(m message, r reply) { c.back.put(c, 2, answer{m, r}, c.receive) }

func (c *conn) receive(a answer) {
	c.client.do(func() {
		if !c.cut {
			a.to.done(a.r)
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
	what := "connection"
	if c.ear != nil {
		what = "ear"
	}
	c.world.tell("the %s of client %d to node %d breaks", what, c.client.number, c.server.number)
	c.client.do(func() {
		if c.ear != nil {
			c.ear.broken(c)
		} else {
			c.line.broken(c)
		}
	})
}

// lost ends the connection as the server is gone: nothing of it arrives any more.
func (c *conn) lost() {
	c.killed, c.inbox = true, nil
	c.breakOff(1)
}
