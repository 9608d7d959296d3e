// Package node makes one Redis server a lock node: it connects, sends commands in a pipeline that any number of callers
// share, and reports what the server pushes.
//
// A node never makes its callers wait for longer than the node timeout. A server that does not answer is not asked
// again until an overdue answer has come in, or until its connection was given up and a new one made.
//
// Commands go down as one [wire.Command] and come back as one [wire.Reply]. A [wire.Pipeline] decides what becomes of a command when
// things go wrong, a [wire.Guard] whether the server may vote. What the commands mean, and how the answers of several nodes
// become a lock, is the business of packages form and lock.
package node

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// MaxGuard is the longest MaxTTL of a restart guard.
const MaxGuard = wire.MaxGuard

// Config is how a server is reached and how long things may take. Package pool documents the times.
type Config struct {
	Addr        string // the node's name in errors and logs
	Server      *Server
	Pool        *redis.Pool // the program's own, in the place of Server
	Timeout     time.Duration
	DialTimeout time.Duration
	MaxOverdue  time.Duration
	MaxTTL      time.Duration // of the restart guard; 0 means none
	LookEvery   time.Duration // see wire.Life; 0 means never
}

// Server is the address of a server and how to connect to it.
type Server struct {
	Network     string // "tcp" or "unix"
	Address     string // host:port, or the path of the socket
	Username    string
	Password    string
	Database    int
	TLS         *tls.Config // nil means none
	ClientName  string
	Credentials func(ctx context.Context, addr string) (username, password string, err error) // nil means those above
	Dial        func(ctx context.Context, network, address string) (net.Conn, error)
}

// Node is one independent Redis server. It is safe for concurrent use.
type Node struct {
	config Config

	ctx     context.Context // ends when Close has waited long enough
	cancel  context.CancelFunc
	wake    chan struct{}  // for the connection loop: something was queued, or the connection broke
	running sync.WaitGroup // the connection loop, and looks
	left    string         // of the connection loop: the process of the server that was left last, as it was the wrong one

	mu        sync.Mutex
	pipeline  *wire.Pipeline[pending]
	guard     wire.Guard
	conn      *conn       // nil while there is none
	timer     *time.Timer // nil before the connection loop was started
	firesAt   time.Time   // when timer fires; zero if it does not
	pingAt    time.Time   // when the connection is tried next
	stampAt   time.Time   // and when the server is sent its stamp again, if it has refused it
	listeners []*listening
	reports   map[Reporter]int
	health    health

	expiring chan struct{} // holds one element while expire runs
}

// call is a command and who receives the reply.
type pending struct {
	cmd  *wire.Command
	to   wire.Receiver // nil if nobody does
	tag  wire.Tag
	own  own    // what for, if it is the node's own
	sent string // the name of the command that it was written as last; "" while it was not

	// Once it was written as the first of a message, which is what a server takes for one command and answers once:
	commands int          // that the message carries out, in order
	script   *wire.Script // that does; nil if none does
	source   bool         // which went by its source
	caching  bool         // CLIENT CACHING YES went before it and has not been answered
	tracked  bool         // and was confirmed
}

func (c *pending) reply(r *wire.Reply) {
	if c.to != nil {
		c.to.Reply(c.tag, r)
	}
}

func (c pending) op() wire.Op[pending] { return wire.Op[pending]{Item: c, Command: c.cmd} }

// unlock unlocks the mutex and reports what has ended without an answer.
func (n *Node) unlock() {
	notices := n.pipeline.Notices()
	for i := range notices {
		if e := &notices[i]; e.Answer == quorum.Unsent && (e.Item.own == tracking || e.Item.own == subscription) && n.conn != nil {
			n.conn.unasked = true
		}
	}
	n.mu.Unlock()
	for i := range notices {
		e := &notices[i]
		e.Item.reply(&wire.Reply{Answer: e.Answer, Err: e.Err, Command: e.Item.sent})
	}
}

