package redlock

import (
	"context"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// Locker takes locks over N nodes. Make one with [Open] or [New]; it is safe for concurrent use, and a program needs one
// for each set of nodes.
type Locker struct {
	config
	form    form.Form   // of the locks that it takes
	fenced  form.Fenced // which is the form, or that of locks that are attached
	nodes   []*node.Node
	timeout time.Duration // the longest node timeout

	served  atomic.Bool     // a majority of the nodes has answered a round
	closing context.Context // ends with Close, under mu
	stop    context.CancelFunc

	events    events
	calling   atomic.Uint64 // the number of the last call; from a random one on, as Lockers may share an observer
	rules     lock.Rules
	names     names
	sweeps    []atomic.Int32 // of node i: how many times all keys were to be observed since a sweep over them began; 0 if none is under way
	renewals  renewals
	blocked   blocked
	longWaits longWaits
	outages   outages

	mu        sync.Mutex
	calls     sync.WaitGroup // calls under way, and what runs beside them, except functions of Do
	functions int            // of Do, that run
	ended     chan struct{}  // closed when none runs any more after Close, and nothing of the Locker
	endOnce   sync.Once
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
	c.own = true
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
	l := &Locker{config: c, ended: make(chan struct{})}
	for i := range nodes {
		n := (*node.Node)(nodes[i])
		if n == nil {
			return nil, invalid("node %d is nil", i)
		}
		for j, other := range l.nodes {
			if n == other || n.Addr() == other.Addr() {
				return nil, invalid("nodes %d and %d are the same: %s", j, i, n.Addr())
			}
		}
		l.nodes = append(l.nodes, n)
		l.timeout = max(l.timeout, n.Config().Timeout)
		if guard := n.Config().MaxTTL; guard > 0 && guard < l.maxTTL {
			l.maxTTL, l.maxTTLBy = guard, "pool.WithRestartGuard of node "+n.Addr()
		}
	}
	if _, err := l.request("name", []LockOption{AutoExtend()}); err != nil {
		return nil, err
	}
	l.sweeps = make([]atomic.Int32, len(nodes))
	l.fenced.Keep, l.form = l.keepFence, form.Exclusive{}
	if l.fencing {
		l.form = &l.fenced
	}
	l.renewals.locker, l.renewals.epoch, l.outages.clock = l, l.clock.Now(), l.clock
	l.names = names{locker: l, seed: maphash.MakeSeed()}
	l.rules = lock.Rules{
		Clock: l.clock, Wall: l.wall, Nodes: len(nodes), Timeout: l.timeout, Self: l.self, Form: l.form, Fenced: &l.fenced, Drift: l.drift, Pace: l.pace,
		Closed: func() bool { return l.closing.Err() != nil },
	}
	l.closing, l.stop = context.WithCancel(context.Background())
	l.calling.Store(rand.Uint64())
	l.events.begin(c)
	l.reportNodes()
	return l, nil
}

// TryLock tries once, on every node, and never waits for a holder. It returns as soon as a majority has said yes or no majority is
// possible any more, within the node timeout whatever the nodes do ([WithFencing]: twice that at most). The
// answers of the other nodes are handled in the background.
//
// The errors, all with the lock's name ([LockError]):
//   - [ErrTaken]: others hold too many nodes for a majority. If so many of these keys have no TTL ([nodeerr.ErrNoExpiry]) that nobody
//     may ever release, the log says so ([WithLogger]);
//   - [ErrForeign]: data of another program is in the way, so that nobody can take the lock;
//   - [ErrNoQuorum]: too few nodes answered. These three come in a [*QuorumError] with every node's reason, and are joined
//     with ctx.Err() if ctx ended while nodes were asked;
//   - ctx.Err(): ctx had ended before, and no node was asked;
//   - [ErrDeadlock]: the caller holds the lock already, and no node was asked. With [Reentrant] TryLock returns another handle on the
//     lock instead, or the error of the [Lock.Extend] that this involves;
//   - [ErrInvalid]: an option is out of range, or the name, which must have from 1 to 512 bytes, no control characters, and not
//     make a key of the form {...}:fence; or TryLock has no use for the option ([MaxWait], [MaxOutage]);
//   - the error of a [TokenSource];
//   - [ErrClosed]: the Locker has been closed.
//
// ErrInvalid comes before ErrClosed, ErrDeadlock and ctx.Err(), in this order.
//
// After any error nothing of this call stays on a node that answers; a node that does not answer is cleaned up when it is back,
// or by the TTL. The releases may still be under way when TryLock returns: a program that exits calls Close first, or they may
// be left to the TTL.
//
// Callers that try at the same instant may take the nodes from each other, so that all are refused and none has the lock. If one
// of them has to get it, use Lock with a context that ends soon.
//
// ctx bounds the acquiring only: its end does not affect a lock that is held.
func (l *Locker) TryLock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return l.take(ctx, name, opts, true, l.acquire)
}

