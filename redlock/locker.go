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

// Locker takes locks over N nodes. Make one with [Open] or [New]; it is safe for concurrent use, and a program needs one
// for each set of nodes.
type Locker struct {
	config
	engine *engine.Engine

	events   events
	calling  atomic.Uint64 // the number of the last call; from a random one on, as Lockers may share an observer
	throttle throttle
	outages  outages
	faults   faults
}

// Open makes a Locker over nodes of its own, one for each URL, which [Locker.Close] closes. The URLs are those of
// [pool.Open], such as redis://host:6379; [WithPoolOptions] passes options to it. The nodes connect on first use. The
// errors are those of pool.Open and [New].
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
	return newLocker(nodes, c) // nothing is connected yet
}

// New makes a Locker over nodes; a lock needs len(nodes)/2 + 1 of them. An odd number is best: four nodes do not tolerate
// more failures than three, and votes split more often.
//
// The nodes stay the caller's: several Lockers may share them, and the caller closes them after the Lockers.
//
// No node, a nil node, two nodes with the same address, a nil option, an option out of range or [WithPoolOptions] is [ErrInvalid].
// Two addresses of the same server are found out when both are connected: the second vote of that server is refused then
// ([nodeerr.ErrSameServer]).
func New(nodes []*pool.Node, opts ...Option) (*Locker, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if c.pool != nil {
		return nil, invalid("WithPoolOptions: the nodes given to New have their options already")
	}
	return newLocker(nodes, c)
}

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
	if err := l.request(new(request), "name", []LockOption{AutoExtend()}); err != nil {
		return nil, err
	}
	l.outages.clock, l.outages.waits = s.Clock, map[*outageWait]struct{}{}
	l.throttle.blocked = map[string]time.Time{}
	l.calling.Store(rand.Uint64())
	l.events.audience, l.events.began = &l.audience, time.Now()
	s.Events = program{l}
	l.engine = engine.New(*s)
	if l.events.wants(kindNodes) || l.events.mayLog() {
		l.engine.ReportHealth(program{l})
	}
	return l, nil
}

// Close makes the calls that wait return with [ErrClosed], and every later call of the Locker and of Lock.Extend. It ends renewals,
// and returns when nothing of the Locker runs, releases included, except for functions of Do and TryDo. That takes the node
// timeout at most, and a second more for an Observer that blocks. The error is always nil. Closing twice is fine, and a function of
// Do may call Close, as may an Observer. A [TokenSource] and the Enabled of a log handler must not: the call that asks them is one
// for which Close waits.
//
// The contexts of these functions end, with ErrClosed as their cause. Close does not wait for functions that run. Until one returns
// its lock is renewed, so that nobody else holds it, and then it is released. [Locker.Shutdown] is Close for a program that waits for
// these functions.
//
// Other locks stay held until their deadline, or until their Unlock: call Unlock before Close. Nodes given to [New] stay open, so
// that Unlock still works; close them when Do has returned. Nodes made by [Open] are closed, when the last function has returned:
// Unlock returns [ErrNoQuorum] then, and the key stays for its TTL.
func (l *Locker) Close() error {
	l.engine.Close()
	l.events.drain(context.Background())
	return nil
}

// Shutdown is Close, and waits until the last function of Do and TryDo has returned, its lock has been released, and nodes that
// [Open] made are closed; but not for longer than ctx. Then the error is ctx.Err(), and functions that still run go on.
// Locks that were taken without Do stay held, as after Close.
//
// A function of Do must not wait for itself. If ctx is the context of one that runs, or a child of it, the Locker is closed as by Close, and
// the error is [ErrDeadlock]. With any other context, such as context.Background, such a function waits until that ends: let it call
// Close, which does not wait for functions, or have another goroutine call Shutdown. An Observer may call it:
// Shutdown waits for that a second at most.
func (l *Locker) Shutdown(ctx context.Context) error {
	closed := make(chan struct{})
	go func() {
		_ = l.Close() // always nil
		close(closed)
	}()
	if l.within(ctx) {
		select {
		case <-closed:
		case <-ctx.Done(): // which Close ends, unless ctx outlives it
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

// begin checks the arguments of a call and counts it, which ends with engine.End.
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

// refusal makes a QuorumError. err returns why a node did not do what it was asked to.
func (l *Locker) refusal(op event.Op, name string, reason error, err func(node int) error) *QuorumError {
	nodes := l.engine.Nodes
	e := &QuorumError{Op: string(op), Name: name, Need: quorum.Majority(len(nodes)), Reason: reason, Nodes: make([]NodeError, len(nodes))}
	for i, n := range nodes {
		e.Nodes[i] = NodeError{Addr: n.Addr(), Err: err(i)}
	}
	e.blame()
	return e
}

// refused is the error of a call that the nodes have refused, or had not answered when it was given up.
func (l *Locker) refused(ctx context.Context, answers *QuorumError) error {
	if l.engine.Closing().Err() != nil {
		return &LockError{answers.Op, answers.Name, ErrClosed}
	}
	return givenUp(ctx, answers)
}

func (l *Locker) addr(node int) string { return l.engine.Nodes[node].Addr() }

func (l *Locker) nameOf(key string) string { return strings.TrimPrefix(key, l.prefix) }

// newCall returns nil if nobody wants events with the number of the call.
func (l *Locker) newCall(ctx context.Context) *observedCall {
	if !l.events.wants(numbered) {
		return nil
	}
	return &observedCall{ctx: ctx, id: l.calling.Add(1), start: time.Now()}
}
