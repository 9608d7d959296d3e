package redlock

import (
	"context"
	"log/slog"
	"time"

	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// Lock is a handle on a lock that was acquired. [Reentrant] makes further handles on the same lock. It is safe for
// concurrent use.
type Lock struct {
	held   *heldLock
	holder *holder
	// All under held.mu.
	hold   quorum.Hold
	own    *own       // made when somebody asks for it
	inTime bool       // its hold was ended while nobody else could have the lock
	renews bool       // it is this handle that has the lock renewed
	err    *LockError // what Err returns; nil while nobody has asked for the end
}

// own ends with the Unlock of a handle, and with the lock.
type own struct {
	context.Context
	end context.CancelFunc
}

// Name returns the name that the lock was taken under, without the key prefix.
func (l *Lock) Name() string { return l.held.called() }

// Token returns the token of this lock. No other lock has the same, unless a [TokenSource] repeats one. The nodes hold it under the
// lock's key: the token alone, or with [WithFencing] token|number. It is not the fencing token, which is the number: see Fence.
//
// A lock of which the token was asked for is released at its Unlock, and not passed on ([WithLocalHandoff]). Of a lock that was
// passed on, Token returns "" to the holders before.
func (l *Lock) Token() string {
	h := l.held
	h.mu.Lock()
	defer h.mu.Unlock()
	if !l.hold.Current() {
		return ""
	}
	h.term.Know()
	l.holder.fence = h.term.Fence()
	return h.term.Mark().Token
}

// Fence returns the lock's fencing token, a number from 1 to below 2^53 that is higher than that of every earlier holder
// and lower than that of every later one, if all of them use [WithFencing]. It is 0 without. The protected resource must reject a
// fencing token that is lower than the highest it has accepted, see package redlock/fence.
//
// With [WithLocalHandoff] Token may raise the number: call Token first, then Fence.
func (l *Lock) Fence() uint64 {
	l.held.mu.Lock()
	defer l.held.mu.Unlock()
	return l.holder.fence
}

// Remaining returns the validity, the time until the deadline. 0 means that the lock is over.
func (l *Lock) Remaining() time.Duration {
	h := l.held
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	if l.endingLocked(now) != quorum.Held {
		return 0
	}
	return h.term.Remaining(now)
}

// Err returns nil while the lock is held, then [ErrReleased], [ErrLost] or [ErrExpired], whichever came first, in a [*LockError]
// with the lock's name. Later calls return the same error. Err asks no node: after a loss that has not been noticed it is nil.
func (l *Lock) Err() error {
	h := l.held
	h.mu.Lock()
	defer h.mu.Unlock()
	switch ending := l.endingLocked(h.now()); {
	case ending == quorum.Held:
		return nil
	case l.err == nil:
		l.err = &LockError{Name: h.called(), Err: endings[ending]}
	}
	return l.err
}

// ending returns how the lock stands for this handle.
func (l *Lock) ending() quorum.Ending {
	l.held.mu.Lock()
	defer l.held.mu.Unlock()
	return l.endingLocked(l.held.now())
}

// exclusive returns how the lock stands for this handle, and whether nobody else can have it, or could when the handle was unlocked.
func (l *Lock) exclusive() (quorum.Ending, bool) {
	h := l.held
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	if l.hold.Ended() {
		return l.endingLocked(now), l.inTime
	}
	return l.endingLocked(now), h.term.Exclusive(now)
}

// endingLocked is ending for a caller who has the mutex.
func (l *Lock) endingLocked(now time.Time) quorum.Ending {
	l.held.atLocked(now)
	return l.hold.At(now)
}

// Done returns a channel that is closed when the lock is released, lost or expired. At the deadline it is closed even if
// every node hangs. If the nodes lose the lock before, it is closed when they announce that ([AutoExtend]), or by the next
// renewal or Extend. After the machine was suspended Done may be closed late, but Err and Remaining are right at once.
func (l *Lock) Done() <-chan struct{} { return l.context().Done() }

func (l *Lock) context() context.Context {
	over := l.held.context()
	l.held.mu.Lock()
	defer l.held.mu.Unlock()
	if l.own == nil {
		l.own = &own{}
		l.own.Context, l.own.end = context.WithCancel(over)
		if l.hold.Ended() {
			l.own.end()
		}
	}
	return l.own.Context
}

// Context returns a child of parent that is cancelled when Done is closed, with Err as its cause. The CancelFunc frees
// the resources of the context; it does not release the lock. A call with this context may take the lock again
// ([Reentrant]).
func (l *Lock) Context(parent context.Context) (context.Context, context.CancelFunc) {
	outer, _ := parent.Value(contextLockKey{}).(*contextLock)
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, contextLockKey{}, &contextLock{l.held, l.holder, outer}))
	stop := context.AfterFunc(l.context(), func() { cancel(l.Err()) })
	if err := l.Err(); err != nil {
		cancel(err) // at once, if it was over before
	}
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// Extend gives the lock a TTL of ttl from now. It succeeds only if a majority confirms that before the current deadline. It never
// shortens the lock: if the lock lasts longer already, success leaves the deadline where it is. Extends of one lock run one after
// the other.
//
// On a node that does not hold the lock, because it has restarted or could not be reached, Extend re-creates the key.
// Such a node, and one that did not answer the acquire in time, does not count for the majority until another extension has
// succeeded that began when its answer was there.
//
// ttl is checked like that of [TTL], and must not be below twice the [Grace]. On failure the deadline stays. Nodes that took the
// longer TTL keep the key until the lock is over; it is released there then. The errors:
//   - [ErrNoQuorum] in a [*QuorumError]: too few nodes answered; while validity is left, try again;
//   - [ErrLost] in a QuorumError: the nodes that still hold the lock are no majority, so it is over;
//   - [ErrLost], [ErrExpired], [ErrReleased]: it was over before;
//   - ctx.Err(): ctx ended first; joined with the ErrNoQuorum of that moment if nodes were asked;
//   - [ErrInvalid]: ttl is out of range;
//   - [ErrClosed]: the Locker has been closed.
func (l *Lock) Extend(ctx context.Context, ttl time.Duration) (err error) {
	h := l.held
	locker := h.locker
	ttl, err = locker.checkTTL(ttl, h.first.want.Grace)
	if err == nil {
		err = locker.enter()
	}
	if err != nil {
		return failed(event.OpExtend, l.Name(), err)
	}
	defer locker.calls.Done()
	call := locker.newCall(ctx)
	r := h.newExtend(call)
	if call != nil {
		defer func() { h.extended(event.Extend{Err: err}, l.holder, call, r.extend.Before) }()
	}
	switch {
	case l.ending() != quorum.Held:
		return failed(event.OpExtend, l.Name(), endings[l.ending()])
	case ctx.Err() != nil:
		return failed(event.OpExtend, l.Name(), ended(ctx))
	}
	over := l.Done()
	var room [usualNodes]lock.Act
	h.mu.Lock()
	h.doLocked(h.term.Extend(room[:0], &r.extend, ttl, &l.hold, &r.round))
	h.unlock()
	outcome := r.wait(ctx, over, locker.closing.Done())
	switch {
	case outcome == quorum.Denied:
		return r.refusal
	case outcome == quorum.Undecided && locker.closing.Err() != nil:
		return failed(event.OpExtend, l.Name(), ErrClosed)
	case l.ending() != quorum.Held:
		return failed(event.OpExtend, l.Name(), endings[l.ending()])
	case outcome == quorum.Done:
		return nil
	case outcome == quorum.Undecided:
		return failed(event.OpExtend, l.Name(), ended(ctx))
	}
	return locker.refused(ctx, r.refusal)
}