// New makes a node. Nothing is connected before the first command.
func New(config Config) *Node {
	ctx, cancel := context.WithCancel(context.Background())
	return &Node{
		config: config, ctx: ctx, cancel: cancel,
		pipeline: &wire.Pipeline[pending]{
			Life: wire.Life{
				Least: minPause, Most: maxPause, MostCostly: maxCostly, LookEvery: config.LookEvery, Random: rand.N[time.Duration],
			},
			Timeout: config.Timeout, First: config.DialTimeout, MaxOverdue: config.MaxOverdue,
		},
		guard:    wire.Guard{MaxTTL: config.MaxTTL},
		wake:     make(chan struct{}, 1),
		expiring: make(chan struct{}, 1),
	}
}

// Addr returns the node's name in errors and logs.
func (n *Node) Addr() string { return n.config.Addr }

// Config returns what the node was made with.
func (n *Node) Config() Config { return n.config }

// Send queues a command and returns at once. The receiver, which may be nil, gets the reply with the tag, within the node timeout
// from since. That is usually time.Now(): one reading serves all nodes. If Send returns an error, the command is certainly not done
// (Unsent), and there is no reply.
//
// Commands are carried out in the order in which they were sent, as far as they reach the server. A release outlives its
// timeout: it is sent until it is answered, or no longer worth sending. Any other command that could not be written in
// time is not written at all.
func (n *Node) Send(since time.Time, cmd *wire.Command, to wire.Receiver, tag wire.Tag) error {
	n.mu.Lock()
	wake, err := n.pipeline.Send(since, pending{cmd: cmd, to: to, tag: tag}.op())
	if err == nil {
		n.startLocked()
		n.armLocked(since.Add(n.config.Timeout))
	}
	n.mu.Unlock()
	if wake { // otherwise the loop has been woken
		n.wakeLoop()
	}
	return err
}

// sendLocked queues a command of the node's own, if the node takes any.
func (n *Node) sendLocked(now time.Time, c pending) (sent bool) {
	if _, err := n.pipeline.Send(now, c.op()); err != nil {
		return false
	}
	n.armLocked(now.Add(n.config.Timeout))
	n.wakeLoop()
	return true
}

// answered hands the next reply of the connection, and those that have come with it, to their receivers. It fails if nobody
// asked, and with errLast if the node is closed and this was the last reply.
func (n *Node) answered(c *conn, v *wire.Value) error {
	n.mu.Lock()
	more, err := n.answerLocked(c, v)
	for more && err == nil && len(c.answers) < batchSize && c.Ready() {
		if *v, err = c.Read(); err == nil {
			more, err = n.answerLocked(c, v)
		}
	}
	if c.unasked && c == n.conn {
		n.trackLocked(time.Now())
	}
	var listeners []*listening // of what the server does not push, see trackLocked
	if c.tracking {
		listeners = n.listeners
	}
	n.mu.Unlock()
	for i := range c.answers {
		a := &c.answers[i]
		if a.own == tracking {
			n.trackingAnswered(c, a.with.Answer)
		}
		if a.cmd.Changed(&a.with) {
			for _, l := range listeners {
				for key := range a.cmd.Changing {
					l.Changed(l.node, key, a.to)
				}
			}
		}
		if !a.with.Late || a.cmd.WantsLate {
			a.reply(&a.with)
		}
	}
	clear(c.answers)
	c.answers = c.answers[:0]
	return err
}

// answer is a call and what it was answered with.
type answer struct {
	pending
	with wire.Reply
}

