package redlock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// pass gives a lock that k's Unlock gives up to the next waiter of its name in this Locker, if there is one and it may.
func (s *queues) pass(k *Lock, unlock *call) bool {
	h := k.held
	q := s.find(h.key)
	if q == nil || s.locker.closing.Err() != nil {
		return false
	}
	passed := false
	q.do(func(now time.Time) quorum.Actions {
		w, ok := q.machine.Next(now)
		if !ok {
			return quorum.Actions{}
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		lock := h.passLocked(now, k, w.req, unlock)
		if lock == nil {
			return quorum.Actions{}
		}
		q.holder, q.last, passed = h, nil, true
		w.turn <- turn{lock: lock}
		return q.machine.Passed(now, &h.handoff)
	})
	return passed
}

// passLocked makes the lock that of the next holder, or returns nil.
func (h *heldLock) passLocked(now time.Time, k *Lock, req request, unlock *call) *Lock {
	by := h.holder
	switch {
	case k.hold.Ended() || !k.hold.Current() || h.lease.Holds() > 1:
		return nil
	case req.metadata != by.req.metadata || !h.handoff.May(now, req.ttl):
		return nil
	case req.maxHold > 0 && h.lease.MayLast().After(now.Add(req.maxHold)):
		return nil
	}
	if unlock != nil {
		h.endedLocked(EndEvent{Err: ErrReleased, Held: unlock.start.Sub(by.since)})
	}
	if by.disown != nil {
		by.disown()
	}
	k.endLocked(now)
	before, renewed := by.req, h.renewal != nil
	lock := h.beginLocked(&holder{}, req, h.handoff.Pass())
	switch same := before.autoExtend && before.ttl == req.ttl && before.maxHold == 0 && req.maxHold == 0; {
	case !req.autoExtend:
		h.stopRenewingLocked()
	case !renewed || !same:
		h.renewLocked(req, now)
	}
	return lock
}
