package redlock

import (
	"context"
	"errors"
	"log/slog"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// TryLock tries once, on every node, and never waits for a holder. It returns as soon as a majority has said yes or no majority is
// possible, within the node timeout whatever the nodes do ([WithFencing]: twice that at most). The
// answers of the other nodes are handled in the background.
//
// The errors, all with the lock's name ([LockError]):
//   - [ErrTaken]: others hold too many nodes for a majority, be it with data of another program that has a TTL. If so many of these keys have no TTL ([nodeerr.ErrNoExpiry]) that nobody
//     may ever release, the log says so ([WithLogger]);
//   - [ErrForeign]: data of another program that has no TTL is in the way, so that nobody can take the lock;
//   - [ErrNoQuorum]: too few nodes answered. These three come in a [*QuorumError] with every node's reason, and are joined
//     with ctx.Err() if ctx ended while nodes were asked;
//   - ctx.Err(): ctx had ended before, and no node was asked;
//   - [ErrDeadlock]: the caller holds the lock already, and no node was asked. With [Reentrant] TryLock returns another handle on the
//     lock instead, or the error of the [Lock.Extend] that this involves;
//   - [ErrInvalid]: an option is out of range, or the name, which must have from 1 to 512 bytes, no control characters, and not
//     make a key of the form {...}:fence, {...}:sharers, {...}:wanted or {...}:slots; or TryLock has no use for the option ([MaxWait],
//     [MaxOutage]);
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
	return l.take(ctx, name, opts, true)
}

// Lock is TryLock, repeated until it holds the lock: a holder, a failing node or a missing majority costs time and is no
// error. The name, behind the prefix, is a Redis key, and must not be that of a program's data: nobody ever unlocks that. If
// so many nodes hold data without a TTL under it that the others are no majority, Lock returns [ErrForeign] at once. A short string without a
// TTL may be the lock of a client that uses SETNX, so Lock waits for it, and says so in the log ([WithLogger]).
//
// Calls that wait for one name in one Locker get it in the order in which they came, and one of them at a time asks the nodes.
// Processes take turns if the servers permit Pub/Sub and CLIENT TRACKING. Other clients may come in between at any time.
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
// that no majority is left: the node was closed (pool.Node.Close); or, if no majority has ever answered this Locker, a server answers
// with an error that does not pass, such as NOAUTH, NOPERM or MOVED, is no Redis, is too old, is a Sentinel, or votes for another node already. What
// may pass, such as TLS that fails, READONLY, or a server that closes each connection, has to last for 10 s. Later all these are an
// outage like any other, as while a password is changed. docs/operations.md has the list.
// The other errors are those of TryLock.
func (l *Locker) Lock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return l.take(ctx, name, opts, false)
}

// take takes a lock, unless the caller holds it already. try means that it does not wait.
func (l *Locker) take(ctx context.Context, name string, opts []LockOption, try bool) (lock *Lock, err error) {
	var req request
	if err := l.begin(&req, event.OpAcquire, name, opts); err != nil {
		return nil, err
	}
	defer l.engine.End()
	if try, err = req.tries(try); err != nil {
		return nil, err
	}
	if req.call = l.newCall(ctx); req.call != nil {
		defer func() { l.acquired(event.OpAcquire, try, &req, lock, err) }()
	}
	if lock, err := l.reenter(ctx, &req); lock != nil || err != nil {
		return lock, err
	}
	if ctx.Err() != nil {
		return nil, failed(event.OpAcquire, name, ended(ctx))
	}
	if err := req.nextToken(); err != nil {
		return nil, failed(event.OpAcquire, name, err)
	}
	if try {
		lock, err = l.attempt(ctx, &req)
	} else {
		limited, stop := l.limit(ctx, &req)
		defer stop()
		lock, err = l.wait(limited, &req)
	}
	if err != nil {
		l.logBlocked(err)
	}
	return lock, err
}

// tries reports whether a call tries once, as it does if try is true or MaxWait is 0.
func (r *request) tries(try bool) (bool, error) {
	switch {
	case try && r.given&givenMaxWait != 0:
		return try, failed(event.OpAcquire, r.name, invalid("MaxWait(%s): TryLock and TryDo do not wait", r.maxWait))
	case try && r.given&givenMaxOutage != 0:
		return try, failed(event.OpAcquire, r.name, invalid("MaxOutage(%s): TryLock and TryDo do not wait", r.maxOutage))
	}
	return try || r.maxWait == 0, nil
}

// limit returns the context of a call that waits. stop frees its resources.
func (l *Locker) limit(ctx context.Context, req *request) (limited context.Context, stop func()) {
	limited, stop = ctx, func() {}
	if req.maxWait != NoLimit {
		limited, stop = context.WithTimeoutCause(ctx, req.maxWait, errMaxWait)
	}
	if req.maxOutage == NoLimit {
		return limited, stop
	}
	limited, recovered := l.outages.limit(limited, req.name, req.maxOutage)
	timed := stop
	return limited, func() {
		recovered()
		timed()
	}
}

// maxSplits is how many rounds of a call for a slot that does not wait may end without agreement of the nodes that have granted one.
const maxSplits = 4

// attempt runs one round, and another if it was for a slot and was split.
func (l *Locker) attempt(ctx context.Context, req *request) (*Lock, error) {
	for round := 1; ; round++ {
		lock, split, err := l.acquire(ctx, req)
		if !split || round == maxSplits || ctx.Err() != nil {
			return lock, err
		}
		if err := req.nextToken(); err != nil {
			return nil, failed(event.OpAcquire, req.name, err)
		}
	}
}

// acquire runs one round. split is that of [quorum.Acquire].
func (l *Locker) acquire(ctx context.Context, req *request) (lock *Lock, split bool, err error) {
	c := engine.Call{Want: &req.Want, Metadata: req.metadata, Block: req.block}
	e := l.engine.Enter(req.key)
	r := e.AskLocked(&c, req.token, req.call)
	e.Exit()
	outcome := r.Wait(ctx, nil)
	e.Enter()
	if outcome != quorum.Done {
		split = r.SplitLocked()
		e.LostLocked(r, &c)
		e.Exit()
		return nil, split, l.refused(ctx, l.refusalOf(&r.Round))
	}
	defer e.Exit()
	return l.wonLocked(e, &c, r, req), false, nil
}

// logBlocked logs that a call was refused because of keys that no holder will release, so that trying again does not help; or that too
// few nodes answered.
func (l *Locker) logBlocked(err error) {
	var refusal *QuorumError
	if !l.events.logs(slog.LevelWarn) || !errors.As(err, &refusal) {
		return
	}
	blocked, message := refusal.Name, "redlock: a key without a TTL is in the way of a lock"
	switch {
	case refusal.prevented(nodeerr.ErrForeign, nodeerr.ErrNoExpiry):
		if errors.Is(refusal.Reason, ErrForeign) {
			message = "redlock: data of another program is in the way of a lock"
		}
	case refusal.preventedBy(isFailure):
		blocked, message = "", "redlock: too few nodes grant locks" // no name is empty
	default:
		return
	}
	if l.throttle.logsBlocked(blocked, l.engine.Clock.Now()) {
		l.events.logLine(slog.LevelWarn, message, "name", refusal.Name, "error", refusal)
	}
}
