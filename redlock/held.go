package redlock

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// heldLock is a lock that the nodes have granted. It is in the hands of one holder after the other ([WithLocalHandoff]).
type heldLock struct {
	*entry
	first holder

	// All under the mutex of the entry.
	term      lock.Term
	holder    *holder // the present one
	functions int     // of Do, that hold it
	due       due     // of the next renewal
	over      *over   // made when somebody asks for it
}

// over ends with the lease.
type over struct {
	context.Context
	end   context.CancelFunc
	timer clock.Timer // for the deadline, and then for the end of the grace
}

// holder is a call of the program that has got the lock, and the handles that belong to it. All are under the mutex of the lock.
type holder struct {
	want  lock.Want
	owner string    // see Owner
	call  *call     // that took it; nil if nobody wants its number
	lock  Lock      // the handle that came with it; Reentrant makes others
	fence uint64    // 0 without fencing
	since time.Time // its end is reported from then on; zero before its event.Acquire, and if nobody wants to know
	ended bool      // its event.End is there
}

// holder makes the holder who has what was asked for.
func (r *request) holder() holder { return holder{want: r.Want, owner: r.owner, call: r.call} }

// takenLocked makes the lock that of a holder.
func (h *heldLock) takenLocked(by *holder, hold quorum.Hold) *Lock {
	l := h.locker
	h.holder = by
	by.fence = h.term.Fence()
	by.lock = Lock{held: h, holder: by, hold: hold}
	if !l.events.wants(kindEnds) && l.events.mayLog() {
		by.since = time.Now()
	}
	return &by.lock
}

func (h *heldLock) now() time.Time { return h.locker.clock.Now() }

// context returns over.
func (h *heldLock) context() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.contextLocked()
}

func (h *heldLock) contextLocked() context.Context {
	if h.over == nil {
		h.over = &over{}
		h.over.Context, h.over.end = context.WithCancel(context.Background())
		now := h.now()
		h.over.timer = h.locker.clock.AfterFunc(h.term.Remaining(now), h.tick)
		h.atLocked(now)
	}
	return h.over.Context
}

// tick runs at what was the deadline, or the end of the grace, when the timer was set.
func (h *heldLock) tick() {
	h.mu.Lock()
	now := h.now()
	switch {
	case h.atLocked(now) == quorum.Held: // extended meanwhile
		h.over.timer.Reset(h.term.Remaining(now))
	case h.term.InGrace(now):
		h.over.timer.Reset(h.term.ExclusiveUntil().Sub(now))
	}
	h.cleanUpLocked()
	h.unlock()
}

// atLocked returns how the lease stands, and ends over with it. If the deadline ended the lease, the timer goes on,
// because tick still has to clean up. A holder who stops in the grace has not lost the lock, so its end is reported when the grace is
// over, or by the release.
func (h *heldLock) atLocked(now time.Time) quorum.Ending {
	ending := h.term.At(now)
	if ending != quorum.Held && h.over != nil {
		if ending != quorum.Expired {
			h.over.timer.Stop()
		}
		h.over.end()
	}
	if ending == quorum.Lost || ending == quorum.Expired && h.term.Holds() > 0 && !h.term.InGrace(now) {
		h.endedLocked(event.End{Err: endings[ending]})
	}
	return ending
}

// cleanUpLocked sends the release if the lock is over and may have left keys, and waits for no answer. In the grace that has to wait
// for tick.
func (h *heldLock) cleanUpLocked() {
	acts := h.name.CleanUp(nil, &h.term)
	if h.term.InGrace(h.now()) {
		h.contextLocked()
	}
	h.doLocked(acts)
}

// overLocked ends what ends with the lock.
func (h *heldLock) overLocked() {
	h.atLocked(h.now())
	h.cleanUpLocked()
}

// extendRound is a round that extends a lock.
type extendRound struct {
	round
	extend  lock.Extend
	counted bool // Close waits for it; otherwise the function that holds the lock does
}

func (h *heldLock) newExtend(call *call) *extendRound {
	r := &extendRound{round: h.newRound(event.OpExtend, call)}
	r.Round = &r.extend.Round
	return r
}

// releaseLocked sends the release of a lock that is over to each node that may hold it. exclusive is false if another may have it.
func (h *heldLock) releaseLocked(now time.Time, exclusive bool, call *call) *round {
	type releaseRound struct {
		round
		release lock.Release
	}
	r := &releaseRound{round: h.newRound(event.OpUnlock, call)}
	r.Round = &r.release.Round
	var room [usualNodes]lock.Act
	h.doLocked(h.name.Release(room[:0], &h.term, &r.release, now, exclusive, &r.round))
	return &r.round
}

func (h *heldLock) newRound(op event.Op, call *call) round {
	return round{entry: h.entry, op: op, name: h.called(), call: call, held: h, done: make(chan struct{})}
}
