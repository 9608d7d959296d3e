package redlock

import (
	"context"
	"fmt"
	"maps"
	"sync"
)

// holding is a lock that the bearer of a context holds; parent are those that were taken
// before.
type holding struct {
	hold   *hold
	parent *holding
}

type holdingKey struct{}

func withHold(ctx context.Context, h *hold) context.Context {
	parent, _ := ctx.Value(holdingKey{}).(*holding)
	return context.WithValue(ctx, holdingKey{}, &holding{h, parent})
}

// owners are the locks that were taken on behalf of somebody ([WithOwner]).
type owners struct {
	mu      sync.Mutex
	holds   map[ownerOfName]*hold
	sweepAt int // number of them at which those are looked for that are over: nobody may ever unlock them
}

type ownerOfName struct{ owner, key string }

func (o *owners) add(h *hold) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.holds == nil {
		o.holds, o.sweepAt = map[ownerOfName]*hold{}, leastSweep
	}
	if len(o.holds) >= o.sweepAt {
		maps.DeleteFunc(o.holds, func(_ ownerOfName, h *hold) bool { return h.err() != nil })
		o.sweepAt = max(leastSweep, 2*len(o.holds))
	}
	o.holds[ownerOfName{h.req.owner, h.req.key}] = h
}

func (o *owners) remove(h *hold) {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := ownerOfName{h.req.owner, h.req.key}
	if o.holds[of] == h {
		delete(o.holds, of)
	}
}

func (o *owners) find(owner, key string) *hold {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.holds[ownerOfName{owner, key}]
}

// held returns the lock that the caller holds already, if it does: a call that waited for
// it would wait for itself.
func (l *Locker) held(ctx context.Context, req request) *hold {
	inner, _ := ctx.Value(holdingKey{}).(*holding)
	for ; inner != nil; inner = inner.parent {
		if h := inner.hold; h.locker == l && h.req.key == req.key && h.err() == nil {
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

// reenter makes another handle on a lock that the caller holds. Nothing is returned if it has ended meanwhile.
func (h *hold) reenter(ctx context.Context, req request) (*Lock, error) {
	if !req.reentrant {
		return nil, fmt.Errorf("redlock: acquire %q: %w: %w", req.name, ErrTaken, ErrDeadlock)
	}
	ttl := req.ttl
	h.mu.Lock()
	now := h.now()
	entered := h.lease.Enter(now)
	if h.keeping != nil {
		ttl = h.keeping.renewal.Most(now, ttl)
	}
	h.mu.Unlock()
	if !entered {
		return nil, nil
	}
	k := &Lock{hold: h}
	if _, err := h.locker.checkTTL(ttl); err == nil || ttl == req.ttl { // else MaxHold leaves nothing to extend
		if err := k.Extend(ctx, ttl); err != nil {
			_ = k.Unlock(ctx) // not the last, unless the outer handle has been unlocked meanwhile
			return nil, err
		}
	}
	if req.autoExtend {
		k.keeps = h.locker.watchdog.keep(h, req)
	}
	return k, nil
}
