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

// TryLock takes the lock of a name if it is free, and never waits for a holder. It takes the node timeout at most, or
// twice that with [WithFencing]. Of callers that try at one instant one gets the lock, all but certainly. ctx does not
// end the lock.
//
// A name has 1 to 512 bytes and no control characters. With the prefix it is a Redis key, which must not hold data. A
// name that makes a key such as {name}:fence is [ErrInvalid].
//
// The errors, with each node's reason in a [*QuorumError]:
//   - [ErrTaken]: others hold the lock; with [nodeerr.ErrNoExpiry], perhaps for ever;
//   - [ErrForeign]: data of another program is in the way;
//   - [ErrNoQuorum]: too few nodes answered;
//   - [ErrDeadlock]: the caller holds the lock;
//   - the errors of [Reentrant] and [TokenSource].
//
// After an error keys are released in the background: call Close before the program exits.
func (l *Locker) TryLock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return l.take(ctx, name, opts, true)
}

// Lock waits until it holds the lock of a name. A holder, or a majority that does not answer, is no error. [MaxWait],
// [MaxOutage] and ctx end the wait. ctx does not end the lock.
//
// Calls of one Locker get the lock in the order in which they came. Processes take turns, without a guaranteed order. A
// waiter wakes at the release, or polls where servers announce no changes ([WithBackoff]).
//
// Lock returns the errors of [Locker.TryLock], and:
//   - [ErrTaken] or [ErrNoQuorum], the last reason, after MaxWait; joined with ctx.Err() if ctx ended;
//   - [ErrNoQuorum], at once, if nodes were closed. Until a majority has answered once, also at once for error replies
//     such as NOAUTH, and after 10 s for faults such as TLS
//     (https://github.com/quorumlock/quorumlock/blob/main/docs/failures.md).
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
		return nil, err
	}
	return l.watched(lock, &req), nil
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
	if l.throttle.logs(blocked, l.engine.Clock.Now()) {
		l.events.logLine(slog.LevelWarn, outage, message, "name", refusal.Name, "error", refusal)
	}
}
