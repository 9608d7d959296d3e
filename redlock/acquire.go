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

// TryLock tries to take the lock of a name, on every node, and never waits for a holder. It asks all nodes in one
// round, which ends as soon as a majority has granted the lock or no majority is possible. A round takes the node
// timeout at most, whatever the nodes do, and twice that with [WithFencing]. The answers of the other nodes are handled
// in the background.
//
// Callers that try at the same instant may each win some of the nodes, so that none of them has a majority. TryLock
// then releases these nodes and repeats the round after a short random pause. So one of these callers gets the lock,
// all but certainly. TryLock repeats a round if some node granted the lock, another node refused it, and a majority of
// all nodes did one or the other. It does so up to four times, and begins no round later than the node timeout after
// the first. All rounds together take no longer than one may take.
//
// A name that others hold on all nodes costs one round. A name that they hold on a bare majority looks like such a
// race, and may cost five rounds before [ErrTaken]. With their pauses these take about 30 round trips, or 10 ms if the
// nodes are near.
//
// The errors, all with the lock's name ([LockError]):
//   - [ErrTaken]: others hold too many nodes for a majority. Data of another program that has a TTL counts too. If keys
//     without a TTL ([nodeerr.ErrNoExpiry]) alone prevent a majority, nobody may ever release them, and the log says so
//     ([WithLogger]);
//   - [ErrForeign]: data of another program that has no TTL is on too many nodes for a majority, so that nobody can
//     take the lock;
//   - [ErrNoQuorum]: too few nodes answered. These three come in a [*QuorumError] with every node's reason. They are
//     joined with ctx.Err() if ctx ended while nodes were asked;
//   - ctx.Err(): ctx had ended before the call, and no node was asked;
//   - [ErrDeadlock]: the caller already holds the lock, and no node was asked. With [Reentrant] TryLock returns another
//     handle on the lock instead, or the error of the [Lock.Extend] that this involves;
//   - [ErrInvalid]: the name or an option is out of range, or TryLock has no use for an option ([MaxWait],
//     [MaxOutage]). A name has from 1 to 512 bytes and no control characters. It must not make a key that begins with
//     quorumlock:since: or has the form {...}:fence, {...}:sharers, {...}:wanted or {...}:slots;
//   - the error of a [TokenSource];
//   - [ErrClosed]: the Locker has been closed.
//
// If several of them apply, TryLock returns the first in this order: ErrInvalid, ErrClosed, ErrDeadlock, ctx.Err().
// Only an ErrInvalid because TryLock has no use for MaxWait or MaxOutage comes after ErrClosed.
//
// After an error the call leaves no lock on a node that answers. A node that does not answer is cleaned up when it is
// back, or by the TTL. The releases may still be under way when TryLock returns. So a program that exits calls Close
// first; otherwise keys may stay until their TTL is over.
//
// ctx limits only the acquire. Its end does not affect a lock that is held.
func (l *Locker) TryLock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return l.take(ctx, name, opts, true)
}

// Lock waits for the lock of a name: it repeats TryLock until it holds the lock. A holder, a failing node or a missing
// majority costs time and is not an error.
//
// The prefix and the name together are a Redis key. It must not be the key of a program's data, because nobody ever
// unlocks that. If data without a TTL is on too many nodes for a majority, Lock returns [ErrForeign] at once. But a
// short string without a TTL may be the lock of a client that uses SETNX. So Lock waits for it, and says so in the log
// ([WithLogger]).
//
// Calls of one Locker that wait for one name get the lock in the order in which they came. One of them at a time asks
// the nodes; calls with [Shared] or with [Slots] do not wait for each other. Processes take turns of up to six locks if
// the servers permit Pub/Sub and CLIENT TRACKING. They do so in the order in which the holder hears that they wait. A
// Locker hears it from its first wait or renewal on. If the holder does not hear it, chance decides. Other clients may
// get the lock in between at any time.
//
// If the servers announce changes (CLIENT TRACKING), a waiter costs nothing while the lock is held. It wakes when any
// client releases the lock, and tries at the end of the holder's TTL in any case. Without announcements it polls as
// [WithBackoff] says. Clients of other libraries may take the lock again and again without a pause. Against them a
// waiter polls as they do, with up to 32 rounds in a row between its pauses.
//
// When ctx ends, the error matches both ctx.Err() and the reason of the last round that came to an end. The reason is
// ErrTaken or ErrNoQuorum, in its *QuorumError. If no round came to an end, it is ErrTaken if the nodes show that
// others hold the lock. After [MaxWait] the error is the QuorumError alone, because no context has ended. If the lock
// was granted before ctx ended, Lock returns it.
//
// Some faults do not end by themselves. If nodes with such faults leave no majority, Lock returns ErrNoQuorum with the
// nodes' reasons:
//   - at once, if the nodes were closed (pool.Node.Close);
//   - at once, if no majority has ever answered this Locker, and a fault does not pass. Such a server is no Redis, is
//     too old, is a Sentinel, or votes for another node already. Or it answers with an error such as NOAUTH, NOPERM or
//     MOVED;
//   - after 10 s, if no majority has ever answered this Locker, and the fault may pass. Examples are TLS that fails,
//     READONLY, or a server that closes each connection.
//
// Once a majority has answered, of these faults only closed nodes end the wait. The others are then an outage like any
// other, for example while a password is changed. docs/operations.md has the list.
//
// The other errors are the same as for TryLock.
func (l *Locker) Lock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return l.take(ctx, name, opts, false)
}

