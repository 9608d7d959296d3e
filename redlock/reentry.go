package redlock

import "context"

// contextLock is a lock that the bearer of a context holds. outer is the one that it held before.
type contextLock struct {
	held  *heldLock
	outer *contextLock
}

type contextLockKey struct{}

// ownedLock is the key of Locker.owners.
type ownedLock struct{ owner, key string }

// held returns the lock that the caller holds already, if it does: a call that waited for it would wait for itself.
func (l *Locker) held(ctx context.Context, req request) *heldLock {
	inner, _ := ctx.Value(contextLockKey{}).(*contextLock)
	for ; inner != nil; inner = inner.outer {
		if h := inner.held; h.locker == l && h.req.key == req.key && h.err() == nil {
			return h
		}
	}
	if req.owner != "" {
		if h, ok := l.owners.Load(ownedLock{req.owner, req.key}); ok && h.(*heldLock).err() == nil {
			return h.(*heldLock)
		}
	}
	return nil
}

// reenter makes another handle on a lock that the caller holds. It returns no handle and no error if there is none.
func (l *Locker) reenter(ctx context.Context, req request) (*Lock, error) {
	h := l.held(ctx, req)
	switch {
	case h == nil:
		return nil, nil
	case !req.reentrant:
		return nil, failed(OpAcquire, req.name, ErrTaken, ErrDeadlock)
	}
	ttl := req.ttl
	h.mu.Lock()
	now := h.now()
	entered := h.lease.Enter(now)
	if h.renewal != nil {
		ttl = h.renewal.Most(now, ttl)
	}
	h.mu.Unlock()
	if !entered { // it has ended meanwhile
		return nil, nil
	}
	k := &Lock{held: h}
	if _, err := l.checkTTL(ttl); err == nil || ttl == req.ttl { // else MaxHold leaves nothing to extend
		if err := k.Extend(ctx, ttl); err != nil {
			_ = k.Unlock(context.WithoutCancel(ctx)) // not the last, unless the outer handle has been unlocked meanwhile
			return nil, err
		}
	}
	if req.autoExtend {
		k.renews = h.renew(req)
	}
	return k, nil
}
