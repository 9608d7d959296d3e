package sim

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

const (
	nodeTimeout = 50 * time.Millisecond
	maxOverdue  = 200 * time.Millisecond
	dialTimeout = 100 * time.Millisecond
	minPause    = 5 * time.Millisecond
	maxPause    = 100 * time.Millisecond
)

// order is a command, for the pipeline.
type order struct {
	cmd  command
	to   receiver // nil means that nobody cares how it ends
	node int      // the number that the receiver knows it by
}

// receiver takes the end of a command.
type receiver interface {
	reply(node int, v verb, vote quorum.Answer, r reply)
}

// line is a client's side of a node: it carries out what the pipeline decides, as
// package pool does with sockets and goroutines.
type line struct {
	world    *world
	client   *client
	server   *server
	number   int
	commands *node.Pipeline[order]
	conn     *conn   // nil while there is none
	last     *conn   // the one before, if it broke with answers missing
	conns    []*conn // all that the server may still read from
	made     int     // connections, for their numbers
	pause    time.Duration
	writing  bool          // a write is about to happen
	blocked  time.Duration // until when nothing gets through
	timer    timer         // on the client's mono: for what expires
	guard    node.Guard
	met      bool // it was connected once
}

var errUnreachable = errors.New("unreachable")

// send puts a command to the node.
func (l *line) send(o order) {
	now := l.client.mono.Now()
	if o.cmd.sent == 0 {
		o.cmd.sent = l.world.now
	}
	op := node.Op[order]{Item: o, CleanUp: o.cmd.verb == release, Redeliver: time.Duration(o.cmd.ttl) * time.Millisecond}
	if _, err := l.commands.Send(now, op); err != nil {
		o.end(quorum.Unsent, reply{})
		return
	}
	l.timer.set(l.client, &l.client.mono, now.Add(nodeTimeout), l.expire)
	l.wake()
}

func (o order) end(vote quorum.Answer, r reply) {
	if o.to != nil {
		o.to.reply(o.node, o.cmd.verb, vote, r)
	}
}

// notify ends the commands that were not answered.
func (l *line) notify() {
	for _, n := range l.commands.Notices() {
		n.Item.end(n.Answer, reply{})
	}
}

// wake has what is queued written in a moment.
func (l *line) wake() {
	if l.conn == nil || l.writing {
		return
	}
	l.writing = true
	l.client.after(time.Duration(l.world.chance(l.client.number, l.number, l.made, int(l.world.now))%20)*time.Microsecond, func() {
		l.writing = false
		l.write()
	})
}

func (l *line) write() {
	l.refuse()
	for l.conn != nil {
		now := l.client.mono.Now()
		taken := l.commands.Take(now, 1)
		if len(taken) == 0 {
			return
		}
		l.timer.set(l.client, &l.client.mono, now.Add(nodeTimeout), l.expire)
		o, c := taken[0], l.conn
		o.Item.cmd.track = o.Item.cmd.verb == observe && c.tracking
		c.send(message{cmd: o.Item.cmd, done: func(r reply) { l.answered(c, r) }})
	}
}

func (l *line) answered(c *conn, r reply) {
	if c != l.conn {
		return
	}
	if l.commands.Next() == nil {
		l.world.violate("answers and questions stay in step", "client %d got an answer of node %d to no question", l.client.number, l.number)
		return
	}
	o, reported := l.commands.Answered()
	if reported {
		return
	}
	vote := quorum.No
	switch r.code {
	case 1:
		vote = quorum.Yes
	case 2:
		vote = quorum.Recreated
	case refusal:
		vote = quorum.Refused
	}
	o.Item.end(vote, r)
}

// connect tries to make a connection. In a frozen server the kernel accepts it, but
// nobody answers.
func (l *line) connect() {
	w := l.world
	l.made++
	c := &conn{world: w, line: l, client: l.client, server: l.server, number: l.made, blocked: l.blocked}
	l.conns = append(l.conns, c)
	greeted := false
	c.send(message{greets: true, kill: l.last, done: func(r reply) {
		greeted = true
		l.connected(c, r)
	}})
	l.client.after(dialTimeout, func() {
		if !greeted {
			c.cut = true
			l.failed()
		}
	})
}

func (l *line) connected(c *conn, r reply) {
	l.commands.Connected()
	l.meet(r.process)
	l.conn, l.last, l.pause = c, nil, minPause
	if c.tracking {
		l.tracked(true)
	}
	l.wake()
}

func (l *line) failed() {
	l.commands.Failed(l.client.mono.Now(), errUnreachable)
	l.notify()
	l.pause = min(2*l.pause, maxPause)
	l.client.after(l.pause, l.connect)
}

// broken ends a connection at the client.
func (l *line) broken(c *conn) {
	if c != l.conn {
		return
	}
	l.conn = nil
	if unfinished := l.commands.Broken(l.client.mono.Now(), errUnreachable); unfinished {
		l.last = c
	}
	l.notify()
	if c.tracking {
		l.tracked(false)
	}
	l.client.after(0, l.connect)
}

func (l *line) expire() {
	cut, next := l.commands.Expire(l.client.mono.Now())
	l.timer.set(l.client, &l.client.mono, next, l.expire)
	l.notify()
	if cut && l.conn != nil {
		l.conn.breakOff(0)
	}
}