// take checks a call, and then tries or waits for the lock. If the caller already holds it, take returns another
// handle or an error, as reenter does. try means that the call does not wait.
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

// tries reports whether a call does not wait: try is true, or MaxWait is 0. It returns an ErrInvalid if try is true
// and the call has a MaxWait or MaxOutage of its own.
func (r *request) tries(try bool) (bool, error) {
	switch {
	case try && r.given&givenMaxWait != 0:
		return try, failed(event.OpAcquire, r.name, invalid("MaxWait(%s): TryLock and TryDo do not wait", r.maxWait))
	case try && r.given&givenMaxOutage != 0:
		return try, failed(event.OpAcquire, r.name, invalid("MaxOutage(%s): TryLock and TryDo do not wait", r.maxOutage))
	}
	return try || r.maxWait == 0, nil
}

// limit returns the context of a call that waits, which MaxWait and MaxOutage limit. stop frees its resources.
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

// attempt runs a round, and repeats it while it may have been split: see [engine.Repeat].
func (l *Locker) attempt(ctx context.Context, req *request) (*Lock, error) {
	c := engine.Call{Want: &req.Want, Metadata: req.metadata, Block: req.block}
	won, r, lost := l.acquire(ctx, req, &c, req.token)
	if won != nil {
		return won, nil
	}
	again := *req // because a call that repeats nothing has its request on the stack
	for repeat := l.repeat(&again); won == nil; {
		token, err := l.repeatAfter(ctx, repeat, []engine.LostRound{lost}, &c)
		switch {
		case err != nil:
			return nil, failed(event.OpAcquire, req.name, err)
		case token == "":
			return nil, l.refused(ctx, l.refusalOf(&r.Round))
		}
		before := r
		limited, stop := l.until(ctx, repeat.Ends())
		won, r, lost = l.acquire(limited, req, &c, token)
		if over := stop(); over && won == nil {
			return nil, l.refused(ctx, l.refusalOf(&before.Round))
		}
	}
	return won, nil
}

// acquire runs a round of a call with a token, or with a random one if token is "". If the round is lost, acquire
// returns it with its record.
func (l *Locker) acquire(
	ctx context.Context, req *request, c *engine.Call, token string,
) (won *Lock, r *engine.Acquire, lost engine.LostRound) {
	e := l.engine.Enter(req.key)
	r = e.AskLocked(c, token, req.call)
	e.Exit()
	outcome := r.Wait(ctx, nil)
	e.Enter()
	defer e.Exit()
	if outcome != quorum.Done {
		lost = r.LostRoundLocked()
		e.LostLocked(r, c)
		return nil, r, lost
	}
	return l.wonLocked(e, c, r, req), nil, lost
}

// logBlocked logs that a call was refused because of keys that no holder will release, so that another try does not
// help. It also logs that too few nodes answered.
func (l *Locker) logBlocked(err error) {
	var refusal *QuorumError
	if !l.events.logs(slog.LevelWarn) || !errors.As(err, &refusal) {
		return
	}
	blocked, message, outage := refusal.Name, "redlock: a key without a TTL is in the way of a lock", false
	switch {
	case refusal.prevented(nodeerr.ErrForeign, nodeerr.ErrNoExpiry):
		if errors.Is(refusal.Reason, ErrForeign) {
			message = "redlock: data of another program is in the way of a lock"
		}
	case refusal.preventedBy(isFailure):
		// "" stands for no name: no name is empty
		blocked, message, outage = "", "redlock: too few nodes grant locks", true
	default:
		return
	}
	if l.throttle.logsBlocked(blocked, l.engine.Clock.Now()) {
		l.events.logLine(slog.LevelWarn, outage, message, "name", refusal.Name, "error", refusal)
	}
}
