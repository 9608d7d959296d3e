package redlock

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// Extend gives the lock a TTL of ttl from now, if a majority confirms that before the deadline. It never shortens the
// lock. The range is that of [TTL], and at least twice the [Grace].
//
// Extend sets the key again on nodes that lost it. They count again after the next extension that succeeds.
//
// On failure the deadline stays, though some nodes may keep the key until the lock is over. The errors:
//   - [ErrNoQuorum] in a [*QuorumError]: too few nodes answered. While validity is left, try again;
//   - [ErrGone]: too few nodes still hold the lock, so it is over;
//   - [ErrExpired], [ErrReleased]: the lock was over.
func (l *Lock) Extend(ctx context.Context, ttl time.Duration) (err error) {
	h, locker := l.held, l.locker
	ttl, err = locker.checkTTL(ttl, h.First.Want.Grace)
	if err == nil && !locker.engine.Begin() {
		err = ErrClosed
	}
	if err != nil {
		return failed(event.OpExtend, l.Name(), err)
	}
	defer locker.engine.End()
	call := locker.newCall(ctx)
	r := h.NewExtend(call)
	if call != nil {
		defer func() { locker.extended(h, event.Extend{Err: err}, l.holder, call, r.Before()) }()
	}
	switch {
	case l.ending() != quorum.NotEnded:
		return failed(event.OpExtend, l.Name(), locker.end(h, l.ending()))
	case ctx.Err() != nil:
		return failed(event.OpExtend, l.Name(), ended(ctx))
	}
	over := l.Done()
	h.Extend(r, ttl, &l.hold)
	outcome := r.Wait(ctx, over)
	switch {
	case outcome == quorum.Denied:
		return locker.refusalOf(&r.Round)
	case outcome == quorum.Undecided && locker.engine.Closing().Err() != nil:
		return failed(event.OpExtend, l.Name(), ErrClosed)
	case l.ending() != quorum.NotEnded:
		return failed(event.OpExtend, l.Name(), locker.end(h, l.ending()))
	case outcome == quorum.Done:
		return nil
	case outcome == quorum.Undecided:
		return failed(event.OpExtend, l.Name(), ended(ctx))
	}
	return locker.refused(ctx, locker.refusalOf(&r.Round))
}