// answerLocked appends to the answers of the connection what a reply is the answer to. more reports whether the next reply
// may be dealt with before these are handed out. What cannot be the answer ends the connection: the replies behind it may belong to
// other commands than it seems.
func (n *Node) answerLocked(c *conn, v *wire.Value) (more bool, err error) {
	next := n.pipeline.Next()
	if next == nil {
		return false, errUnasked
	}
	if next.caching {
		next.caching, next.tracked = false, v.IsOK()
		return true, nil
	}
	more, script := next.own != tracking, next.script
	parts, alone := c.partsLocked(v, next)
	for i := range next.commands {
		op, reported := n.pipeline.Answered()
		if op.Item.own == callers {
			c.use = max(c.use, wire.Served)
		}
		if alone && script != nil && n.repeatLocked(op) {
			op.Item.to = nil
		}
		if parts != nil {
			v = &parts[i]
		}
		a := answer{pending: op.Item, with: op.Item.cmd.Reply(v)}
		a.with.Command, a.with.Server, a.with.Late = op.Item.sent, c.server.Process, reported
		switch {
		case a.with.Answer == quorum.Unknown:
			err = a.with.Err
		case a.with.Answer == quorum.Yes || a.with.Answer == quorum.Recreated:
			if a.cmd.Changes() {
				c.use = wire.Granted
			}
			c.proven.Granted(a.cmd, script)
		case wire.Wrong(a.with.Err):
			n.pipeline.Life.Wrong(a.with.Err)
			if a.cmd.CleansUp() {
				n.pipeline.Undone(time.Now(), op)
			}
		}
		n.guard.Vote(a.cmd, &a.with)
		switch a.own {
		case identity:
			n.identifiedLocked(c, &a)
		case stamping:
			n.stampedLocked(c, &a)
		}
		a.with.Tracked = a.tracked && (a.with.Answer == quorum.Yes || a.with.Answer == quorum.No || a.with.Answer == quorum.Recreated)
		c.answers = append(c.answers, a)
	}
	switch {
	case n.pipeline.Closed() && n.pipeline.Idle():
		err = errLast
	case n.pipeline.Left() && err == nil:
		err = n.pipeline.Life.Reason()
	}
	return more, err
}

// repeatLocked sends a command once more, by itself and with the source of its script, since the server has refused the
// form in which it was sent before.
func (n *Node) repeatLocked(op wire.Op[pending]) bool {
	if op.Again {
		return false
	}
	n.wakeLoop()
	return n.pipeline.Repeat(op)
}

// Close lets what is under way end, for the node timeout at most, and closes the connection. A release that could not be
// delivered by then is left to its TTL. Commands that are sent afterwards are answered with nodeerr.ErrClosed. Close returns when no
// goroutine of the node is left; listeners are notified that tracking is lost, and of nothing after that. It waits
// for an attempt to connect that does not look at its context. Closing twice is fine.
func (n *Node) Close() error {
	n.mu.Lock()
	if !n.pipeline.Closed() {
		n.pipeline.Close(time.Now(), ping.pending("", "PING").op()) // the reader ends with its answer
	}
	n.mu.Unlock()
	n.wakeLoop()
	defer time.AfterFunc(n.config.Timeout, n.cancel).Stop()
	n.running.Wait()
	n.cancel()
	return nil
}

// own is what a command of the node's own is for.
type own uint8

const (
	callers own = iota // none of its own
	ping
	tracking
	subscription // its beginning or end
	identity
	stamping
)

// call makes a command of the node's own, of these words. Nobody receives the reply.
func (o own) pending(channel string, words ...string) pending {
	cmd := &wire.Command{Key: channel, Parse: func(v *wire.Value) wire.Reply { return wire.YesIf(o.confirmedBy(v), v) }}
	return pending{cmd: cmd.With(words...), own: o}
}

func (o own) confirmedBy(v *wire.Value) bool {
	switch o {
	case ping:
		return v.Kind == '+' && string(v.Text) == "PONG"
	case tracking:
		return v.IsOK()
	}
	return v.Kind == '>'
}

// Publish sends message to all subscribers of channel.
func Publish(channel, message string) *wire.Command {
	cmd := &wire.Command{Parse: func(v *wire.Value) wire.Reply { return wire.YesIf(v.Kind == ':', v) }} // how many have received it
	return cmd.With("PUBLISH", channel, message)
}
