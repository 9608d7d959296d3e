package sim

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
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
	command
	done func(quorum.Answer, reply) // takes its end
	late func(quorum.Answer, reply) // takes an answer that comes after that; nil if nobody wants it
}

// ignored takes the end of a command that nobody waits for.
func ignored(quorum.Answer, reply) {}

// line is a client's side of a node: it carries out what the pipeline decides, as
// package pool does with sockets and goroutines.
type line struct {
	*world
	client   *client
	server   *server
	commands *wire.Pipeline[order]
	conn     *conn   // nil while there is none
	last     *conn   // the one before, if it broke with answers missing
	conns    []*conn // all that the server may still read from
	made     int     // connections, for their numbers
	pause    time.Duration
	writing  bool          // a write is about to happen
	blocked  time.Duration // until when nothing gets through
	timer    timer         // on the client's mono: for what expires
	guard    wire.Guard
	met      bool // it was connected once
	stood    map[string]stood
}

// stood is what the last observation of a key without a TTL has found, and for how long it had been there.
type stood struct {
	token string
	age   time.Duration
}

var (
	errUnreachable = errors.New("unreachable")
	errQuarantined = errors.New("not asked: the server may have forgotten locks")
)

// send puts a command to the node.
func (l *line) send(cmd command, done func(quorum.Answer, reply)) { l.sendLate(cmd, done, nil) }

// sendLate is send for those who also want an answer that comes late.
func (l *line) sendLate(cmd command, done, late func(quorum.Answer, reply)) {
	now := l.client.mono.Now()
	if cmd.sent == 0 {
		cmd.sent = l.now
	}
	op := wire.Op[order]{Item: order{cmd, done, late}, CleanUp: cmd.verb == release, Redeliver: cmd.ttl, Patient: late != nil && cmd.verb == observe}
	if _, err := l.commands.Send(now, op); err != nil {
		done(quorum.Unsent, reply{})
		return
	}
	l.timer.set(l.client, &l.client.mono, now.Add(nodeTimeout), l.expire)
	l.wake()
}

// force deletes what is observed under a key. Package redlock observes all nodes before.
func (l *line) force(key string) {
	l.send(command{verb: observe, key: key}, func(answer quorum.Answer, seen reply) {
		if answer == quorum.Yes {
			with := fencing{number: seen.number}
			l.send(command{verb: force, key: key, token: seen.token, fenced: seen.number > 0, fence: with}, ignored)
		}
	})
}

// notify ends the commands that were not answered.
func (l *line) notify() {
	for _, n := range l.commands.Notices() {
		n.Item.done(n.Answer, reply{})
	}
}

// wake has what is queued written in a moment.
func (l *line) wake() {
	if l.conn == nil || l.writing {
		return
	}
	l.writing = true
	late := time.Duration(l.chance(l.client.number, l.server.number, l.made, int(l.now))%20) * time.Microsecond
	l.client.after(late, func() {
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
		cmd := o.Item.command
		cmd.track = cmd.track && c.tracking
		c.send(message{cmd, func(r reply) { l.answered(c, r) }})
	}
}

func (l *line) answered(c *conn, r reply) {
	if c != l.conn {
		return
	}
	if l.commands.Next() == nil {
		l.check(false, "replies and commands of a connection stay in step",
			"client %d got a reply of node %d to no command", l.client.number, l.server.number)
		return
	}
	o, reported := l.commands.Answered()
	if frees := o.Item.verb == release || o.Item.verb == extend || o.Item.verb == force || o.Item.verb == heal; frees && r.code > 0 && c.tracking {
		l.invalidated(o.Item.key) // the server does not push it
	}
	answer := [...]quorum.Answer{quorum.Refused, quorum.No, quorum.No, quorum.Yes, quorum.Recreated}[r.code+2]
	switch {
	case !reported:
		o.Item.done(answer, r)
	case o.Item.late != nil:
		o.Item.late(answer, r)
	}
}

// connect tries to make a connection. In a frozen server the kernel accepts it, but
// nobody answers.
func (l *line) connect() {
	l.made++
	c := &conn{line: l, number: l.made, blocked: l.blocked}
	l.conns = append(l.conns, c)
	greeted := false
	c.send(message{command{verb: greet, kill: l.last}, func(r reply) {
		greeted = true
		l.commands.Connected()
		l.met = true
		up := time.Duration(max(0, r.up-1)) * time.Second // it may be up to one too much
		l.guard.Connected(l.client.mono.Now(), r.process, up)
		l.conn, l.last, l.pause = c, nil, minPause
		if c.tracking {
			l.trackingActive()
		}
		l.wake()
	}})
	l.client.after(dialTimeout, func() {
		if !greeted {
			c.cut = true
			l.commands.Failed(l.client.mono.Now(), errUnreachable)
			l.notify()
			l.pause = min(2*l.pause, maxPause)
			l.client.after(l.pause, l.connect)
		}
	})
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
		l.report((*quorum.Queue[*waiter]).TrackingLost, l.client.queues...)
		for _, k := range l.client.watched {
			k.lease.TrackingLost(l.server.number)
		}
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

// refuse takes the acquires off the queue that the server may not be asked.
func (l *line) refuse() {
	now := l.client.mono.Now()
	left, is := l.guard.Quarantine(now)
	if !is || l.conn == nil {
		return
	}
	l.commands.Withdraw(now, func(o order) bool {
		if o.verb == acquire {
			l.log("client %d does not ask node %d for %s, for another %v",
				l.client.number, l.server.number, o.token, left)
		}
		return o.verb == acquire
	}, errQuarantined)
	l.notify()
}
