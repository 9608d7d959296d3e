package redlock

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// held returns the lock that the caller holds already, and as which holder, if it does: a call that waited for it would wait for
// itself.
func (l *Locker) held(ctx context.Context, req *request) (*heldLock, *holder) {
	inner, _ := ctx.Value(contextLockKey{}).(*contextLock)
	for ; inner != nil; inner = inner.outer {
		if h := inner.holder.lock.held; h.locker == l && h.Name.Key() == req.key && h.heldBy(inner.holder) {
			return h, inner.holder
		}
	}
	if req.owner == "" {
		return nil, nil
	}
	e := l.engine.Find(req.key)
	if e == nil {
		return nil, nil
	}
	defer e.Unlock()
	for t := range e.Name.Terms {
		if h := t.To().(*heldLock); h.holder.owner == req.owner && h.AtLocked(h.Now()) == quorum.Held {
			return h, h.holder
		}
	}
	return nil, nil
}

// reenter makes another handle on a lock that the caller holds. It returns no handle and no error if there is none.
func (l *Locker) reenter(ctx context.Context, req *request) (*Lock, error) {
	h, by := l.held(ctx, req)
	switch {
	case h == nil:
		return nil, nil
	case !req.reentrant || !h.first.want.Kind.Covers(req.Kind):
		return nil, failed(event.OpAcquire, req.name, ErrDeadlock)
	case req.given&givenGrace != 0 && req.Grace > h.first.want.Grace:
		return nil, failed(event.OpAcquire, req.name, invalid("Grace(%s): the lock that is re-entered has %s", req.Grace, h.first.want.Grace))
	}
	least := max(req.TTL, 2*h.first.want.Grace)
	h.Lock()
	if h.holder != by { // it has been passed on meanwhile
		h.Unlock()
		return nil, nil
	}
	now := h.Now()
	hold, entered := h.Term.Enter(now)
	ttl := h.Term.Renewal.Most(now, least)
	h.Unlock()
	if !entered { // it has ended meanwhile
		return nil, nil
	}
	lock := &Lock{held: h, holder: by, hold: engine.Hold{Hold: hold}}
	if _, err := l.checkTTL(ttl, h.first.want.Grace); err == nil || ttl == least { // else MaxHold leaves nothing to extend
		if err := lock.Extend(ctx, ttl); err != nil {
			_ = lock.Unlock(context.WithoutCancel(ctx)) // not the last, unless the outer handle has been unlocked meanwhile
			return nil, err
		}
	}
	if req.Renewed {
		h.Lock()
		lock.hold.Renews = h.RenewLocked(&req.Want)
		h.Unlock()
	}
	return lock, nil
}
