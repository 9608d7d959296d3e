package redlock

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// Extend gives the lock a TTL of ttl from now. It succeeds only if a majority confirms that before the current
// deadline. It never shortens the lock: if the lock lasts longer already, success leaves the deadline where it is.
// Extends of one lock run one after the other.
//
// On a node that does not hold the lock, because it has restarted or could not be reached, Extend re-creates the key.
// Such a node does not count for the majority at first, and neither does a node that did not answer the acquire in
// time. It counts when another extension has succeeded that began after the answer of the node was there.
//
// ttl is checked like that of [TTL], and must not be below twice the [Grace]. On failure the deadline stays. Nodes that
// accepted the longer TTL keep the key until the lock is over. Then it is released there. The errors:
//   - [ErrNoQuorum] in a [*QuorumError]: too few nodes answered in time. While validity is left, try again;
//   - [ErrGone] in a QuorumError: the nodes that still hold the lock are no majority, so it is over;
//   - [ErrLost], [ErrReleased]: the lock was over before, or ended during the call;
//   - ctx.Err(): ctx ended first. It is joined with the ErrNoQuorum of that moment if nodes were asked;
//   - [ErrInvalid]: ttl is out of range;
//   - [ErrClosed]: the Locker has been closed.
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
