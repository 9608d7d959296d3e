package redlock

import (
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// maxRenewing bounds the renewals of a Locker that are under way at a time: locks that were taken together are due
// together, and a node takes a limited number of commands.
const maxRenewing = 1024

// watchdog renews a lock that is held with AutoExtend. Everything in it is under held.mu.
type watchdog struct {
	held    *heldLock
	renewal *quorum.Renewal
	timer   clock.Timer // for the next renewal; nil if there never was one to come
}

// renew begins to renew the lock with the TTL and MaxHold of a request. It returns false if the lock is renewed already.
func (h *heldLock) renew(req request) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchdog != nil {
		return false
	}
	h.watchdog = &watchdog{held: h, renewal: quorum.NewRenewal(h.lease, req.ttl, req.maxHold)}
	h.watchdog.armLocked()
	return true
}

// stopRenewing ends the renewals of the lock.
func (h *heldLock) stopRenewing() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchdog != nil && h.watchdog.timer != nil {
		h.watchdog.timer.Stop()
	}
	h.watchdog = nil
}

// armLocked schedules the next renewal, if there is to be one.
func (w *watchdog) armLocked() {
	now := w.held.now()
	if due, ok := w.renewal.Next(now); ok && w.held.watchdog == w {
		w.timer = w.held.locker.clock.AfterFunc(due.Sub(now), w.tick)
	}
}

// tick begins a renewal. It does not block, because package clocktest runs timers one after the other.
func (w *watchdog) tick() {
	if w.held.locker.enter() == nil {
		go w.run()
	}
}

// run renews the lock, unless another extension is under way.
func (w *watchdog) run() {
	h, l := w.held, w.held.locker
	defer l.calls.Done()
	select {
	case l.renewing <- struct{}{}:
		defer func() { <-l.renewing }()
	case <-l.closing.Done():
		return
	}
	turn := h.turns()
	select {
	case turn <- struct{}{}:
		w.extend()
		<-turn
	default:
		h.mu.Lock()
		w.renewal.Busy(h.now())
		h.mu.Unlock()
	}
	h.mu.Lock()
	w.armLocked()
	h.mu.Unlock()
	h.cleanUp() // behind armLocked, which may have found that the lease is over
}

// extend extends the lock once. The caller has the turn.
func (w *watchdog) extend() {
	h := w.held
	h.mu.Lock()
	grant, ok := w.renewal.Grant(h.now())
	ok = ok && h.watchdog == w // otherwise the renewals were ended while this one waited
	h.mu.Unlock()
	if !ok {
		return
	}
	if r := h.extend(grant); r != nil {
		r.wait(h.locker.closing, nil)
		h.mu.Lock()
		w.renewal.Ended(h.now(), r.outcome)
		h.mu.Unlock()
	}
}
