package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Lock is a lock that was won, or a further handle on one ([Reentrant]). It is safe for
// concurrent use.
type Lock struct {
	hold *hold
	// All under hold.mu.
	left  bool            // Unlock has been called
	how   quorum.Ending   // how the hold of this handle ended, if left
	own   context.Context // ends with this handle's Unlock; made when somebody asks for it
	end   context.CancelFunc
	keeps bool // it is this handle that has the lock renewed
}

// Name returns the name that the lock was taken under, without the key prefix.
func (k *Lock) Name() string { return k.hold.req.name }

// Token returns the value that the nodes hold for this lock. No other lock ever has
// the same.
func (k *Lock) Token() string { return k.hold.token }

// Fence returns the lock's fencing token: higher than that of every holder before, and lower than that of every
// holder after. It is from 1 to below 2^53; 0 without [WithFencing]. What the lock protects is to refuse who comes
// with a lower one than it has seen.
func (k *Lock) Fence() uint64 { return k.hold.fence }

// ValidUntil returns the deadline after which the lock must not be relied on. It is
// earlier than the expiry on a majority of nodes by at least the allowance for drift.
// It is a time of the Locker's clock, which does not follow when the wall clock is set:
// to decide, use Remaining, Err or Done.
func (k *Lock) ValidUntil() time.Time {
	k.hold.mu.Lock()
	defer k.hold.mu.Unlock()
	return k.hold.lease.Deadline()
}

// Remaining returns the validity that is left; 0 once the lock is over for whatever
// reason.
func (k *Lock) Remaining() time.Duration {
	h := k.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	h.atLocked(now)
	if k.left {
		return 0
	}
	return h.lease.Remaining(now)
}

// Err returns nil while the lock is held, then [ErrReleased], [ErrLost] or
// [ErrExpired], whichever came first.
func (k *Lock) Err() error {
	h := k.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	ending := h.atLocked(h.now())
	if k.left {
		ending = k.how
	}
	return endingError(ending)
}

// Done returns a channel that is closed when the lock is released, lost or expired.
// It needs no answer of a node for that: at the deadline it is closed even if every
// node hangs. After a suspend of the machine it may be closed late, while Err and
// Remaining are right at once.
func (k *Lock) Done() <-chan struct{} { return k.context().Done() }

func (k *Lock) context() context.Context {
	over := k.hold.context()
	k.hold.mu.Lock()
	defer k.hold.mu.Unlock()
	if k.own == nil {
		k.own, k.end = context.WithCancel(over)
		if k.left {
			k.end()
		}
	}
	return k.own
}

// Context returns a child of parent that is cancelled when the lock is over, with
// Err as its cause. The CancelFunc frees what belongs to it; it does not release the
// lock. A call with this context takes the lock again, if it says [Reentrant].
func (k *Lock) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(withHold(parent, k.hold))
	stop := context.AfterFunc(k.context(), func() { cancel(k.Err()) })
	if err := k.Err(); err != nil {
		cancel(err) // at once, where it was over before
	}
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// Extend gives the lock a TTL of ttl from now. It succeeds only if a majority
// confirms before the deadline that stands; one that would end the lock earlier leaves
// it as it is. Extends of one lock run one after the other.
//
// A node that does not hold the lock, since it has restarted or was not to be reached, is given it
// by the way; that does not count for the majority.
//
// ttl is checked like [WithTTL]. On failure the old deadline stands, and nodes that
// took the longer TTL are given the old one back. The errors:
//   - [ErrNoQuorum] in a [*QuorumError]: too few nodes answered; while validity is left, try again;
//   - [ErrLost], likewise: so many nodes do not hold the lock any more that it is over;
//   - [ErrExpired], [ErrReleased]: it was over before;
//   - ctx.Err(): ctx ended first, joined with the ErrNoQuorum of that moment (without a QuorumError if no node was asked);
//   - [ErrClosed]: the Locker has been closed.
func (k *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	h := k.hold
	l := h.locker
	ttl, err := l.checkTTL(ttl)
	if err != nil {
		return err
	}
	if err := l.enter(); err != nil {
		return err
	}
	defer l.calls.Done()
	over := k.Done()
	turn := h.turns()
	select {
	case turn <- struct{}{}:
	case <-over:
		return k.ended()
	case <-ctx.Done():
		return k.notAsked(ctx)
	case <-l.closing.Done():
		return ErrClosed
	}
	defer func() { <-turn }()
	switch {
	case l.closing.Err() != nil:
		return ErrClosed
	case k.Err() != nil:
		return k.ended()
	case ctx.Err() != nil:
		return k.notAsked(ctx)
	}
	r := h.extend(quorum.Grant{Start: h.now(), TTL: ttl, Drift: l.drift}, nil)
	if r == nil {
		return k.ended()
	}
	select {
	case <-r.done:
	case <-over:
		r.giveUp()
	case <-ctx.Done():
		r.giveUp()
	case <-l.closing.Done():
		r.giveUp()
	}
	<-r.done
	h.sweep()
	switch {
	case r.outcome == quorum.Denied:
		return r.refusal
	case k.Err() != nil:
		return k.ended()
	case r.outcome == quorum.Done:
		return nil
	case l.closing.Err() != nil:
		return ErrClosed
	case ctx.Err() != nil:
		return interrupted(ctx, r.refusal)
	default:
		return r.refusal
	}
}

