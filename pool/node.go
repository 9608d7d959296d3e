package pool

import (
	"context"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/pipeline"
)

// Node is one independent Redis server, spoken to over one pipelined connection. A second
// one is made where somebody listens, see [Node.Listen].
// Make nodes with [Open] or [Wrap]; they are safe for concurrent use and may be
// shared by any number of Lockers.
type Node struct {
	addr string
	pool *redis.Pool
	opts options
	own  bool // pool was made by Open

	ctx    context.Context // ends when Close has waited long enough
	cancel context.CancelFunc
	wake   chan struct{} // for the keeper: something was queued, or the node was closed
	done   chan struct{} // closed when the keeper has ended

	mu       sync.Mutex
	commands *pipeline.Pipeline[order]
	guard    pipeline.Guard
	link     *link // nil while there is no connection
	started  bool  // the keeper runs
	timer    *time.Timer
	alarm    time.Time // when timer fires; zero if it does not
	pingAt   time.Time // when the connection is tried next
	ear      *ear      // nil before the first Listen

	expiring sync.WaitGroup // calls of expire that the timer has begun or will begin
}

// order is a command and who wants to know how it ends.
type order struct {
	cmd  *Command
	to   Receiver // nil: nobody
	node int
}

func (o order) end(reply Reply) {
	if o.to != nil {
		o.to.Reply(o.node, o.cmd, reply)
	}
}

// op is a command as the pipeline takes it.
type op = pipeline.Op[order]

func (o order) op() op { return op{Item: o, Kind: o.cmd.kind.whenLost(), Owed: o.cmd.owed} }

// tell ends the commands that were not answered; not under the mutex.
func tell(notices []pipeline.Notice[order]) {
	for _, n := range notices {
		n.Item.end(Reply{Answer: fates[n.Fate], Err: n.Err})
	}
}

var fates = [...]Answer{pipeline.Unsent: Unsent, pipeline.Maybe: Maybe, pipeline.Undone: No}

func newNode(addr string, pool *redis.Pool, own bool, opts options) *Node {
	ctx, cancel := context.WithCancel(context.Background())
	return &Node{
		addr: addr, pool: pool, own: own, opts: opts,
		ctx: ctx, cancel: cancel,
		commands: pipeline.New[order](opts.timeout, opts.maxOverdue),
		guard:    pipeline.NewGuard(opts.guard),
		wake:     make(chan struct{}, 1),
		done:     make(chan struct{}),
	}
}

// Addr returns the node's name in errors and logs: the address in its URL
// (host:port, or the path of the socket), or what [WithName] gives.
func (n *Node) Addr() string { return n.addr }

// Timeout returns how long one command may take on this node, see [WithTimeout].
func (n *Node) Timeout() time.Duration { return n.opts.timeout }

// Send puts a command to the node and returns at once. The receiver is told how
// it ended, under the number node, within the node timeout from since (but see
// [Restore]); nil if nobody cares. since is when the caller began to send, time.Now() as
// a rule: one reading serves all nodes.
//
// Commands are carried out in the order in which they were sent, as far as they
// reach the server. A release outlives its timeout: it stays queued until it is
// answered or no longer owed. Any other command that could not be written in time
// is not written at all.
func (n *Node) Send(since time.Time, cmd *Command, to Receiver, node int) {
	o := order{cmd, to, node}
	n.mu.Lock()
	var first bool
	var err error
	if cmd.kind == look && n.ear.coversLocked() {
		first, err = n.commands.SendPair(since, newCaching(), o.op())
	} else {
		first, err = n.commands.Send(since, o.op())
	}
	if err != nil {
		n.mu.Unlock()
		o.end(Reply{Answer: Unsent, Err: err})
		return
	}
	n.startLocked()
	n.armLocked(since.Add(n.opts.timeout))
	n.mu.Unlock()
	if first { // else the keeper has been told
		n.rouse()
	}
}

// startLocked starts the keeper, if it does not run yet.
func (n *Node) startLocked() {
	if !n.started {
		n.started = true
		go n.keep()
	}
}

// rouse wakes the keeper.
func (n *Node) rouse() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// answered hands the next reply of the link to whoever it is for. It returns false
// if there is nobody, or if the node is closed and this was the last.
func (n *Node) answered(l *link, value any, err error) bool {
	n.mu.Lock()
	commands := l.repliedLocked()
	var parts []any
	repeat := false
	if commands > 1 {
		parts, repeat, err = l.partsLocked(value, err, commands)
	} else {
		repeat = err != nil && code(err) == "NOSCRIPT"
	}
	l.answers = l.answers[:0]
	for i := range commands {
		o, told, ok := n.commands.Answered()
		if !ok {
			n.mu.Unlock()
			l.wire.cut() // an answer to no question: what follows could not be told apart
			return false
		}
		l.served = true
		a := answer{o.Item, value, err, l.cached}
		if parts != nil {
			a.take(parts[i])
		}
		if repeat && n.repeatLocked(o) {
			n.rouse()
		} else if !told {
			l.answers = append(l.answers, a)
		}
		l.cached = o.Item.cmd.kind == caching && a.value == "OK"
	}
	more := !n.commands.Closed() || !n.commands.Idle()
	n.mu.Unlock()
	for i := range l.answers {
		l.answers[i].tell(l.server)
	}
	clear(l.answers)
	return more
}

// repeatLocked sends a command once more, by itself and by its source, as the server has refused the form that it was sent
// in before.
func (n *Node) repeatLocked(o op) bool {
	cmd := o.Item.cmd
	if o.Again || cmd.script == nil {
		return false
	}
	var overtaken func(order) bool
	if cmd.kind == grant || cmd.kind == extend {
		overtaken = func(later order) bool { return later.cmd.follows(cmd) }
	}
	return n.commands.Repeat(o, overtaken)
}

// Close lets what is under way end, for the node timeout at the longest, and
// closes the connection. A release that could not be delivered by then is left to
// its TTL. Commands sent afterwards are answered with ErrClosed. Close waits until
// no goroutine of the node is left; a listener is told that the node is deaf, and nothing
// more. The wait includes an attempt to connect which does not
// look at its context: a wrapped pool's Dial and TestOnBorrow, the functions of
// [WithDialer] and [WithCredentials]. Closing twice is fine.
func (n *Node) Close() error {
	n.mu.Lock()
	first, started, ear := !n.commands.Closed(), n.started, n.ear
	if first {
		if !n.own && n.link != nil && n.link.tracks { // its pool gets it back as it was
			_, _ = n.commands.Send(time.Now(), order{cmd: newTracking(0)}.op())
		}
		n.commands.Close(time.Now(), newPing()) // the reader ends with its answer
	}
	n.mu.Unlock()
	if ear != nil {
		ear.cancel()
	}
	if started {
		n.rouse()
		select {
		case <-n.done:
		case <-time.After(n.opts.timeout):
		}
		n.cancel()
		<-n.done
	}
	n.cancel()
	if ear != nil {
		<-ear.done
	}
	if n.own && first {
		return n.pool.Close()
	}
	return nil
}
