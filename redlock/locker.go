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

// Locker is a client that takes locks on N nodes. Make one with [Open] or [New]. It is safe for concurrent use, and a
// program needs one for each set of nodes.
type Locker struct {
	config
	engine *engine.Engine

	events   events
	calling  atomic.Uint64 // the number of the last call. The first is random, because Lockers may share an Observer
	waiting  atomic.Int64  // the number of calls that wait for a lock
	throttle throttle
	outages  outages
	faults   faults
}

// Open makes a Locker over nodes of its own, one for each URL. [Locker.Close] closes them. The URLs are as for
// [pool.Open], such as redis://host:6379, and so are options of package pool. The nodes connect on first use. Open
// returns the errors of pool.Open and of [New].
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

// New makes a Locker over nodes. A lock needs len(nodes)/2 + 1 of them. An odd number is best: four nodes do not
// tolerate more failures than three, and votes split more often.
//
// The nodes stay the caller's. Several Lockers may share them, and the caller closes them after the Lockers.
//
// New returns [ErrInvalid] for no node, a nil node, two nodes with the same address, a nil option, an option out of
// range, or an option of package pool. Two addresses of the same server are found when both are connected: the second
// vote of that server is then refused ([nodeerr.ErrSameServer]).
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
	l.throttle.blocked = map[string]time.Time{}
	l.calling.Store(rand.Uint64())
	l.events.audience, l.events.began = &l.audience, time.Now()
	l.openLog()
	s.Events = program{l}
	l.engine = engine.New(*s)
	if l.events.wants(groupNodes) || l.events.mayLog() {
		l.engine.ReportHealth(program{l})
	}
	return l, nil
}

// Close ends the Locker. Calls that wait return [ErrClosed], and so does every later call of the Locker and of
// Lock.Extend. Close ends renewals. It returns when nothing of the Locker runs, releases included, except for functions
// of Do and TryDo. That takes the node timeout at most, and a second more for an Observer that blocks. The error is
// always nil.
//
// Closing twice is fine. A function of Do may call Close, and so may an Observer. A [TokenSource] and the Enabled of a
// log handler must not: Close waits for the call that asks them.
//
// The contexts of the functions of Do end, with ErrClosed as their cause. Close does not wait for functions that run.
// Until a function returns, its lock is renewed, so that nobody else holds it. Then the lock is released.
// [Locker.Shutdown] is Close for a program that waits for these functions.
//
// Other locks stay held until their deadline, or until their Unlock: call Unlock before Close. Nodes given to [New]
// stay open, so that Unlock still works. Close them when Do has returned. Nodes made by [Open] are closed when the last
// function has returned. From then on Unlock returns [ErrNoQuorum], and the key stays for its TTL.
func (l *Locker) Close() error {
	l.engine.Close()
	l.events.emit(closing{})
	l.events.drain(context.Background())
	return nil
}

// Shutdown closes the Locker like [Locker.Close]. It also waits until the last function of Do and TryDo has returned,
// its lock has been released, and nodes that [Open] made are closed. If ctx ends first, the error is ctx.Err(), and
// functions that still run go on. Locks that were taken without Do stay held, as after Close.
//
// A function of Do must not wait for itself. If ctx is the context of a function that runs, or a child of it, Shutdown
// closes the Locker like Close and returns [ErrDeadlock]. With any other context, such as context.Background, a
// function that calls Shutdown waits until that context ends. Let it call Close instead, which does not wait for
// functions, or let another goroutine call Shutdown. An Observer may call Shutdown, which waits a second at most for
// that Observer.
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
