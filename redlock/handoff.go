package redlock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// pass gives a lock that an Unlock gives up to the next waiter of its name in this Locker, if there is one and it may.
func (s *queues) pass(from *Lock, unlock *call) bool {
	h := from.held
	q := s.find(h.first.req.key)
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
		lock := h.passLocked(now, from, w.req, unlock)
		if lock == nil {
			return quorum.Actions{}
		}
		q.holder, q.held, q.last, passed = h, now, nil, true
		w.offers <- offer{lock: lock}
		return q.machine.Passed(now, &h.term.Handoff)
	})
	return passed
}

// passLocked makes the lock that of the next holder, or returns nil.
func (h *heldLock) passLocked(now time.Time, from *Lock, req request, unlock *call) *Lock {
	by := h.holder
	if !h.term.MayPass(now, &from.hold, &req.Want) {
		return nil
	}
	if h.locker.events.wants(kindEnds) {
		h.endedLocked(event.End{Err: ErrReleased, Held: unlock.start.Sub(by.since)})
	}
	if by.disown != nil {
		by.disown()
	}
	next := &holder{req: req}
	hold := h.term.Pass(now, &from.hold, &next.req.Want)
	from.leftLocked(true)
	lock := h.beginLocked(next, hold)
	if req.Renewed {
		h.armLocked()
	} else {
		h.stopRenewingLocked()
	}
	return lock
}
