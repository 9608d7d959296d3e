package sim

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

const (
	nodeTimeout = 50 * time.Millisecond
	maxOverdue  = 200 * time.Millisecond
	dialTimeout = 100 * time.Millisecond
	lookTimeout = 200 * time.Millisecond // nothing takes as long, unless something is in the way
	minPause    = 10 * time.Millisecond
	maxPause    = 100 * time.Millisecond
	maxCostly   = 200 * time.Millisecond
)

// order is a command, for the pipeline.
type order struct {
	cmd  *wire.Command // nil: note is published
	to   wire.Receiver // nil: nobody
	tag  wire.Tag
	sent time.Duration // true time at which its call began
	of   *round        // of which it is the command; nil means none
	note *note
}

func (o order) reply(r *wire.Reply) {
	if o.to != nil {
		o.to.Reply(o.tag, r)
	}
}

// heard replies to a message, which so many connections get.
func (o order) heard(receivers int64) {
	r := wire.Reply{Answer: quorum.No}
	if receivers > 0 {
		r.Answer = quorum.Yes
	}
	o.reply(&r)
}

// line is a client's side of a node: it carries out what the pipeline decides, as
// package pool does with sockets and goroutines.
type line struct {
	*world
	client   *client
	server   *server
	commands *wire.Pipeline[order]
	conn     *conn         // nil while there is none
	last     *conn         // the one before, if it broke with answers missing
	conns    []*conn       // all that the server may still read from
	made     int           // connections, for their numbers
	decided  int           // how many times it was decided when to dial: the last one counts
	dialing  bool          // an attempt to connect is under way
	writing  bool          // a write is about to happen
	blocked  time.Duration // until when nothing gets through
	timer    timer         // on the client's mono: for what expires
	guard    wire.Guard
	stood    map[string]stood
}

// stood is what the last observation of a key without a TTL has found, and for how long it had been there.
type stood struct {
	token string
	age   time.Duration
}

var (
	errUnreachable = errors.New("unreachable")
	errQuarantined = errors.New("quarantined: the server may have forgotten locks")
)

// send puts a command to the node, or returns why it does not.
func (l *line) send(o order) error {
	now := l.client.mono.Now()
	if o.sent == 0 {
		o.sent = l.now
	}
	op := wire.Op[order]{Item: o, Command: o.cmd}
	if o.cmd == nil {
		op.Command = new(wire.Command)
	}
	_, expire, err := l.commands.Send(now, op)
	if err != nil {
		return err
	}
	l.timer.set(l.client, &l.client.mono, expire, l.expire)
	if l.conn == nil {
		l.dial() // it may have ended a pause
	}
	l.wake()
	return nil
}

// ask is send for who takes a refusal as an answer.
func (l *line) ask(cmd *wire.Command, to wire.Receiver, tag wire.Tag) {
	if err := l.send(order{cmd: cmd, to: to, tag: tag}); err != nil {
		to.Reply(tag, wire.Unsent(err))
	}
}

// receiver takes one kind of replies.
type receiver func(*wire.Reply)

// Reply implements [wire.Receiver].
func (f receiver) Reply(_ wire.Tag, r *wire.Reply) { f(r) }

// force deletes what is observed under a key. Package redlock observes all nodes before.
func (l *line) force(key string) {
	l.ask(form.Exclusive{}.ObserveMaster(key), receiver(func(r *wire.Reply) {
		switch seen := l.client.form.Shows(r); {
		case isMark(seen.Token):
			l.forceShared(key, seen.Token)
		case seen.Answer == quorum.Yes:
			cmd := new(wire.Command)
			l.client.form.Remove(cmd, key, seen)
			_ = l.send(order{cmd: cmd})
		}
	}), wire.Tag{})
}

// notify ends the commands that were not answered.
func (l *line) notify() {
	for _, n := range l.commands.Notices() {
		if errors.Is(n.Err, errQuarantined) {
			l.log("client %d does not ask node %d for %s", l.client.number, l.server.number, n.Item.cmd.Token)
		}
		n.Item.reply(&wire.Reply{Answer: n.Answer, Err: n.Err})
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
		track := o.Item.cmd != nil && o.Item.cmd.Tracked && c.tracking
		m := message{order: o.Item, source: o.Again, track: track}
		if o.Item.cmd != nil {
			m.script = c.proven.Carrier(o.Item.cmd)
		}
		m.done = func(v wire.Value) { l.answered(c, &m, v) }
		c.send(m)
	}
}

