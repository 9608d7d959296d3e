package engine

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Held is a lock that the nodes have granted. The program embeds it in what it has of the lock itself, which is its Holding. All of it is
// under the mutex of the entry.
type Held struct {
	*Entry
	Term lock.Term // which the program may ask; what it does goes through the Held. Its receiver is the Holding

	functions int32         // of Do, that hold it
	place     int32         // 1 + its index in dueLocks; 0 if it is not there. It is under the mutex of renewals
	due       time.Duration // of the next renewal, since the renewals began. It is under the mutex of renewals
	over      *over         // made when somebody asks for it
}

// Holding is what the program has of a Held.
type Holding interface {
	wire.Receiver
	base() *Held
	// Awaited reports whether somebody is to be told of the end: a renewal that ends leaves it to a timer to notice that.
	Awaited() bool
	// Ended records that the lock is over, and not by a release. The caller has the mutex. It may be called again.
	Ended(how quorum.Ending)
	// NewRenewal returns a round that [Held.Prepare] has made. The caller has no mutex.
	NewRenewal() *Extend
}

// over ends with the lease.
type over struct {
	own
	timer clock.Timer // for the deadline, and then for the end of the grace
}

// Hold is what one handle has of a Held.
type Hold struct {
	quorum.Hold
	Renews bool // it is this handle that has the lock renewed
	inTime bool // it was ended while nobody else could have the lock
	own    *own // made when somebody asks for it
}

// own ends with the hold of a handle, and with the lock.
type own struct {
	context.Context
	end context.CancelFunc
}

// AdoptLocked makes h a lock that another has taken, for a holder who wants w.
func (e *Entry) AdoptLocked(h Holding, id form.ID, lease quorum.Lease, w *Want) quorum.Hold {
	held := h.base()
	held.Entry = e
	e.Name.Adopt(&held.Term, id, w, lease, h)
	return held.Term.Hold()
}

func (h *Held) base() *Held { return h }

// of returns what the program has of the lock.
func (h *Held) of() Holding { return h.Term.To().(Holding) }

// Now returns the time.
func (h *Held) Now() time.Time { return h.engine.Clock.Now() }

// Reply implements [wire.Receiver] for observations.
func (h *Held) Reply(tag wire.Tag, reply *wire.Reply) {
	h.Lock()
	h.doLocked(h.Term.Answered(nil, tag, reply))
	h.Unlock()
}

// AtLocked returns how the lease stands, and ends over with it. If the deadline ended the lease, the timer goes on,
// because tick still has to clean up. A holder who stops in the grace has not lost the lock, so its end is reported when the grace is
// over, or by the release.
func (h *Held) AtLocked(now time.Time) quorum.Ending {
	ending := h.Term.At(now)
	if ending != quorum.Held && h.over != nil {
		if ending != quorum.Expired {
			h.over.timer.Stop()
		}
		h.over.end()
	}
	if ending == quorum.Lost || ending == quorum.Expired && h.Term.Holds() > 0 && !h.Term.InGrace(now) {
		h.of().Ended(ending)
	}
	return ending
}

// StandsLocked returns how the lock stands for a handle.
func (h *Held) StandsLocked(hold *Hold, now time.Time) quorum.Ending {
	h.AtLocked(now)
	return hold.At(now)
}

// Stands returns how the lock stands for a handle, and whether nobody else can have it, or could when the hold ended.
func (h *Held) Stands(hold *Hold) (ending quorum.Ending, exclusive bool) {
	h.Lock()
	defer h.Unlock()
	now := h.Now()
	if hold.Ended() {
		return h.StandsLocked(hold, now), hold.inTime
	}
	return h.StandsLocked(hold, now), h.Term.Exclusive(now)
}

// Context returns a context that ends with a hold, and with the lock.
func (h *Held) Context(hold *Hold) context.Context {
	h.Lock()
	defer h.Unlock()
	over := h.OverLocked()
	if hold.own == nil {
		hold.own = &own{}
		hold.own.Context, hold.own.end = context.WithCancel(over)
		if hold.Ended() {
			hold.own.end()
		}
	}
	return hold.own.Context
}

// OverLocked returns a context that ends with the lock. From then on its end is noticed though nobody asks.
func (h *Held) OverLocked() context.Context {
	if h.over == nil {
		h.over = &over{}
		h.over.Context, h.over.end = context.WithCancel(context.Background())
		now := h.Now()
		h.over.timer = h.engine.Clock.AfterFunc(h.Term.Remaining(now), h.tick)
		h.AtLocked(now)
	}
	return h.over.Context
}

// tick runs at what was the deadline, or the end of the grace, when the timer was set.
func (h *Held) tick() {
	h.Lock()
	if again, now := h.noticeLocked(), h.Now(); !again.IsZero() {
		h.over.timer.Reset(again.Sub(now))
	}
	h.Unlock()
}

// noticeLocked looks whether the lock is over, and returns when to look again; zero means never. It sends the release if the lock may
// have left keys, and waits for no answer.
func (h *Held) noticeLocked() (again time.Time) {
	now := h.Now()
	switch {
	case h.AtLocked(now) == quorum.Held: // extended meanwhile
		again = h.Term.Deadline()
	case h.Term.InGrace(now):
		again = h.Term.ExclusiveUntil()
		h.OverLocked() // the release has to wait for tick
	}
	h.doLocked(h.Name.CleanUp(nil, &h.Term))
	return again
}