// Unlock releases the lock. It sends the release to every node that may hold the lock, even if ctx has ended, and
// waits for the outcome, until ctx ends and for the node timeout at most. The end of ctx only ends the wait: what was sent goes
// on. So a deferred Unlock may have a context that has ended, if its result does not matter; otherwise pass
// [context.WithoutCancel] of it. A ctx of Lock.Context ends with the Unlock; that end does not stop the wait.
//
// If there are several handles on the lock ([Reentrant]), all but the last only end their own hold. With [WithLocalHandoff] the lock
// may go to a waiter of this Locker instead: no node is asked then, and nil means that the lock had validity left.
//
//	result                     means
//	nil                        a majority held the lock until now and has deleted it; or another handle still holds it
//	ErrNotHeld                 the lock was no longer ours: the protected work may have overlapped with another holder's
//	ErrExpired                 as above: it had expired
//	ErrLost                    as above: the nodes no longer held it
//	ErrReleased                this handle has been unlocked before, or another call is doing so; no node was asked
//	ErrNoQuorum                unknown, because too few nodes answered
//	ErrNoQuorum and ctx.Err()  unknown, because ctx ended first
//
// nil is possible when Err is ErrExpired already: the nodes keep the key for a little longer than the deadline, and with [Grace] for
// that much more.
//
// ErrExpired, ErrLost and ErrReleased match [ErrNotHeld] too: compare with ErrReleased first, as it is no loss. ErrNotHeld alone and
// [ErrNoQuorum] come in a [*QuorumError]. After ErrNoQuorum the releases are sent again when those nodes are back, and the key ends
// at its TTL at the latest. Unlock may be called again then, although ErrNotHeld may now mean that the releases of the first call got
// through.
//
// Whatever the result, the lock is over for this handle. Another holder's key is never deleted.
func (l *Lock) Unlock(ctx context.Context) (err error) {
	h := l.held
	locker := h.locker
	call, passed := locker.newCall(ctx), false
	if call != nil {
		defer func() { l.unlocked(event.Unlock{Handoff: passed, Err: err}, call) }()
	}
	h.mu.Lock()
	h.lingerLocked()
	if passed = h.passLocked(l, call); passed {
		h.unlock()
		return nil
	}
	now := h.now()
	ending, exclusive := h.atLocked(now), h.term.Exclusive(now)
	last, err := l.leaveLocked(now, ending, exclusive)
	inTime := l.inTime // also if this is not the first call
	var r *round
	if last {
		r = h.releaseLocked(now, exclusive, call)
	}
	h.unlock()
	if ending == quorum.Expired && exclusive && locker.events.logs(slog.LevelInfo) {
		locker.events.logLine(slog.LevelInfo, "redlock: a lock was not renewed in time, and is released within its grace", "name", l.Name())
	}
	if !last {
		return err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if says(context.Cause(ctx), l.Name(), ErrNotHeld) {
			<-r.done // it is the lock's own context, which has ended with the lock
		}
	}
	switch outcome, refusal := r.soFar(); {
	case outcome == quorum.Denied && !inTime && ending != quorum.Released:
		return failed(event.OpUnlock, l.Name(), endings[ending])
	case outcome == quorum.Done:
		return nil
	case outcome == quorum.NoQuorum:
		h.mu.Lock()
		h.term.Unsure()
		h.mu.Unlock()
		return givenUp(ctx, refusal)
	default:
		return refusal
	}
}

// leaveLocked ends the hold of this handle on a lock that stands as ending says. last means that the lock is to be released.
func (l *Lock) leaveLocked(now time.Time, ending quorum.Ending, exclusive bool) (last bool, err error) {
	h, before := l.held, l.hold.Ended()
	left := h.term.Leave(now, &l.hold)
	if !before {
		l.leftLocked(exclusive)
	}
	switch {
	case left == lock.Nothing:
		return false, failed(event.OpUnlock, h.called(), ErrReleased)
	case left == lock.None, l.renews && !before:
		h.stopRenewingLocked()
	}
	if left == lock.Others && !exclusive {
		err = failed(event.OpUnlock, h.called(), endings[ending])
	}
	h.atLocked(now)
	return left == lock.None, err
}

// leftLocked ends the context of this handle, the hold of which has ended.
func (l *Lock) leftLocked(inTime bool) {
	l.inTime = inTime
	if l.own != nil {
		l.own.end()
	}
}
