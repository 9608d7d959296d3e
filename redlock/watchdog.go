package redlock

import "github.com/quorumlock/quorumlock/internal/quorum"

// maxRenewing bounds the renewals of a Locker that are under way at a time: locks that were taken together are due
// together, and a node takes a limited number of commands.
const maxRenewing = 1024

// renew begins to renew the lock with the TTL and MaxHold of a request. It returns false if the lock is renewed already.
func (h *heldLock) renew(req request) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.renewal != nil {
		return false
	}
	h.renewal = quorum.NewRenewal(h.lease, req.ttl, req.maxHold)
	h.armLocked()
	return true
}

// stopRenewingLocked ends the renewals of the lock, if there are any.
func (h *heldLock) stopRenewingLocked() {
	h.renewal = nil
	h.unwatchLocked()
	if h.watchdog != nil {
		h.watchdog.Stop()
	}
}

// armLocked schedules the next renewal, if there is to be one.
func (h *heldLock) armLocked() {
	if h.renewal == nil {
		return
	}
	now := h.now()
	due, ok := h.renewal.Next(now)
	switch {
	case !ok && h.lease.At(now) != quorum.Held:
		h.unwatchLocked()
	case !ok && !h.watches:
	case !ok: // MaxHold: its end is awaited
		h.watchdog.Reset(h.lease.Remaining(now))
	case h.watchdog == nil:
		h.watchdog = h.locker.clock.AfterFunc(due.Sub(now), h.due)
	default:
		h.watchdog.Reset(due.Sub(now))
	}
}

// due begins a renewal. It does not block, because package clocktest runs timers one after the other.
func (h *heldLock) due() {
	if h.locker.enter() == nil {
		go h.extendAgain()
	}
}

// extendAgain renews the lock once, unless the renewals were ended meanwhile.
func (h *heldLock) extendAgain() {
	l := h.locker
	defer l.calls.Done()
	select {
	case l.renewing <- struct{}{}:
		defer func() { <-l.renewing }()
	case <-l.closing.Done():
		return
	}
	l.queues.listen()
	turn := h.turns()
	turn <- struct{}{} // an extension that is under way ends with the node timeout
	defer func() { <-turn }()
	h.mu.Lock()
	ok := h.renewal != nil
	var grant quorum.Grant
	first := false
	if ok {
		first = h.watchLocked()
		grant, ok = h.renewal.Grant(h.now())
	}
	h.mu.Unlock()
	var r *round
	switch {
	case ok:
		r = h.extend(l.closing, nil, grant)
	case first: // the holder has extended it by more, so that no extension tracks its key yet
		for i := range l.nodes {
			h.observe(i, nil)
		}
	}
	h.mu.Lock()
	if r != nil && h.renewal != nil {
		h.renewal.Ended(h.now(), r.outcome)
	}
	h.armLocked()
	h.mu.Unlock()
	h.cleanUp() // behind armLocked, which may have found that the lease is over
}
