package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// Locker takes locks on N nodes. Make one with [Open] or [New] for each set of nodes. It is safe for concurrent use.
type Locker struct {
	config
	engine *engine.Engine

	events   events
	calling  atomic.Uint64 // the number of the last call. The first is random, because Lockers may share an Observer
	waiting  atomic.Int64  // the number of calls that wait for a lock
	alone    []atomic.Bool // whether the log says so already, see node.Health
	throttle throttle
	outages  outages
	faults   faults
}

// Open makes a Locker over nodes of its own, one for each URL, such as redis://host:6379 (see [pool.Open]). It takes
// options of package pool too. No server is asked: nodes connect on first use. Open returns the errors of pool.Open and
// [New].
func Open(urls []string, opts ...Option) (*Locker, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	nodes, err := pool.Open(urls, c.pool...)
	if err != nil {
		return nil, err
	}
	c.settings.Own = true
	return newLocker(nodes, c) // no node is connected yet, so none has to be closed after an error
}

// New makes a Locker over nodes of package pool, which the caller closes after it. Several Lockers may share them. A
// lock needs len(nodes)/2 + 1 of them; an odd number is best. The error is [ErrInvalid]: no node, a nil node, one
// address twice, or a wrong option.
func New(nodes []*pool.Node, opts ...Option) (*Locker, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if c.pool != nil {
		return nil, invalid("an option of package pool: the nodes given to New have theirs already")
	}
	return newLocker(nodes, c)
}

// newLocker checks the nodes and the defaults of locks, and makes the Locker.
func newLocker(nodes []*pool.Node, c config) (*Locker, error) {
	if len(nodes) == 0 {
		return nil, invalid("no nodes: a lock needs at least one")
	}
	l := &Locker{config: c}
	s := &l.settings
	for i := range nodes {
		n := (*engine.Node)(nodes[i])
		if n == nil {
			return nil, invalid("node %d is nil", i)
		}
		for j, other := range s.Nodes {
			if n == other || n.Addr() == other.Addr() {
				return nil, invalid("nodes %d and %d are the same: %s", j, i, n.Addr())
			}
		}
		s.Nodes = append(s.Nodes, n)
		if guard := n.Config().MaxTTL; guard > 0 && guard < l.maxTTL {
			l.maxTTL, l.maxTTLBy = guard, "pool.WithRestartGuard of node "+n.Addr()
		}
	}
	if err := l.request(new(request), "name", nil); err != nil {
		return nil, err
	}
	l.outages.clock, l.outages.waits = s.Clock, map[*outageWait]struct{}{}
	l.throttle.logged = map[string]time.Time{}
	l.calling.Store(rand.Uint64())
	l.events.audience, l.events.began = &l.audience, time.Now()
	l.alone = make([]atomic.Bool, len(s.Nodes))
	l.openLog()
	s.Events = program{l}
	l.engine = engine.New(*s)
	if l.events.wants(groupNodes) || l.events.mayLog() {
		l.engine.ReportHealth(program{l})
	}
	return l, nil
}

// Close ends the Locker. Calls that wait, and all later ones, return [ErrClosed]. Close takes the node timeout at most,
// and a second more if an Observer blocks. It returns nil.
//
// The contexts of functions of Do end. Each lock is renewed until its function returns, and then released. Close does
// not wait for that: see [Locker.Shutdown].
//
// Other locks stay held until their deadline or Unlock. Call Unlock before Close, because nodes of [Open] are closed
// too, and keys then stay for their TTL. Nodes given to [New] stay open: close them when the functions have returned. A
// [TokenSource] must not call Close.
func (l *Locker) Close() error {
	l.engine.Close()
	l.events.emit(closing{})
	l.events.drain(context.Background())
	return nil
}

// Shutdown is [Locker.Close], and waits until the functions of Do have returned and their locks are released. If ctx
// ends first, the error is ctx.Err(), and functions go on. A function of Do calls Close instead: with its own context,
// Shutdown closes the Locker and returns [ErrDeadlock].
func (l *Locker) Shutdown(ctx context.Context) error {
	closed := make(chan struct{})
	go func() {
		_ = l.Close() // always nil
		close(closed)
	}()
	if l.within(ctx) {
		select {
		case <-closed:
		case <-ctx.Done(): // Close ends ctx, unless it was made with context.WithoutCancel
		}
		return errWithin
	}
	for _, step := range []<-chan struct{}{closed, l.engine.Ended()} {
		select {
		case <-step:
		case <-ctx.Done():
			return fmt.Errorf("redlock: shutdown: %w", ended(ctx))
		}
	}
	l.events.drain(ctx)
	return nil
}

// begin checks the arguments of a call and counts the call. If begin returns nil, the caller must call engine.End when
// the call ends.
func (l *Locker) begin(req *request, op event.Op, name string, opts []LockOption) error {
	err := l.request(req, name, opts)
	if err == nil && !l.engine.Begin() {
		err = ErrClosed
	}
	if err != nil {
		return failed(op, name, err)
	}
	return nil
}

// refusal makes a QuorumError. err returns the reason of a node, or nil if the node did as it was asked.
func (l *Locker) refusal(op event.Op, name string, reason error, err func(node int) error) *QuorumError {
	nodes := l.engine.Nodes
	e := &QuorumError{
		Op: string(op), Name: name, Need: quorum.Majority(len(nodes)), Reason: reason, Nodes: make([]NodeError, len(nodes)),
	}
	for i, n := range nodes {
		e.Nodes[i] = NodeError{Addr: n.Addr(), Err: err(i)}
	}
	e.blame()
	return e
}

// refused returns the error of a call that the nodes have refused, or that was given up before they had answered. It is
// ErrClosed if the Locker has been closed.
func (l *Locker) refused(ctx context.Context, answers *QuorumError) error {
	if l.engine.Closing().Err() != nil {
		return &LockError{answers.Op, answers.Name, ErrClosed}
	}
	return givenUp(ctx, answers)
}

func (l *Locker) addr(node int) string { return l.engine.Nodes[node].Addr() }

func (l *Locker) nameOf(key string) string { return strings.TrimPrefix(key, l.prefix) }

// newCall returns the observedCall of a new call, or nil if nobody wants events with the number of the call.
func (l *Locker) newCall(ctx context.Context) *observedCall {
	if !l.events.wants(numbered) {
		return nil
	}
	return &observedCall{ctx: ctx, id: l.calling.Add(1), start: time.Now()}
}
