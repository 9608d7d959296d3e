package redlock

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// held returns the lock that the caller already holds under the key of req, and the holder that the caller is. It
// returns nil if there is none. A call that waited for a lock of its own caller would wait for itself.
func (l *Locker) held(ctx context.Context, req *request) (*engine.Held, *engine.Holder) {
	inner, _ := ctx.Value(contextLockKey{}).(*contextLock)
	for ; inner != nil; inner = inner.outer {
		if in := inner.lock; in.locker == l && in.held.Name.Key() == req.key && in.held.Has(in.holder) {
			return in.held, in.holder
		}
	}
	if req.owner == "" {
		return nil, nil
	}
	return l.engine.HeldBy(req.owner, req.key)
}

// reenter returns another handle if the caller already holds the lock. It returns no handle and no error if the caller
// does not hold it.
func (l *Locker) reenter(ctx context.Context, req *request) (*Lock, error) {
	h, by := l.held(ctx, req)
	switch {
	case h == nil:
		return nil, nil
	case !req.reentrant || !h.First.Want.Kind.Covers(req.Kind):
		return nil, failed(event.OpAcquire, req.name, ErrDeadlock)
	case req.given&givenGrace != 0 && req.Grace > h.First.Want.Grace:
		return nil, failed(event.OpAcquire, req.name,
			invalid("Grace(%s): the lock that is re-entered has %s", req.Grace, h.First.Want.Grace))
	}
	least := max(req.TTL, 2*h.First.Want.Grace)
	h.Enter()
	if h.Holder != by { // it has been handed off meanwhile
		h.Exit()
		return nil, nil
	}
	now := h.Now()
	hold, entered := h.Lease.Enter(now)
	ttl := h.Lease.Renewal.Most(now, least)
	h.Exit()
	if !entered { // it has ended meanwhile
		return nil, nil
	}
	lock := &Lock{locker: l, held: h, holder: by, hold: engine.Hold{Hold: hold}}
	// If RenewFor leaves nothing to extend, the lock stays as it is.
	if _, err := l.checkTTL(ttl, h.First.Want.Grace); err == nil || ttl == least {
		if err := lock.Extend(ctx, ttl); err != nil {
			// Usually the outer handle still holds the lock, so Unlock only ends this hold and asks no node. If the outer handle
			// was unlocked meanwhile, Unlock releases the lock or hands it off.
			_ = lock.Unlock(ctx)
			return nil, err
		}
	}
	if req.Renewed {
		h.Enter()
		lock.hold.Renews = h.RenewLocked(&req.Want)
		h.Exit()
	}
	return lock, nil
}
