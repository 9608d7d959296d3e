package redlock

import (
	"context"

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
	if h.term.Renewal == nil || h.term.Renewing {
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

// answeredLocked records that a node has answered an extension or observation: the lease may have ended with it, or the next renewal
// may be due sooner. While a renewal is under way, its end decides that.
func (h *heldLock) answeredLocked() {
	now := h.now()
	if h.term.Sooner(now) {
		h.armLocked()
	}
	if h.atLocked(now) != quorum.Held {
		h.cleanUpLocked()
	}
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

// extendAgain renews the lock once, unless the renewals were ended meanwhile. It does not wait for the outcome any more when ctx ends.
func (h *heldLock) extendAgain(ctx context.Context) {
	l := h.locker
	if h.abandon() {
		return
	}
	h.mu.Lock()
	begin := !h.term.Renewing
	h.term.Renewing = true
	h.mu.Unlock()
	if !begin { // it was passed on between, to somebody who wants it renewed now
		return
	}
	l.names.listen()
	h.begin(context.Background(), nil) // an extension that is under way ends with the node timeout
	defer h.finish()
	h.mu.Lock()
	deadline, first := h.term.Deadline(), h.term.Renewal != nil && !h.term.Tracked
	h.term.Tracked = h.term.Renewal != nil
	h.mu.Unlock()
	call := l.newCall(context.Background())
	r := h.extend(ctx, nil, nil, 0, call)
	switch {
	case r == nil && first: // the holder has extended it by more, so that no extension tracks its key yet
		h.mu.Lock()
		for i := range l.nodes {
			h.doLocked(h.term.Changed(nil, i))
		}
		h.unlock()
	case r != nil && call != nil:
		h.renewed(call, deadline, r)
	}
	h.mu.Lock()
	outcome := quorum.Undecided
	if r != nil {
		outcome = r.Outcome()
	}
	h.term.EndRenewal(h.now(), outcome)
	h.armLocked()
	h.cleanUpLocked() // behind armLocked, which may have found that the lease is over
	h.unlock()
}
