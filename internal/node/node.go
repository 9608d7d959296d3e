// Package node makes one Redis server a lock node. It connects, sends commands in a pipeline that any number of callers
// share, and reports the pushes of the server.
//
// A node never makes its callers wait for longer than the node timeout. Only the first attempt to connect may take
// longer. While an answer is overdue, the node accepts no new commands but clean-up and observations that want a late
// answer. This ends when an overdue answer arrives, or when the node replaces the connection.
//
// A command is one [wire.Command], and the answer to it is one [wire.Reply]. A [wire.Pipeline] decides which commands
// are written, how a command ends without an answer, and which are sent again. A [wire.Guard] decides whether the
// server may vote. Packages form and lock know the meaning of the commands, and how the answers of several nodes become
// a lock.
//
// The files:
//   - node.go: a node: it accepts commands, and has some of its own
//   - loop.go: connects again and again, and writes; batch.go puts commands together
//   - greeting.go, stamp.go: the first commands on a connection, and the stamp of the server
//   - conn.go: reads the answers
//   - tracking.go, attend.go: the pushes of the server, and channels without messages
//   - deadline.go, health.go: timeouts, and what a node reports of itself
//   - look.go: finds out whether the name leads to another server by now
//   - redigo.go, errors.go: a connection of a wrapped pool, and the errors of connections
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
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// MaxGuard is the longest MaxTTL of a restart guard.
const MaxGuard = wire.MaxGuard

// Config is the configuration of a node: how it reaches its server, and how long each step may take. Package pool
// documents the durations.
type Config struct {
	Addr        string // the node's name in errors and logs
	Server      *Server
	Pool        *redis.Pool // the program's own pool, used in the place of Server
	Timeout     time.Duration
	DialTimeout time.Duration
	MaxOverdue  time.Duration
	MaxTTL      time.Duration // the longest TTL for the restart guard. 0 means no guard.
	LookEvery   time.Duration // how often to look, see wire.Life. 0 means never.
}

// Server is the address of a server and how to connect to it.
type Server struct {
	Network string // "tcp" or "unix"
	Address string // host:port, or the path of the socket; with a Finder only a name for people
	Finder  Finder // nil means that the server has this Address
	// Tag is a hash tag that all keys of the node get, such as "{q0/3.111}", if its servers are a Redis Cluster.
	// The Finder finds the server that has its slot. A server that has it no longer says so (MOVED), and is left.
	Tag string
	// Watched means that Sentinels watch the server. When it is cut off from them, they make another one the primary.
	Watched    bool
	Username   string
	Password   string
	Database   int
	TLS        *tls.Config // nil means no TLS
	ClientName string
	// Credentials returns the user name and the password. If it is nil, Username and Password are used.
	Credentials func(ctx context.Context, addr string) (username, password string, err error)
	Dial        func(ctx context.Context, network, address string) (net.Conn, error)
}

// Finder finds the server of a node whose address changes, such as the primary of a Sentinel group.
type Finder interface {
	// Name returns the name of the node, which is the same in all programs.
	Name() string
	// Find returns the address at which the server is now.
	Find(ctx context.Context) (address string, err error)
	// Follow calls moved with the new address whenever another server has taken over, until ctx ends. It may call moved
	// when nothing has changed.
	Follow(ctx context.Context, moved func(to string))
}

// Node is one independent Redis server. It is safe for concurrent use.
type Node struct {
	config Config

	ctx    context.Context // ends when Close has waited for the node timeout, or returns
	cancel context.CancelFunc
	// wake wakes the connection loop: a command was queued, the connection broke, or the node was closed.
	wake    chan struct{}
	running sync.WaitGroup // counts the connection loop and the looks
	// left is the process of the wrong server that the node left last. Only the connection loop uses it.
	left string

	mu        sync.Mutex
	pipeline  *wire.Pipeline[pending]
	guard     wire.Guard
	conn      *conn       // nil while there is no connection
	timer     *time.Timer // nil before the connection loop was started
	firesAt   time.Time   // when timer fires; zero if it does not
	pingAt    time.Time   // when the connection is checked next
	stampAt   time.Time   // when an unstamped server is asked for its identity and stamp next
	listeners []*listening
	attended  map[string]int // how often Attend was called for a channel, less Leave
	attending int            // how many requests about these channels are under way
	reports   map[Reporter]int
	health    health
	postponed []wire.Op[pending] // clean-up that a cluster did not carry out while it was changing
	retryAt   time.Time          // when it is sent again
	movedTo   string             // where the Finder has reported the server since the present attempt to connect began

	expiring chan struct{} // holds one element while expire runs
}

