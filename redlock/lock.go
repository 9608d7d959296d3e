package redlock

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// Lock is a handle on a lock that was acquired. It is safe for concurrent use.
type Lock struct {
	locker *Locker
	held   *engine.Held
	holder *engine.Holder
	// hold and aside are under the mutex of held.
	hold  engine.Hold
	aside *aside // nil until it is needed
}

// aside has the parts that most handles do not need.
type aside struct {
	end     LockError // the error that Err returns. It is empty until Err has found the end.
	dropped *dropped  // nil unless the log reports a handle that is dropped
}

// asideLocked returns the aside of a handle.
func (l *Lock) asideLocked() *aside {
	if l.aside == nil {
		l.aside = new(aside)
	}
	return l.aside
}

// Name returns the name of the lock, without the key prefix.
func (l *Lock) Name() string { return l.locker.nameOf(l.held.Name.Key()) }

// Token returns the token of the lock, for [Locker.Attach]. It is "" if the lock may be handed off
// ([WithLocalHandoff]): then [Lock.Detach] returns it.
func (l *Lock) Token() Token {
	if l.held.Lease.HandsOff() {
		return ""
	}
	return Token(l.held.Lease.ID().Token)
}

// Fence returns the fencing token, from 1 to below 2^53. It is higher than that of every earlier holder, if all use
// [WithFencing]. It is 0 without WithFencing, and for [Shared] and [Slots]. See package fence.
func (l *Lock) Fence() uint64 {
	l.held.Enter()
	defer l.held.Exit()
	return l.holder.Fence
}

// Remaining returns the validity. 0 means that the lock is over.
func (l *Lock) Remaining() time.Duration {
	h := l.held
	h.Enter()
	defer h.Exit()
	now := h.Now()
	if h.StandsLocked(&l.hold, now) != quorum.NotEnded {
		return 0
	}
	return h.Lease.Remaining(now)
}

// Err returns nil while the lock is held, and then always [ErrReleased], [ErrExpired] or [ErrGone], the one that came
// first, in a [*LockError]. Err asks no node: it is nil until the Locker notices a loss. If renewals had failed, the
// error has the [*QuorumError] of the last one.
func (l *Lock) Err() error {
	h := l.held
	h.Enter()
	defer h.Exit()
	ending := h.StandsLocked(&l.hold, h.Now())
	if ending == quorum.NotEnded {
		return nil
	}
	end := &l.asideLocked().end
	if end.Err == nil {
		*end = LockError{Name: l.Name(), Err: l.locker.endLocked(h, ending)}
	}
	return end
}

// ending returns how the lock ended for this handle, or quorum.NotEnded.
func (l *Lock) ending() quorum.Ending {
	ending, _ := l.held.Stands(&l.hold)
	return ending
}

// Done returns a channel that is closed when the lock is over, at the deadline even if all nodes hang. [RenewFor] says
// when an earlier loss is noticed. After the machine was suspended Done may be late; Err is right.
func (l *Lock) Done() <-chan struct{} {
	l.mean()
	return l.held.Context(&l.hold).Done()
}

// Context returns a child of parent that is cancelled when the lock is over, with Err as its cause. The CancelFunc does
// not release the lock. A call with this context is one of the holder ([Reentrant]).
func (l *Lock) Context(parent context.Context) (context.Context, context.CancelFunc) {
	l.mean()
	outer, _ := parent.Value(contextLockKey{}).(*contextLock)
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, contextLockKey{}, &contextLock{l, outer}))
	stop := context.AfterFunc(l.held.Context(&l.hold), func() { cancel(l.Err()) })
	if err := l.Err(); err != nil {
		cancel(err) // at once, because the lock was over before
	}
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// holder returns a new holder for a request.
func holder(req *request) engine.Holder {
	return engine.Holder{Want: req.Want, Owner: req.owner, Of: req.call}
}

// granted is a lock that the nodes have granted, with the handle of its first holder.
type granted struct {
	engine.Held
	handle Lock
}

// newGranted returns a new granted for the lock that a request is about to get.
func (l *Locker) newGranted(req *request) *granted {
	g := new(granted)
	g.First = holder(req)
	if !l.events.wants(groupEnds) && l.events.mayLog() {
		g.First.Since = l.events.since()
	}
	return g
}

// handleOf returns the handle of the first holder, which has just got the lock.
func (l *Locker) handleOf(g *granted, hold quorum.Hold) *Lock {
	g.handle = Lock{locker: l, held: &g.Held, holder: &g.First, hold: engine.Hold{Hold: hold}}
	return &g.handle
}

// since returns the time since the events began. It is never 0, because 0 in engine.Holder.Since means that nobody
// waits for the end.
func (e *events) since() time.Duration { return max(1, time.Since(e.began)) }

func (p program) Over(h *engine.Held, how quorum.Ending) {
	p.endedLocked(h, event.End{Err: p.endLocked(h, how)}, nil)
}

// endedLocked reports the end of the lock for the present holder. It does so once, and only after the event.Acquire of
// that holder. by is the call of Unlock that ended the lock, or nil if the lock ends now. The log has only losses.
func (l *Locker) endedLocked(h *engine.Held, e event.End, by *observedCall) {
	since := h.Holder.Since
	if since == 0 {
		return
	}
	start := l.events.began.Add(since)
	h.Holder.Since = 0
	e.Name, e.Kind, e.Start, e.Held = l.nameOf(h.Name.Key()), h.First.Want.Kind.String(), start, time.Since(start)
	if by != nil {
		e.Held = by.start.Sub(start)
	}
	if c := callOf(h.Holder.Of); c != nil {
		e.Context, e.Call = c.ctx, c.id
	}
	l.events.emit(e)
}

// contextLock is a value in a context: calls with the context are calls of the holder of lock. outer is the value that
// the parent context had, or nil.
type contextLock struct {
	lock  *Lock
	outer *contextLock
}

type contextLockKey struct{}
