package redlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool"
)

// Lock is a lock that was won. It is safe for concurrent use.
type Lock struct {
	round *round // the acquire

	mu        sync.Mutex // also that of the rounds that extend
	lease     *quorum.Lease
	turn      chan struct{} // held by the Extend that is under way; made by the first
	unlocking bool          // an Unlock is under way, or done
	// over ends with the lease. It and the timer for the deadline are made when
	// somebody asks for them.
	over  context.Context
	end   context.CancelFunc
	timer clock.Timer
}

func newLock(r *round) *Lock { return &Lock{round: r, lease: r.acquire.Lease()} }

// Name returns the name that the lock was taken under, without the key prefix.
func (k *Lock) Name() string { return k.round.req.name }

// Token returns the value that the nodes hold for this lock. No other lock ever has
// the same.
func (k *Lock) Token() string { return k.round.token }

// ValidUntil returns the deadline after which the lock must not be relied on. It is
// earlier than the expiry on a majority of nodes by at least the allowance for drift.
// It is a time of the Locker's clock, which does not follow when the wall clock is set:
// to decide, use Remaining, Err or Done.
func (k *Lock) ValidUntil() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lease.Deadline()
}

// Remaining returns the validity that is left; 0 once the lock is over for whatever
// reason.
func (k *Lock) Remaining() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	k.atLocked(now)
	return k.lease.Remaining(now)
}

// Err returns nil while the lock is held, then [ErrReleased], [ErrLost] or
// [ErrExpired], whichever came first.
func (k *Lock) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return endingError(k.atLocked(k.now()))
}

// Done returns a channel that is closed when the lock is released, lost or expired.
// It needs no answer of a node for that: at the deadline it is closed even if every
// node hangs. After a suspend of the machine it may be closed late, while Err and
// Remaining are right at once.
func (k *Lock) Done() <-chan struct{} { return k.context().Done() }

// Context returns a child of parent that is cancelled when the lock is over, with
// Err as its cause. The CancelFunc frees what belongs to it; it does not release the
// lock.
func (k *Lock) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	stop := context.AfterFunc(k.context(), func() { cancel(k.Err()) })
	if err := k.Err(); err != nil {
		cancel(err) // at once, where it was over before
	}
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// context returns over.
func (k *Lock) context() context.Context {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over == nil {
		k.over, k.end = context.WithCancel(context.Background())
		now := k.now()
		k.timer = k.round.locker.clock.AfterFunc(k.lease.Remaining(now), k.tick)
		k.atLocked(now)
	}
	return k.over
}

// Extend gives the lock a TTL of ttl from now. It succeeds only if a majority
// confirms before the deadline that stands; one that would end the lock earlier leaves
// it as it is. Extends of one lock run one after the other.
//
// ttl is checked like [WithTTL]. On failure the old deadline stands, and nodes that
// took the longer TTL are given the old one back. The errors:
//   - [ErrNoQuorum] in a [*QuorumError]: too few nodes answered; while validity is left, try again;
//   - [ErrLost], likewise: so many nodes do not hold the lock any more that it is over;
//   - [ErrExpired], [ErrReleased]: it was over before;
//   - ctx.Err(): ctx ended first, joined with the ErrNoQuorum of that moment;
//   - [ErrClosed]: the Locker has been closed.
func (k *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	l := k.round.locker
	ttl, err := l.checkTTL(ttl)
	if err != nil {
		return err
	}
	if err := l.enter(); err != nil {
		return err
	}
	defer l.calls.Done()
	over := k.context().Done()
	turn := k.turns()
	select {
	case turn <- struct{}{}:
	case <-over:
		return k.ended()
	case <-ctx.Done():
		return fmt.Errorf("redlock: extend %q: %w", k.Name(), ctx.Err())
	case <-l.closing.Done():
		return ErrClosed
	}
	defer func() { <-turn }()
	if l.closing.Err() != nil {
		return ErrClosed
	}

	k.mu.Lock()
	now := k.now()
	if k.atLocked(now) != quorum.Held {
		k.mu.Unlock()
		return k.ended()
	}
	if err := ctx.Err(); err != nil {
		k.mu.Unlock()
		return fmt.Errorf("redlock: extend %q: %w", k.Name(), err)
	}
	grant := quorum.Grant{Start: now, TTL: ttl, Drift: l.drift}
	machine := quorum.NewExtend(k.lease, grant, k.reached)
	k.mu.Unlock()

	r := newRound(l, opExtend, k.round.req, k.Token(), grant, machine, pool.Extend(k.round.req.key, k.Token(), ttl))
	r.mu, r.extend, r.lock = &k.mu, machine, k
	r.ask()
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
	k.sweep()
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

// turns returns turn.
func (k *Lock) turns() chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.turn == nil {
		k.turn = make(chan struct{}, 1)
	}
	return k.turn
}