// ended is the error for an extension of a lock that is over.
func (k *Lock) ended() error { return fmt.Errorf("redlock: extend %q: %w", k.Name(), k.Err()) }

// notAsked is the error for an extension that its context ended before it began.
func (k *Lock) notAsked(ctx context.Context) error {
	return fmt.Errorf("redlock: extend %q: %w: %w: no node was asked", k.Name(), ctx.Err(), ErrNoQuorum)
}

// Unlock gives the lock back. The release goes to every node that may hold it, even
// if the context has ended, and the outcome is waited for all the same: for the node
// timeout at the longest. Of several handles on one lock ([Reentrant]) all but the last only
// give up their hold; nil then says that the lock is still held.
//
// nil: a majority held the lock until now and let go of it. The errors, in a
// [*QuorumError]:
//   - [ErrNotHeld]: it was not ours any more - expired, taken over, released before - so
//     what it protected may have overlapped with another holder's;
//   - [ErrNoQuorum]: unknown, too few nodes answered. The releases are sent again when
//     those nodes are back; the lock ends at its TTL at the latest. Calling again is fine,
//     though ErrNotHeld may then mean that the releases of the first call got through.
//
// A call beside or after another that was not ErrNoQuorum asks nobody: its error is
// ErrNotHeld and ErrReleased. Nor does one of a handle that is not the last when the
// lock is over: ErrNotHeld, and ErrLost or ErrExpired. A lock that was lost stays so, whatever the
// nodes let go of, and so does one that has expired after an extension: ErrNotHeld, and ErrLost or ErrExpired.
//
// Whatever the outcome, the lock is over for this holder. Another holder's key is
// never deleted.
func (k *Lock) Unlock(_ context.Context) error {
	h := k.hold
	h.mu.Lock()
	now := h.now()
	last, ending, err := k.leaveLocked(now)
	end, keeps := k.end, k.keeps
	h.mu.Unlock()
	if end != nil {
		end()
	}
	if keeps {
		h.locker.watchdog.drop(h)
	}
	if !last {
		return err
	}
	l, held := h.locker, ending == quorum.Held
	if held {
		l.queues.linger(h.req.key)
	}
	r := h.release(now)
	l.forget(h)
	l.queues.released(h, held)
	<-r.done
	switch {
	case r.outcome == quorum.Done && (ending == quorum.Gone || ending == quorum.Expired && h.extended()):
		// What they let go of may have been given to them again, when they had lost it.
		return fmt.Errorf("redlock: unlock %q: %w: %w", k.Name(), ErrNotHeld, endingError(ending))
	case r.outcome == quorum.Done:
		return nil
	case r.outcome == quorum.NoQuorum:
		h.mu.Lock()
		h.unlocking = false
		h.mu.Unlock()
	}
	return r.refusal
}

// leaveLocked ends the hold of this handle. last: the lock is to be released; ending is how it stood until now.
func (k *Lock) leaveLocked(now time.Time) (last bool, ending quorum.Ending, err error) {
	h := k.hold
	ending = h.atLocked(now)
	switch {
	case !k.left:
		k.left, k.how = true, ending
		if ending == quorum.Held {
			k.how = quorum.Released
		}
		if !h.lease.Leave() {
			if err := endingError(ending); err != nil {
				return false, ending, fmt.Errorf("redlock: unlock %q: %w: %w", h.req.name, ErrNotHeld, err)
			}
			return false, ending, nil
		}
	case h.lease.Holds() > 0 || h.unlocking: // else the release before had no quorum
		return false, ending, fmt.Errorf("redlock: unlock %q: %w: %w", h.req.name, ErrNotHeld, ErrReleased)
	}
	h.unlocking = true
	h.lease.End(now, quorum.Released)
	h.atLocked(now)
	return true, ending, nil
}
