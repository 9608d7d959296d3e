package redlock

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Lock is a handle on a lock that was acquired. [Reentrant] makes further handles on the same lock. It is safe for
// concurrent use.
type Lock struct {
	held   *heldLock
	holder *holder
	// All under held.mu.
	hold   quorum.Hold
	own    context.Context // ends with this handle's Unlock; made when somebody asks for it
	end    context.CancelFunc
	renews bool  // it is this handle that has the lock renewed
	err    error // what Err returns; nil while nobody has asked for the end
}

// Name returns the name that the lock was taken under, without the key prefix.
func (k *Lock) Name() string { return k.held.first.req.name }

// Token returns the token of this lock. No other lock ever has the same. The nodes hold it under the lock's key: the token
// alone, or with [WithFencing] token|number. It is not the fencing token, which is the number: see Fence.
//
// A lock of which the token was asked for is released at its Unlock, and not passed on ([WithLocalHandoff]). Of a lock that was
// passed on, Token returns "" to the holders before.
func (k *Lock) Token() string {
	h := k.held
	h.mu.Lock()
	defer h.mu.Unlock()
	if !k.hold.Current() {
		return ""
	}
	h.handoff.Know()
	k.holder.fence = h.handoff.Fence()
	return h.token
}

// Fence returns the lock's fencing token, a number from 1 to below 2^53 that is higher than that of every earlier holder
// and lower than that of every later one. It is 0 without [WithFencing]. The protected resource must reject a fencing
// token that is lower than the highest it has accepted, see package redlock/fence.
//
// With [WithLocalHandoff] ask for the Token, if you need it, before Fence: the number is that which the nodes hold with the token
// from then on, and may have been lower before.
func (k *Lock) Fence() uint64 {
	k.held.mu.Lock()
	defer k.held.mu.Unlock()
	return k.holder.fence
}

// ValidUntil returns the deadline from which the lock must not be relied on. It is earlier than the expiry on a majority
// of nodes by at least the allowance for drift. It is a time of the Locker's clock, which does not change when the
// wall clock is set: to decide, use Remaining, Err or Done.
func (k *Lock) ValidUntil() time.Time {
	k.held.mu.Lock()
	defer k.held.mu.Unlock()
	return k.held.lease.Deadline()
}

// Remaining returns the validity that is left. 0 means that the lock is over.
func (k *Lock) Remaining() time.Duration {
	h := k.held
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	if k.endingLocked(now) != quorum.Held {
		return 0
	}
	return h.lease.Remaining(now)
}

// Err returns nil while the lock is held, then [ErrReleased], [ErrLost] or [ErrExpired], whichever came first, in a [*LockError]
// with the lock's name. Later calls return the same error.
func (k *Lock) Err() error {
	h := k.held
	h.mu.Lock()
	defer h.mu.Unlock()
	if ending := k.endingLocked(h.now()); k.err == nil && ending != quorum.Held {
		k.err = failed("", h.first.req.name, endings[ending])
	}
	return k.err
}

// ending returns how the lock stands for this handle.
func (k *Lock) ending() quorum.Ending {
	k.held.mu.Lock()
	defer k.held.mu.Unlock()
	return k.endingLocked(k.held.now())
}

// endingLocked is ending for a caller who has the mutex.
func (k *Lock) endingLocked(now time.Time) quorum.Ending {
	k.held.atLocked(now)
	return k.hold.At(now)
}

// Done returns a channel that is closed when the lock is released, lost or expired. At the deadline it is closed even if
// every node hangs. If the nodes lose the lock before, it is closed when they announce that ([AutoExtend]), or by the next
// renewal or Extend. After the machine was suspended Done may be closed late, but Err and Remaining are right at once.
func (k *Lock) Done() <-chan struct{} { return k.context().Done() }

func (k *Lock) context() context.Context {
	over := k.held.context()
	k.held.mu.Lock()
	defer k.held.mu.Unlock()
	if k.own == nil {
		k.own, k.end = context.WithCancel(over)
		if k.hold.Ended() {
			k.end()
		}
	}
	return k.own
}

// Context returns a child of parent that is cancelled when Done is closed, with Err as its cause. The CancelFunc frees
// the resources of the context; it does not release the lock. A call with this context may take the lock again
// ([Reentrant]).
func (k *Lock) Context(parent context.Context) (context.Context, context.CancelFunc) {
	outer, _ := parent.Value(contextLockKey{}).(*contextLock)
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, contextLockKey{}, &contextLock{k.held, k.holder, outer}))
	stop := context.AfterFunc(k.context(), func() { cancel(k.Err()) })
	if err := k.Err(); err != nil {
		cancel(err) // at once, if it was over before
	}
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// Extend gives the lock a TTL of ttl from now. It succeeds only if a majority confirms that before the current deadline. If
// the lock lasts longer already, Extend returns nil and the deadline stays. Extends of one lock run one after the other.
//
// On a node that does not hold the lock, because it has restarted or could not be reached, Extend re-creates the key.
// Such a node, and one that did not answer the acquire in time, does not count for the majority until another extension has
// succeeded that began when its answer was there.
//
// ttl is checked like [WithTTL]. On failure the deadline stays. Nodes that took the longer TTL keep the key until the lock
// is over; it is released there then. The errors:
//   - [ErrNoQuorum] in a [*QuorumError]: too few nodes answered; while validity is left, try again;
//   - [ErrLost] in a QuorumError: the nodes that still hold the lock are no majority, so it is over;
//   - [ErrExpired], [ErrReleased]: it was over before;
//   - ctx.Err(): ctx ended first; joined with the ErrNoQuorum of that moment if nodes were asked;
//   - [ErrInvalid]: ttl is out of range;
//   - [ErrClosed]: the Locker has been closed.
func (k *Lock) Extend(ctx context.Context, ttl time.Duration) (err error) {
	h := k.held
	l := h.locker
	ttl, err = l.checkTTL(ttl)
	if err == nil {
		err = l.enter()
	}
	if err != nil {
		return failed(OpExtend, k.Name(), err)
	}
	defer l.calls.Done()
	call := l.newCall(ctx)
	var deadline time.Time // before the extension; zero while none has begun
	if call != nil {
		defer func() { h.extended(ExtendEvent{Err: err}, k.holder, call, deadline) }()
	}
	over := k.Done()
	if h.begin(ctx, over) {
		defer h.finish()
	}
	switch {
	case l.closing.Err() != nil:
		return failed(OpExtend, k.Name(), ErrClosed)
	case k.ending() != quorum.Held:
		return failed(OpExtend, k.Name(), endings[k.ending()])
	case ctx.Err() != nil:
		return failed(OpExtend, k.Name(), ended(ctx))
	}
	if call != nil {
		deadline = k.ValidUntil()
	}
	r := h.extend(ctx, k, over, ttl, call)
	h.cleanUp()
	switch {
	case r != nil && r.outcome == quorum.Denied:
		return r.refusal
	case k.ending() != quorum.Held:
		return failed(OpExtend, k.Name(), endings[k.ending()])
	case r.outcome == quorum.Done:
		return nil
	}
	return l.refused(ctx, r.refusal)
}