// Lock is TryLock, repeated until it holds the lock: a holder, a failing node or a missing majority costs time and is no
// error. The name, behind the prefix, is a Redis key, and must not be that of a program's data: nobody ever unlocks that. If
// so many nodes hold data under it that the others are no majority, Lock returns [ErrForeign] at once. A short string without a
// TTL may be the lock of a client that uses SETNX, so Lock waits for it, and says so in the log ([WithLogger]).
//
// Calls that wait for one name in one Locker get it in the order in which they came, and one of them at a
// time asks the nodes; processes take turns.
//
// If the servers announce changes (CLIENT TRACKING), a waiter costs nothing while the lock is held, and is woken when any client
// releases it; at the end of the holder's TTL the waiter tries in any case. Otherwise it polls as [WithBackoff] says. Against
// clients of other libraries that take the lock again and again without a pause, a waiter polls as they do, up to 32 rounds at
// once between these pauses.
//
// When ctx ends, the error is both ctx.Err() and the reason of the last round that came to an end: ErrTaken or ErrNoQuorum,
// in its *QuorumError; ErrTaken if none has, and the nodes show that others hold the lock. After [MaxWait] it is the QuorumError
// alone, as no context has ended. If the lock was granted before ctx ended, Lock returns it.
//
// Some faults do not end by themselves, so that Lock returns ErrNoQuorum with the nodes' reasons at once, if so many nodes have them
// that no majority is left: the node was closed (pool.Node.Close); or, if no majority has ever answered this Locker, the login or TLS
// fails, a permission is missing, the database does not exist, the server is too old, or votes for another node already. Later these
// are an outage like any other, as while a password is changed.
// The other errors are those of TryLock.
func (l *Locker) Lock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return l.take(ctx, name, opts, false, l.wait)
}

// take takes a lock by acquire, unless the caller holds it already.
func (l *Locker) take(
	ctx context.Context, name string, opts []LockOption, try bool, acquire func(context.Context, request) (*Lock, error),
) (lock *Lock, err error) {
	req, err := l.begin(event.OpAcquire, name, opts)
	if err != nil {
		return nil, err
	}
	defer l.calls.Done()
	switch {
	case try && req.given&givenMaxWait != 0:
		return nil, failed(event.OpAcquire, name, invalid("MaxWait(%s): TryLock and TryDo do not wait", req.maxWait))
	case try && req.given&givenMaxOutage != 0:
		return nil, failed(event.OpAcquire, name, invalid("MaxOutage(%s): TryLock and TryDo do not wait", req.maxOutage))
	case req.maxWait == 0:
		try, acquire = true, l.acquire
	}
	if req.call = l.newCall(ctx); req.call != nil {
		defer func() { l.acquired(event.OpAcquire, try, req, lock, err) }()
	}
	if lock, err := l.reenter(ctx, req); lock != nil || err != nil {
		return lock, err
	}
	if ctx.Err() != nil {
		return nil, failed(event.OpAcquire, name, ended(ctx))
	}
	if err := req.nextToken(); err != nil {
		return nil, failed(event.OpAcquire, name, err)
	}
	if req.maxWait != NoLimit && !try {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, req.maxWait, errMaxWait)
		defer cancel()
	}
	if req.maxOutage != NoLimit && !try {
		var stop func()
		ctx, stop = l.outages.limit(ctx, name, req.maxOutage)
		defer stop()
	}
	if lock, err = acquire(ctx, req); err != nil {
		l.logBlocked(err)
	}
	return lock, err
}

// begin checks the arguments of a call and counts it, which ends with calls.Done.
func (l *Locker) begin(op event.Op, name string, opts []LockOption) (request, error) {
	req, err := l.request(name, opts)
	if err == nil {
		err = l.enter()
	}
	if err != nil {
		err = failed(op, name, err)
	}
	return req, err
}

// acquire runs one round.
func (l *Locker) acquire(ctx context.Context, req request) (*Lock, error) {
	c := lock.Call{Want: &req.Want, Block: req.block}
	e := l.names.enter(req.key)
	r := e.beginLocked(&c, &req)
	e.unlock()
	outcome := r.wait(ctx, nil, l.closing.Done())
	e.mu.Lock()
	if outcome != quorum.Done {
		e.doLocked(e.name.Lost(nil, &c, &r.acquire))
		e.unlock()
		return nil, l.refused(ctx, r.refusal)
	}
	defer e.unlock()
	return e.wonLocked(&c, r, req), nil
}
