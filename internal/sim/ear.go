package sim

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// ear is a client's second connection to a node, over which it is told of changes, as
// package pool keeps it.
type ear struct {
	line     *line
	conn     *conn // nil while there is none
	up       bool  // it is subscribed
	wanted   bool
	dialling bool
	asked    int // the number of the tracking that has been asked for, 0: none
	tracking int // of the one that is in force
	last     int
	heard    int           // the tracking that the queues have been told of
	muted    time.Duration // until when what is told is lost
	late     bool          // the queues are about to be told
}

// listen has the client told what happens, from the first wait on.
func (c *client) listen() {
	if c.listening {
		return
	}
	c.listening = true
	for _, l := range c.lines {
		l.ear.wanted = true
		l.ear.attend()
	}
}

// covers says whether what is looked at may be watched.
func (e *ear) covers() bool { return e.tracking != 0 || e.asked != 0 }

// attend does what is due. An ear connects while its line is connected.
func (e *ear) attend() {
	switch {
	case !e.wanted || e.line.conn == nil:
	case e.conn == nil && !e.dialling:
		e.connect()
	case e.up && !e.covers():
		e.last++
		e.asked = e.last
		e.line.send(order{command{verb: track, ear: e.conn}, e, e.asked})
	}
}

func (e *ear) connect() {
	l := e.line
	l.made++
	c := &conn{world: l.world, line: l, client: l.client, server: l.server, number: l.made, blocked: l.blocked, ear: e}
	l.conns = append(l.conns, c)
	e.dialling = true
	greeted := false
	c.send(message{greets: true, done: func(reply) {
		if e.dialling {
			greeted, e.dialling = true, false
			e.conn, e.up = c, true
			e.attend()
		}
	}})
	l.client.after(dialTimeout, func() {
		if !greeted {
			c.cut, e.dialling = true, false
			e.again()
		}
	})
}

// again tries once more in a while.
func (e *ear) again() {
	e.line.client.after(minPause+time.Duration(e.line.world.chance(e.line.client.number, e.line.number, int(e.line.world.now), 9)%50)*time.Millisecond, e.attend)
}

// reply takes the answer to a tracking.
func (e *ear) reply(number int, _ verb, vote quorum.Vote, _ reply) {
	if number != e.asked {
		return // on another connection
	}
	e.asked = 0
	if vote == quorum.Yes {
		e.tracking = number
	} else if e.line.world.plan.Tracking {
		e.again()
	}
	e.report()
}

// broken ends a connection of the ear.
func (e *ear) broken(c *conn) {
	if c == e.conn {
		e.conn, e.up = nil, false
		e.unlinked()
		e.again()
	}
}

// unlinked tells that one of the two connections is gone.
func (e *ear) unlinked() {
	e.asked, e.tracking = 0, 0
	e.report()
}

// report tells the queues, a moment later: that is for another goroutine.
func (e *ear) report() {
	if e.late || e.heard == e.tracking {
		return
	}
	e.late = true
	c := e.line.client
	c.soon(func() {
		e.late = false
		if e.heard == e.tracking {
			return
		}
		was := e.heard
		e.heard = e.tracking
		for _, q := range c.queues {
			if was != 0 {
				q.do(func(now time.Time) quorum.Moves { return q.machine.Deaf(now, e.line.number) })
			}
			if e.heard != 0 {
				q.do(func(now time.Time) quorum.Moves { return q.machine.Hearing(now, e.line.number) })
			}
		}
	})
}

// changed tells that a key has changed.
func (e *ear) changed(key string) {
	c := e.line.client
	c.world.tell("client %d hears node %d: %s has changed", c.number, e.line.number, key)
	if q := c.queue(key); q != nil && e.heard != 0 {
		q.do(func(now time.Time) quorum.Moves { return q.machine.Changed(now, e.line.number) })
	}
}

// message takes what another client says.
func (e *ear) message(n *note) {
	c := e.line.client
	c.world.tell("client %d hears through node %d: %s %s %v", c.number, e.line.number, n.key, n.what, n.who)
	q := c.queue(n.key)
	switch {
	case n.what == waits && q != nil:
		q.do(func(time.Time) quorum.Moves {
			for _, who := range n.who {
				q.machine.Heard(who)
			}
			return quorum.Moves{}
		})
	case n.what == yours && q != nil:
		q.do(func(time.Time) quorum.Moves { return q.machine.Told(e.line.number, n.who) })
	case n.what == yours && len(n.who) > 0:
		e.line.publish(n.who[0], &note{yours, n.key, n.who[1:]})
	}
}

const (
	waits = "waits"
	yours = "yours"
)

// publish sends a message to another client.
func (l *line) publish(to string, n *note) {
	l.send(order{cmd: command{verb: publish, key: to, note: n}, node: l.number})
}
