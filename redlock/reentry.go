package redlock

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// contextLock is a lock that the bearer of a context has got as its holder. outer is the one that it held before.
type contextLock struct {
	held   *heldLock
	holder *holder
	outer  *contextLock
}

type contextLockKey struct{}

// held returns the lock that the caller holds already, and as which holder, if it does: a call that waited for it would wait for
// itself.
func (l *Locker) held(ctx context.Context, req request) (*heldLock, *holder) {
	inner, _ := ctx.Value(contextLockKey{}).(*contextLock)
	for ; inner != nil; inner = inner.outer {
		if h := inner.held; h.locker == l && h.name.Key() == req.key && h.heldBy(inner.holder) {
			return h, inner.holder
		}
	}
	if req.owner == "" {
		return nil, nil
	}
	e := l.names.find(req.key)
	if e == nil {
		return nil, nil
	}
	defer e.mu.Unlock()
	for t := range e.name.Terms {
		if h := t.To().(*heldLock); h.holder.owner == req.owner && h.atLocked(h.now()) == quorum.Held {
			return h, h.holder
		}
	}
	return nil, nil
}

// heldBy reports whether a holder has the lock still.
func (h *heldLock) heldBy(by *holder) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.holder == by && h.atLocked(h.now()) == quorum.Held
}

// reenter makes another handle on a lock that the caller holds. It returns no handle and no error if there is none.
func (l *Locker) reenter(ctx context.Context, req request) (*Lock, error) {
	h, by := l.held(ctx, req)
	switch {
	case h == nil:
		return nil, nil
	case !req.reentrant:
		return nil, failed(event.OpAcquire, req.name, ErrDeadlock)
	case req.given&givenGrace != 0 && req.Grace > h.first.want.Grace:
		return nil, failed(event.OpAcquire, req.name, invalid("Grace(%s): the lock that is re-entered has %s", req.Grace, h.first.want.Grace))
	}
	least := max(req.TTL, 2*h.first.want.Grace)
	h.mu.Lock()
	if h.holder != by { // it has been passed on meanwhile
		h.mu.Unlock()
		return nil, nil
	}
	now := h.now()
	hold, entered := h.term.Enter(now)
	ttl := least
	if h.term.Renewal != nil {
		ttl = h.term.Renewal.Most(now, ttl)
	}
	h.mu.Unlock()
	if !entered { // it has ended meanwhile
		return nil, nil
	}
	lock := &Lock{held: h, holder: by, hold: hold}
	if _, err := l.checkTTL(ttl, h.first.want.Grace); err == nil || ttl == least { // else MaxHold leaves nothing to extend
		if err := lock.Extend(ctx, ttl); err != nil {
			_ = lock.Unlock(context.WithoutCancel(ctx)) // not the last, unless the outer handle has been unlocked meanwhile
			return nil, err
		}
	}
	if req.Renewed {
		lock.renews = h.renew(req)
	}
	return lock, nil
}