// Unlock gives the lock back. The release goes to every node that may hold it, even
// if the context has ended, and the outcome is waited for all the same: for the node
// timeout at the longest.
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
// ErrNotHeld and ErrReleased.
//
// Whatever the outcome, the lock is over for this holder. Another holder's key is
// never deleted.
func (k *Lock) Unlock(_ context.Context) error {
	k.mu.Lock()
	if k.unlocking {
		k.mu.Unlock()
		return fmt.Errorf("redlock: unlock %q: %w: %w", k.Name(), ErrNotHeld, ErrReleased)
	}
	k.unlocking = true
	now := k.now()
	k.lease.End(now, quorum.Released)
	k.atLocked(now)
	owed := k.lease.Longest()
	k.mu.Unlock()

	l := k.round.locker
	r := newRound(l, opUnlock, k.round.req, k.Token(), quorum.Grant{Start: now},
		quorum.NewRelease(len(l.nodes), k.reached), pool.Release(k.round.req.key, k.Token(), owed))
	r.ask()
	<-r.done
	if r.outcome == quorum.Done {
		return nil
	}
	if r.outcome == quorum.NoQuorum {
		k.mu.Lock()
		k.unlocking = false
		k.mu.Unlock()
	}
	return r.refusal
}

// sweep sends the release to wherever a lock that is over may still be, and waits
// for nobody.
func (k *Lock) sweep() {
	k.mu.Lock()
	left, owed := k.lease.Leftovers(), k.lease.Longest()
	k.mu.Unlock()
	if !left {
		return
	}
	release, since := pool.Release(k.round.req.key, k.Token(), owed), time.Now()
	for i, node := range k.round.locker.nodes {
		if k.reached(i) {
			node.Send(since, release, nil, i)
		}
	}
}

// reached says whether node i may hold the lock.
func (k *Lock) reached(i int) bool {
	k.round.mu.Lock()
	defer k.round.mu.Unlock()
	return k.round.acquire.Reached(i)
}

func (k *Lock) now() time.Time { return k.round.locker.clock.Now() }

// ended is the error for a call on a lock that is over.
func (k *Lock) ended() error {
	return fmt.Errorf("redlock: extend %q: %w", k.Name(), k.Err())
}

// tick runs at what was the deadline when the timer was set.
func (k *Lock) tick() {
	k.mu.Lock()
	now := k.now()
	if k.atLocked(now) == quorum.Held { // extended meanwhile
		k.timer.Reset(k.lease.Remaining(now))
	}
	k.mu.Unlock()
	k.sweep()
}

// atLocked returns how the lease stands, and ends over with it. The timer goes on
// where the deadline ended it: tick still has to sweep.
func (k *Lock) atLocked(now time.Time) quorum.Ending {
	ending := k.lease.At(now)
	if ending != quorum.Held && k.over != nil {
		if ending != quorum.Expired {
			k.timer.Stop()
		}
		k.end()
	}
	return ending
}
