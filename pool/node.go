package pool

import (
	"context"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// maxUnderWay bounds the commands that are queued or unanswered on a node. Above
	// it the node is not asked (ErrBusy), whatever it is that it does with its time.
	maxUnderWay = 4096
	// maxCleanUp is the bound for clean-up, which is taken on for longer: what is
	// not cleaned up stays until its TTL.
	maxCleanUp = 4 * maxUnderWay
)

// Node is one independent Redis server, spoken to over one pipelined connection.
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

	mu      sync.Mutex
	owed    fifo[op] // releases that were told and not delivered: they go first on the next link
	queue   fifo[op] // not written yet
	sent    fifo[op] // written and not answered
	link    *link    // nil while there is no connection
	down    error    // why there is no connection; nil while connected or trying for the first time
	suspect bool     // an answer is overdue
	started bool     // the keeper runs
	closed  bool
	timer   *time.Timer
	alarm   time.Time // when timer fires; zero if it does not

	expiring sync.WaitGroup // calls of expire that the timer has begun or will begin
}

// op is one command under way.
type op struct {
	cmd      *Command
	to       Receiver
	node     int
	deadline time.Time
	told     bool      // the receiver has its reply: what comes now is swallowed
	evaluate bool      // the server does not know the script: send its source
	until    time.Time // for a release that is owed: when it is pointless to send it
}

// worthwhile says whether a release that could not be delivered can still change
// anything. The time that it is owed begins when this is first asked.
func (o *op) worthwhile(now time.Time) bool {
	if o.until.IsZero() {
		o.until = now.Add(o.cmd.owed)
	}
	return now.Before(o.until)
}

// notice is a reply on its way to its receiver, once the mutex is released.
type notice struct {
	op    op
	reply Reply
}

func (n notice) deliver() {
	if n.op.to != nil {
		n.op.to.Reply(n.op.node, n.op.cmd, n.reply)
	}
}

func deliver(notices []notice) {
	for _, n := range notices {
		n.deliver()
	}
}

func newNode(addr string, pool *redis.Pool, own bool, opts options) *Node {
	ctx, cancel := context.WithCancel(context.Background())
	return &Node{
		addr: addr, pool: pool, own: own, opts: opts,
		ctx: ctx, cancel: cancel,
		wake: make(chan struct{}, 1),
		done: make(chan struct{}),
	}
}

// Addr returns the node's name in errors and logs: the address in its URL
// (host:port, or the path of the socket), or what [WithName] gives.
func (n *Node) Addr() string { return n.addr }

// Timeout returns how long one command may take on this node, see [WithTimeout].
func (n *Node) Timeout() time.Duration { return n.opts.timeout }

// Send puts a command to the node and returns at once. The receiver is told how
// it ended, under the number node, within the node timeout (but see [Restore]); nil
// if nobody cares.
//
// Commands are carried out in the order in which they were sent, as far as they
// reach the server. A release outlives its timeout: it stays queued until it is
// answered or no longer owed. Any other command that could not be written in time
// is not written at all.
func (n *Node) Send(cmd *Command, to Receiver, node int) {
	o := op{cmd: cmd, to: to, node: node, deadline: time.Now().Add(n.opts.timeout)}
	n.mu.Lock()
	if err := n.refusalLocked(cmd); err != nil {
		n.mu.Unlock()
		notice{o, Reply{Answer: Unsent, Err: err}}.deliver()
		return
	}
	if !n.started {
		n.started = true
		go n.keep()
	}
	n.queue.push(o)
	n.armLocked(o.deadline)
	first := n.queue.len() == 1
	n.mu.Unlock()
	if first { // else the keeper has been told
		n.rouse()
	}
}

// refusalLocked says why a command is not even queued.
func (n *Node) refusalLocked(cmd *Command) error {
	underWay := n.owed.len() + n.queue.len() + n.sent.len()
	switch {
	case n.closed:
		return ErrClosed
	case n.cleansUp(cmd) && underWay < maxCleanUp:
		return nil
	case n.suspect:
		return ErrSuspended
	case n.link == nil && n.down != nil:
		return n.down
	case underWay >= maxUnderWay:
		return ErrBusy
	}
	return nil
}

// cleansUp says whether a command has to follow what is on its way to the server, and
// so is taken on while that does not answer.
func (n *Node) cleansUp(cmd *Command) bool {
	return cmd.kind == release || cmd.kind == restore && n.link != nil
}

// rouse wakes the keeper.
func (n *Node) rouse() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// answered takes the next reply of the link: it belongs to the oldest command
// that was sent. It returns false if there is none, or if the node is closed and
// this was the last.
func (n *Node) answered(l *link, value any, err error) bool {
	n.mu.Lock()
	if n.sent.len() == 0 {
		n.mu.Unlock()
		l.wire.cut() // an answer to no question: what follows could not be told apart
		return false
	}
	n.suspect, l.served = false, true
	o := n.sent.pop()
	if o.cmd.script != nil && !o.evaluate && err != nil && unknownScript(err) {
		if !o.told || o.cmd.kind == release {
			o.evaluate = true
			n.queue.push(o)
			n.rouse()
		}
		n.mu.Unlock()
		return true
	}
	more := !n.closed || n.queue.len()+n.sent.len() > 0
	n.mu.Unlock()
	if !o.told {
		reply := classify(o.cmd.kind, value, err)
		reply.Server = l.server
		notice{o, reply}.deliver()
	}
	return more
}

// Close lets what is under way end, for the node timeout at the longest, and
// closes the connection. A release that could not be delivered by then is left to
// its TTL. Commands sent afterwards are answered with ErrClosed. Close waits until
// no goroutine of the node is left. That includes an attempt to connect which does not
// look at its context: a wrapped pool's Dial and TestOnBorrow, the functions of
// [WithDialer] and [WithCredentials]. Closing twice is fine.
func (n *Node) Close() error {
	n.mu.Lock()
	first, started := !n.closed, n.started
	n.closed = true
	if first && started {
		// The reader ends with the answer to the last command.
		n.queue.push(op{cmd: &Command{kind: ping}, deadline: time.Now().Add(n.opts.timeout)})
	}
	n.mu.Unlock()
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
	if n.own && first {
		return n.pool.Close()
	}
	return nil
}
