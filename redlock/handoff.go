package redlock

import (
	"runtime"

	"github.com/quorumlock/quorumlock/redlock/event"
)

// lingerLocked lets other goroutines go first if a release now would pass the turn early. When a lock goes from waiter to waiter, the
// release of the one and the acquire of the next are answered together: the first may be about to join again.
func (e *entry) lingerLocked() {
	if e.name.Deserted() {
		e.mu.Unlock()
		runtime.Gosched()
		e.mu.Lock()
	}
}

// passLocked gives a lock that an Unlock gives up to the next waiter of its name in this Locker, if there is one and it may.
func (h *heldLock) passLocked(from *Lock, unlock *call) bool {
	l := h.locker
	if l.pace.Handoff == 0 || l.closing.Err() != nil {
		return false
	}
	to := h.name.Next(&h.term, &from.hold)
	if to == nil {
		return false
	}
	by, w := h.holder, to.Of.(*waiter)
	if l.events.wants(kindEnds) {
		h.endedLocked(event.End{Err: ErrReleased, Held: unlock.start.Sub(by.since)})
	}
	next := w.req.holder()
	acts, hold := h.name.Pass(nil, &h.term, &from.hold, &next.want)
	from.leftLocked(true)
	w.lock = h.takenLocked(&next, hold)
	if w.req.Renewed {
		h.armLocked()
	} else {
		h.stopRenewingLocked()
	}
	h.waiting.last = nil
	h.doLocked(acts)
	w.wake()
	return true
}
