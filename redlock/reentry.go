package redlock

import (
	"context"
	"maps"
	"sync"
)

// contextLock is a lock that the bearer of a context holds. outer is the one that it held before.
type contextLock struct {
	held  *heldLock
	outer *contextLock
}

type contextLockKey struct{}

func withLock(ctx context.Context, h *heldLock) context.Context {
	outer, _ := ctx.Value(contextLockKey{}).(*contextLock)
	return context.WithValue(ctx, contextLockKey{}, &contextLock{h, outer})
}

// owners are the locks that were taken with [Owner].
type owners struct {
	mu        sync.Mutex
	locks     map[ownerOfName]*heldLock
	cleanUpAt int // number of locks at which those that are over are removed: nobody may ever unlock them
}

type ownerOfName struct{ owner, key string }

func (o *owners) add(h *heldLock) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.locks == nil {
		o.locks, o.cleanUpAt = map[ownerOfName]*heldLock{}, leastCleanUp
	}
	if len(o.locks) >= o.cleanUpAt {
		maps.DeleteFunc(o.locks, func(_ ownerOfName, h *heldLock) bool { return h.err() != nil })
		o.cleanUpAt = max(leastCleanUp, 2*len(o.locks))
	}
	o.locks[ownerOfName{h.req.owner, h.req.key}] = h
}

func (o *owners) remove(h *heldLock) {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := ownerOfName{h.req.owner, h.req.key}
	if o.locks[of] == h {
		delete(o.locks, of)
	}
}

func (o *owners) find(owner, key string) *heldLock {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.locks[ownerOfName{owner, key}]
}

// held returns the lock that the caller holds already, if it does: a call that waited for it would wait for itself.
func (l *Locker) held(ctx context.Context, req request) *heldLock {
	inner, _ := ctx.Value(contextLockKey{}).(*contextLock)
	for ; inner != nil; inner = inner.outer {
		if h := inner.held; h.locker == l && h.req.key == req.key && h.err() == nil {
			return h
		}
	}
	if req.owner == "" {
		return nil
	}
	h := l.owners.find(req.owner, req.key)
	if h != nil && h.err() != nil {
		l.owners.remove(h)
		return nil
	}
	return h
}

// reenter makes another handle on a lock that the caller holds. It returns no handle and no error if the lock has ended
// meanwhile.
func (h *heldLock) reenter(ctx context.Context, req request) (*Lock, error) {
	if !req.reentrant {
		return nil, failed(OpAcquire, req.name, ErrTaken, ErrDeadlock)
	}
	ttl := req.ttl
	h.mu.Lock()
	now := h.now()
	entered := h.lease.Enter(now)
	if h.watchdog != nil {
		ttl = h.watchdog.renewal.Most(now, ttl)
	}
	h.mu.Unlock()
	if !entered {
		return nil, nil
	}
	k := &Lock{held: h}
	if _, err := h.locker.checkTTL(ttl); err == nil || ttl == req.ttl { // else MaxHold leaves nothing to extend
		if err := k.Extend(ctx, ttl); err != nil {
			_ = k.Unlock(ctx) // not the last, unless the outer handle has been unlocked meanwhile
			return nil, err
		}
	}
	if req.autoExtend {
		k.renews = h.renew(req)
	}
	return k, nil
}
