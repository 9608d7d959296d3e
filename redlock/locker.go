package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool"
)

// Locker takes locks over N nodes. Make one with [New]; it is safe for concurrent
// use, and one per program and set of nodes is enough.
type Locker struct {
	config
	nodes   []*pool.Node
	timeout time.Duration // the longest node timeout

	closing context.Context // ends with cause ErrClosed
	stop    context.CancelCauseFunc

	self      string // the owner part of its tokens
	queues    queues
	owners    owners
	watchdog  watchdog
	reckoning reckoning

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup // calls under way, and what runs beside them
}

// New makes a Locker over nodes; a lock needs len(nodes)/2 + 1 of them. An odd number
// is best: a fourth node does not allow for more failures than three do, and makes
// votes split more often.
//
// The nodes stay the caller's: several Lockers may share them, and they are closed
// after the Lockers.
//
// No node, a nil node, two nodes with the same address or an option out of range is
// an error that names it. That two addresses lead to the same server is found out
// when both are connected: the second vote of that server is refused then.
func New(nodes []*pool.Node, opts ...Option) (*Locker, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, errors.New("redlock: no nodes: a lock needs at least one")
	}
	l := &Locker{config: c, nodes: append([]*pool.Node(nil), nodes...)}
	for i, node := range nodes {
		if node == nil {
			return nil, fmt.Errorf("redlock: node %d is nil", i)
		}
		for j, other := range nodes[:i] {
			if node == other || node.Addr() == other.Addr() {
				return nil, fmt.Errorf("redlock: nodes %d and %d are the same: %s", j, i, node.Addr())
			}
		}
		l.timeout = max(l.timeout, node.Timeout())
		if guard := node.MaxTTL(); guard > 0 && guard < l.maxTTL {
			l.maxTTL, l.maxTTLBy = guard, "pool.WithRestartGuard of node "+node.Addr()
		}
	}
	if _, err := l.checkTTL(l.ttl); err != nil {
		return nil, err
	}
	if l.self, err = newOwner(); err != nil {
		return nil, fmt.Errorf("redlock: %w", err)
	}
	l.watchdog.locker = l
	l.closing, l.stop = context.WithCancelCause(context.Background())
	return l, nil
}

// TryLock asks every node once and never waits for a holder. It returns as soon as
// a majority has said yes, or cannot any more, within the node timeout whatever the
// nodes do (twice that at most [WithFencing]). Then the round is over for the caller; what is left of it on other nodes
// settles without it.
//
// The errors: [ErrTaken] where others hold so many nodes that no majority is
// possible, [ErrNoQuorum] where too few nodes answered; both within a
// [*QuorumError] with every node's reason, and joined with ctx.Err() where ctx ended
// first. [ErrClosed] after Close. A name or option out of range is an error before
// anything is sent. After any error nothing of this call stays on a node that
// answers; one that does not is cleaned up when it is back, or by the TTL.
//
// A caller that holds the lock already is told so at once, without asking a node: [ErrDeadlock], with ErrTaken. With
// [Reentrant] it gets another handle, or the error of the [Lock.Extend] that this takes.
//
// ctx bounds the acquiring only: a lock that is held is not touched by its end.
func (l *Locker) TryLock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return l.take(ctx, name, opts, (*Locker).acquire)
}

// Lock is TryLock until it holds the lock: a holder, a failing node or a missing
// majority costs time, not an error. Those who wait for one name in one Locker get it in the order in
// which they came, and one of them at a time asks the nodes; across processes they take turns.
//
// Where the servers announce changes (CLIENT TRACKING) a waiter costs nothing while the
// lock is held, and is woken when it is released, by whatever client; at the end of the holder's TTL it
// tries in any case. Where they do not, it asks again and again as [WithBackoff] says.
//
// When ctx ends, the error is both ctx.Err() and the reason of the last round that
// came to an end: ErrTaken or ErrNoQuorum, within its *QuorumError. The other errors are those of
// TryLock.
func (l *Locker) Lock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return l.take(ctx, name, opts, (*Locker).wait)
}

// take checks a call, and has it acquire what its caller does not hold already.
func (l *Locker) take(ctx context.Context, name string, opts []LockOption, acquire func(*Locker, context.Context, request) (*Lock, error)) (*Lock, error) {
	r, err := l.request(name, opts)
	if err != nil {
		return nil, err
	}
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.calls.Done()
	if h := l.held(ctx, r); h != nil {
		if lock, err := h.reenter(ctx, r); lock != nil || err != nil {
			return lock, err
		}
	}
	return acquire(l, ctx, r)
}

// Close makes the calls that wait return with [ErrClosed], and every later Lock,
// TryLock and Extend; it ends renewals, and returns when nothing of the Locker runs any more. Locks that are
// held stay held, until their Unlock, which still works, or their deadline. The nodes stay open.
// Closing twice is fine.
func (l *Locker) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.stop(ErrClosed)
	l.calls.Wait()
	l.queues.close(l)
	return nil
}

// enter counts a call, which ends with calls.Done.
func (l *Locker) enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.calls.Add(1)
	return nil
}

// forget ends what runs for a lock that has been released.
func (l *Locker) forget(h *hold) {
	l.watchdog.drop(h)
	if h.req.owner != "" {
		l.owners.remove(h)
	}
}

// newAcquire makes a round, with a token of its own. With fencing, what it is granted is above floor.
func (l *Locker) newAcquire(req request, floor uint64) (*round, error) {
	token, err := l.newToken(req.metadata)
	if err != nil {
		return nil, err
	}
	grant := quorum.Grant{Start: l.clock.Now(), TTL: req.ttl, Drift: l.drift}
	var machine *quorum.Acquire
	var command *pool.Command
	if l.fencing {
		machine = quorum.NewFencedAcquire(len(l.nodes), grant)
		command = pool.AcquireFenced(req.key, token, req.ttl, l.counter(grant.Start, req.ttl, floor))
	} else {
		machine = quorum.NewAcquire(len(l.nodes), grant)
		command = pool.Acquire(req.key, token, req.ttl)
	}
	r := newRound(l, opAcquire, req, token, grant, machine, command)
	r.acquire, r.owed = machine, req.ttl
	return r, nil
}

// acquire goes one round.
func (l *Locker) acquire(ctx context.Context, req request) (*Lock, error) {
	if l.closing.Err() != nil {
		return nil, ErrClosed
	}
	r, err := l.newAcquire(req, 0)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		r.skip(err)
	} else {
		r.ask()
	}
	switch outcome := r.wait(ctx); {
	case outcome == quorum.Done:
		return newLock(r), nil
	case l.closing.Err() != nil:
		return nil, ErrClosed
	case ctx.Err() != nil:
		return nil, interrupted(ctx, r.refusal)
	default:
		return nil, r.refusal
	}
}

// newLock is what a round that was won leaves in the holder's hands.
func newLock(r *round) *Lock {
	l, fence := r.locker, r.acquire.Fence()
	if fence > 0 {
		l.reckoning.learn(l.clock, r.grant.Start, fence)
	}
	return l.newHold(r.req, r.token, fence, r, r.acquire.Lease())
}

// interrupted joins the end of a context with what the nodes had said until then.
func interrupted(ctx context.Context, last *QuorumError) error {
	if cause := context.Cause(ctx); cause != ctx.Err() { //nolint:errorlint // the very error is meant
		return fmt.Errorf("%w (%w): %w", ctx.Err(), cause, last)
	}
	return fmt.Errorf("%w: %w", ctx.Err(), last)
}