func (l *line) answered(c *conn, m *message, v wire.Value) {
	if c != l.conn {
		return
	}
	if l.commands.Next() == nil {
		l.check(false, "replies and commands of a connection stay in step",
			"client %d got a reply of node %d to no command", l.client.number, l.server.number)
		return
	}
	op, reported := l.commands.Answered()
	defer l.leave(c)
	o := op.Item
	c.use = max(c.use, wire.Served)
	if o.cmd == nil {
		o.heard(v.Num)
		return
	}
	if refusal := v.Refusal(); refusal != nil && refusal.Code == "NOSCRIPT" && l.commands.Repeat(op) {
		l.wake()
		return
	}
	r := o.cmd.Reply(&v)
	switch {
	case r.Answer == quorum.Yes || r.Answer == quorum.Recreated:
		if o.cmd.Changes() {
			c.use = wire.Granted
		}
		c.proven.Granted(o.cmd, m.script)
	case wire.Wrong(r.Err):
		l.commands.Life.Wrong(r.Err)
		if o.cmd.CleansUp() {
			l.commands.Undone(l.client.mono.Now(), op)
		}
	}
	if r.Answer == quorum.Unknown {
		l.check(false, "a reply has the form that its command expects", "client %d: %v of node %d: %v", l.client.number, does(o.cmd), l.server.number, r.Err)
	}
	r.Late = reported
	l.guard.Vote(o.cmd, &r)
	r.Tracked = m.track && (r.Answer == quorum.Yes || r.Answer == quorum.No || r.Answer == quorum.Recreated)
	if c.tracking && o.cmd.Changed(&r) {
		for key := range o.cmd.Changing { // the server does not push it
			l.invalidated(key)
		}
	}
	if !r.Late || o.cmd.WantsLate {
		o.reply(&r)
	}
}

// dial tries to make a connection, when it is time.
func (l *line) dial() {
	l.decided++
	if l.dialing {
		return
	}
	now, decided := l.client.mono.Now(), l.decided
	if at := l.commands.Life.Dial(now, true); now.Before(at) {
		l.client.after(l.client.mono.until(at)+1, func() {
			if decided == l.decided {
				l.dial()
			}
		})
		return
	}
	l.connect()
}

// connect tries to make a connection. In a frozen server the kernel accepts it, but
// nobody answers. Where there is no process the kernel refuses it, if it is there.
func (l *line) connect() {
	l.dialing = true
	c := l.newConn()
	ended := false
	failed := func(cheap bool) {
		if ended {
			return
		}
		ended, l.dialing, c.cut = true, false, true
		l.commands.Failed(l.client.mono.Now(), errUnreachable, cheap)
		l.notify()
		l.dial()
	}
	c.send(message{before: l.last, refused: func() { failed(true) }, greeted: func(server wire.Identity) {
		l.stamp(c, l.guard.Connected(l.client.mono.Now(), server), func(err error) {
			if wire.Wrong(err) {
				failed(true)
				return
			}
			ended, l.dialing = true, false
			l.commands.Greeted(l.client.mono.Now())
			l.conn, l.last, c.identity = c, nil, server
			if c.tracking {
				l.trackingActive()
			}
			l.wake()
			l.restamp(c)
			l.look(c)
		})
	}})
	l.client.after(dialTimeout, func() { failed(false) })
}

// broken ends a connection at the client.
func (l *line) broken(c *conn) {
	if c != l.conn {
		return
	}
	l.conn = nil
	l.guard.Broken(l.client.mono.Now())
	if unfinished := l.commands.Broken(l.client.mono.Now(), errUnreachable, c.use, true); unfinished {
		l.last = c
	}
	l.notify()
	if c.tracking {
		for _, n := range l.client.names {
			n.do(func() { n.act(n.lock.TrackingLost(nil, l.server.number)) })
		}
	}
	l.dial()
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
	if l.guard.Quarantine(now) != nil && l.conn != nil {
		l.commands.Withdraw(now, "", errQuarantined)
		l.notify()
	}
}