// pending is a command and the receiver of its reply.
type pending struct {
	cmd  *wire.Command
	to   wire.Receiver // nil if nobody receives the reply
	tag  wire.Tag
	own  own    // the purpose, if it is one of the node's own commands
	sent string // the name of the command that was last written for it, or "" if it was not written

	// The rest is set when the command is written as the first of a message. A server takes a message for one command, and
	// answers it once.
	commands int          // how many commands the message carries out, in order
	script   *wire.Script // the script that carries them out; nil if none does
	source   bool         // the script was sent by its source, and not by its hash
	caching  bool         // CLIENT CACHING YES was sent before the message and has not been answered
	tracked  bool         // the server confirmed CLIENT CACHING YES
}

// reply passes the reply to the receiver of the command, if it has one.
func (c *pending) reply(r *wire.Reply) {
	if c.to != nil {
		c.to.Reply(c.tag, r)
	}
}

// op returns the command as an Op for the pipeline.
func (c pending) op() wire.Op[pending] { return wire.Op[pending]{Item: c, Command: c.cmd} }

// unlock unlocks the mutex, and then reports the commands that ended without an answer to their receivers.
func (n *Node) unlock() {
	notices := n.pipeline.Notices()
	for i := range notices {
		e := &notices[i]
		switch own := e.Item.own; {
		case own == attending:
			n.attendEndedLocked(e.Item.cmd.Key, e.Answer)
		case (own == tracking || own == subscription) && e.Answer == quorum.Unsent && n.conn != nil:
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

// server returns how to reach the server. It is the zero value for a node of a wrapped pool.
func (n *Node) server() Server {
	if n.config.Server == nil {
		return Server{}
	}
	return *n.config.Server
}

// Config returns the configuration that the node was made with.
func (n *Node) Config() Config { return n.config }

// Send queues a command and returns at once. The receiver to, which may be nil, gets the reply with the tag. It gets
// the reply within the node timeout from since, which is usually time.Now(): one reading serves all nodes. A command
// that waits for the first attempt to connect may wait for the dial timeout, and has the node timeout from the
// connection on. If Send returns an error, the command is certainly not done (Unsent), and there is no reply.
//
// The server carries out the commands that reach it in the order in which they were sent. A command whose form the
// server refuses is an exception: it may be sent again, behind the others. A release outlives its timeout: the node
// sends it until it is answered, or until it is no longer worth sending. While the server does not answer, the
// receivers of all releases together wait for one timeout only. Any other command that could not be written in time is
// not written at all.
func (n *Node) Send(since time.Time, cmd *wire.Command, to wire.Receiver, tag wire.Tag) error {
	n.mu.Lock()
	wake, expire, err := n.pipeline.Send(since, pending{cmd: cmd, to: to, tag: tag}.op())
	if err == nil {
		n.startLocked()
		n.armLocked(expire)
	}
	n.mu.Unlock()
	if wake { // otherwise an earlier command has woken the loop
		n.wakeLoop()
	}
	return err
}

// Withdraw ends the command that takes the lock of a token, unless the command is written. Its receiver gets the reply
// that it was not sent, with err as the reason.
func (n *Node) Withdraw(token string, err error) {
	n.mu.Lock()
	n.pipeline.Withdraw(time.Now(), token, err)
	n.unlock()
}

// sendLocked queues one of the node's own commands. sent is false if the node does not accept it.
func (n *Node) sendLocked(now time.Time, c pending) (sent bool) {
	_, expire, err := n.pipeline.Send(now, c.op())
	if err != nil {
		return false
	}
	n.armLocked(expire)
	n.wakeLoop()
	return true
}

// answered hands the next reply of the connection to its receiver, together with replies that have arrived behind it.
// Any error ends the connection: nobody asked for the reply, it cannot be the answer, or it was the last reply of the
// wrong server. The error is errLast if the node is closed and this was the last reply.
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
	if c.unattended && n.attending == 0 && c == n.conn {
		n.attendAllLocked(time.Now())
	}
	var listeners []*listening // the listeners of changes that the server does not push, see startTracking
	if c.tracking {
		listeners = n.listeners
	}
	n.mu.Unlock()
	for i := range c.answers {
		a := &c.answers[i]
		if a.own == tracking {
			n.trackingAnswered(c, a.with.Answer)
		}
		reply := &a.with
		if reply.Late && !a.cmd.WantsLate {
			reply = nil
		}
		if a.cmd.Changed(&a.with) {
			for _, l := range listeners {
				for key := range a.cmd.Changing {
					if l.Changed(l.node, key, a.to, a.tag, reply) {
						reply = nil
					}
				}
			}
		}
		if reply != nil {
			a.reply(reply)
		}
	}
	clear(c.answers)
	c.answers = c.answers[:0]
	return err
}

// answer is a pending command and the reply to it.
type answer struct {
	pending
	with wire.Reply
}

// answerLocked appends the answers that a reply contains to c.answers. more reports whether the next reply may be read
// before these are handed out. A value that cannot be the answer ends the connection: the replies behind it may belong
// to other commands than it seems.
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
		a := answer{pending: op.Item, with: c.reply(op.Item.cmd, v)}
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
		case c.tag != "" && a.cmd.CleansUp() && wire.NotYet(a.with.Err):
			n.postponeLocked(op)
		}
		n.guard.Vote(a.cmd, &a.with)
		switch a.own {
		case identity:
			n.identifiedLocked(c, &a)
		case stamping:
			n.stampedLocked(c, &a)
		case attending:
			n.attendAnsweredLocked(c, &a)
		}
		a.with.Tracked = a.tracked &&
			(a.with.Answer == quorum.Yes || a.with.Answer == quorum.No || a.with.Answer == quorum.Recreated)
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

// repeatLocked sends a command once more, by itself and with the source of its script. The server has refused the form
// in which the command was sent before. repeatLocked returns false if it does not send the command.
func (n *Node) repeatLocked(op wire.Op[pending]) bool {
	if op.Again {
		return false
	}
	n.wakeLoop()
	return n.pipeline.Repeat(op)
}

// Close waits until the commands under way have ended, for the node timeout at most, and closes the connection. A
// release that could not be delivered by then is left to its TTL. Once Close was called, Send returns
// nodeerr.ErrClosed.
//
// Close returns when no goroutine of the node is left. Listeners are notified that tracking is lost, and of nothing
// after that. Close waits for an attempt to connect that ignores its context. It may be called twice.
func (n *Node) Close() error {
	n.mu.Lock()
	if !n.pipeline.Closed() {
		n.retryLocked(time.Now())
		n.pipeline.Close(time.Now(), ping.pending("", "PING").op()) // the reader ends when this is answered
	}
	n.mu.Unlock()
	n.wakeLoop()
	defer time.AfterFunc(n.config.Timeout, n.cancel).Stop()
	n.running.Wait()
	n.cancel()
	return nil
}

// own is the purpose of one of the node's own commands.
type own uint8

const (
	callers own = iota // the command of a caller, not the node's own
	ping
	tracking
	subscription // SUBSCRIBE or UNSUBSCRIBE of the channel of a listener
	attending    // SUBSCRIBE or UNSUBSCRIBE of another channel
	identity
	stamping
)

// pending makes one of the node's own commands of these words. channel is the channel of a subscription, otherwise "".
// No Receiver gets the reply.
func (o own) pending(channel string, words ...string) pending {
	cmd := &wire.Command{Key: channel, Parse: func(v *wire.Value) wire.Reply { return wire.YesIf(o.confirmedBy(v), v) }}
	return pending{cmd: cmd.With(words...), own: o}
}

// confirmedBy reports whether a value is the reply that confirms the command.
func (o own) confirmedBy(v *wire.Value) bool {
	switch o {
	case ping:
		return v.Kind == '+' && string(v.Text) == "PONG"
	case tracking:
		return v.IsOK()
	}
	return v.Kind == '>'
}

// Publish returns the command that sends message to all subscribers of channel.
func Publish(channel, message string) *wire.Command {
	cmd := &wire.Command{Parse: parseReceivers}
	return cmd.With("PUBLISH", channel, message)
}

// parseReceivers parses the reply to PUBLISH, which is the number of connections that get the message. No means that
// there are none.
func parseReceivers(v *wire.Value) wire.Reply {
	if v.Kind == ':' && v.Num <= 0 {
		return wire.Reply{Answer: quorum.No, Err: nodeerr.ErrAbsent}
	}
	return wire.YesIf(v.Kind == ':', v)
}