// Unlock releases the lock. It sends the release to every node that may hold the lock, even if ctx has ended, and
// waits for the outcome, until ctx ends and for the node timeout at most. The end of ctx only ends the wait: what was sent goes
// on. So a deferred Unlock may have a context that has ended, if its result does not matter; otherwise pass
// [context.WithoutCancel] of it. If there are
// several handles on the lock ([Reentrant]), all but the last only end their own hold. With [WithLocalHandoff] the lock may go to a
// waiter of this Locker instead: no node is asked then, and nil means that the lock had validity left.
//
//	result                     means
//	nil                        a majority held the lock until now and has deleted it; or another handle still holds it
//	ErrNotHeld                 the lock was no longer ours: the protected work may have overlapped with another holder's
//	ErrExpired                 as above: it had expired
//	ErrLost                    as above: the nodes no longer held it
//	ErrReleased                this handle has been unlocked before, or another call is doing so; no node was asked
//	ErrNoQuorum                unknown, because too few nodes answered
//	ErrNoQuorum and ctx.Err()  unknown, because ctx ended first (not by this Unlock, if it is one of Lock.Context)
//
// ErrExpired, ErrLost and ErrReleased match [ErrNotHeld] too: compare with ErrReleased first, as it is no loss. ErrNotHeld alone and
// [ErrNoQuorum] come in a [*QuorumError]. After ErrNoQuorum the releases are sent again
// when those nodes are back, and the lock ends at its TTL at the latest. Unlock may be called again then,
// although ErrNotHeld may now mean that the releases of the first call got through.
//
// Whatever the result, the lock is over for this handle. Another holder's key is never deleted.
func (k *Lock) Unlock(ctx context.Context) (err error) {
	h := k.held
	l := h.locker
	call, passed := l.newCall(ctx), false
	if call != nil {
		defer func() { k.unlocked(UnlockEvent{Handoff: passed, Err: err}, call) }()
	}
	l.queues.linger(h.key)
	if passed = l.pace.Handoff > 0 && l.queues.pass(k, call); passed {
		return nil
	}
	h.mu.Lock()
	now := h.now()
	ending := h.atLocked(now)
	last, err := k.leaveLocked(now, ending)
	h.mu.Unlock()
	if !last {
		return err
	}
	held := ending == quorum.Held
	r := h.release(now, call)
	l.queues.released(h, held)
	select {
	case <-r.done:
	case <-ctx.Done():
		if says(context.Cause(ctx), k.Name(), ErrNotHeld) {
			<-r.done // it is the lock's own context, which has ended with the lock
		}
	}
	switch outcome, refusal := r.soFar(); {
	case outcome == quorum.Denied && (ending == quorum.Lost || ending == quorum.Expired):
		return failed(OpUnlock, k.Name(), endings[ending])
	case outcome == quorum.Done:
		return nil
	case outcome == quorum.NoQuorum:
		h.mu.Lock()
		h.unlocking = false
		h.mu.Unlock()
		return givenUp(ctx, refusal)
	default:
		return refusal
	}
}

// leaveLocked ends the hold of this handle on a lock that stands as ending says. last means that the lock is to be released.
func (k *Lock) leaveLocked(now time.Time, ending quorum.Ending) (last bool, err error) {
	h := k.held
	switch {
	case !k.hold.Ended():
		last = k.endLocked(now)
		if k.renews {
			h.stopRenewingLocked()
		}
		if last {
			break
		}
		if ending != quorum.Held {
			err = failed(OpUnlock, h.first.req.name, endings[ending])
		}
		return false, err
	case !k.hold.Current() || h.lease.Holds() > 0 || h.unlocking: // otherwise the release before had no quorum
		return false, failed(OpUnlock, h.first.req.name, ErrReleased)
	}
	h.unlocking = true
	h.lease.End(now, quorum.Released)
	h.stopRenewingLocked()
	h.atLocked(now)
	return true, nil
}

// endLocked ends the hold of this handle, and its context. It returns true for the last of its holder.
func (k *Lock) endLocked(now time.Time) (last bool) {
	last = k.hold.Leave(now)
	if k.end != nil {
		k.end()
	}
	return last
}
