package redlock

import (
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// renew begins to renew the lock as a request wants. It returns false if the lock is renewed already.
func (h *heldLock) renew(req request) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.term.Renewal != nil {
		return false
	}
	h.term.Renew(h.term.Start(), &req.Want)
	h.armLocked()
	return true
}

// stopRenewingLocked ends the renewals of the lock, if there are any.
func (h *heldLock) stopRenewingLocked() {
	if h.term.Renewal != nil && !h.holder.since.IsZero() && h.term.At(h.now()) == quorum.Held {
		h.contextLocked() // no renewal will notice its end
	}
	h.term.Renewal = nil
	h.term.Tracked = false
	h.locker.renewals.cancel(h)
}

// armLocked schedules the next renewal, if there is to be one. While one is under way, its end does that.
func (h *heldLock) armLocked() {
	if h.term.Renewal == nil || h.term.Renewing() {
		return
	}
	now := h.now()
	due, ok := h.term.Renewal.Next(now)
	if !ok {
		switch {
		case h.atLocked(now) != quorum.Held:
			h.term.Tracked = false
			return
		case !h.term.Tracked && h.holder.since.IsZero():
			return
		}
		due = now.Add(h.term.Remaining(now)) // MaxHold: its end is awaited
	}
	h.locker.renewals.schedule(h, due)
}

// abandon ends the renewals if the Locker has been closed, unless a function of Do holds the lock. It returns true if they have
// ended.
func (h *heldLock) abandon() bool {
	if h.locker.closing.Err() == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.functions > 0 {
		return false
	}
	h.atLocked(h.now())
	h.stopRenewingLocked()
	return true
}
