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

// Held is a lock that the nodes have granted. It is in the hands of one holder after the other. It is made in place, and all of it is under
// the mutex of the entry.
type Held struct {
	*Entry
	Lease  lock.Lease // which the program may ask; what it does goes through the Held, which is the receiver
	First  Holder     // who has taken it
	Holder *Holder    // who has it now
	Loss   *error     // what the program has made of how it ended, if not by a release; nil while nobody has asked

	functions int32         // of Do, that hold it
	place     int32         // 1 + its index in dueLocks; 0 if it is not there. It is under the mutex of renewals
	due       time.Duration // of the next renewal, since the renewals began. It is under the mutex of renewals
	over      *over         // made when somebody asks for it
}

// Holder is a call that has got the lock, and the handles that belong to it. It is under the mutex of the lock.
type Holder struct {
	Want  Want
	Owner string // who it is, if that is known without a context; "" if not
	Of    any    // the call of the program; nil if none is told of it
	Fence uint64 // 0 without fencing
	// Since is from when on the program waits to hear of the end, in its own time; 0 if it does not. It hears of the end once.
	Since time.Duration
}

// awaited reports whether the program waits to hear of the end: a renewal that ends leaves it to a timer to notice that.
func (by *Holder) awaited() bool { return by.Since > 0 }

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

// AdoptLocked makes h a lock that another has taken, for its first holder.
func (e *Entry) AdoptLocked(h *Held, id form.ID, lease quorum.Lease) quorum.Hold {
	h.Entry, h.Holder = e, &h.First
	e.Name.Adopt(&h.Lease, id, &h.First.Want, lease, h)
	return h.firstLocked()
}

// firstLocked returns the hold of the first holder.
func (h *Held) firstLocked() quorum.Hold {
	h.First.Fence = h.Lease.Fence()
	h.ArmLocked()
	return h.Lease.Hold()
}

// HeldBy returns the lock that an owner holds, and as which holder; nil if none does.
func (g *Engine) HeldBy(owner, key string) (*Held, *Holder) {
	e := g.Find(key)
	if e == nil {
		return nil, nil
	}
	defer e.Exit()
	for l := range e.Name.Leases {
		if h := l.To().(*Held); h.Holder.Owner == owner && h.AtLocked(h.Now()) == quorum.NotEnded {
			return h, h.Holder
		}
	}
	return nil, nil
}

// Has reports whether a holder has the lock still.
func (h *Held) Has(by *Holder) bool {
	h.Enter()
	defer h.Exit()
	return h.Holder == by && h.AtLocked(h.Now()) == quorum.NotEnded
}

// AwaitLocked records that the program waits to hear of the end, since a time of its own. The end is noticed though nobody asks how the lock
// stands.
func (h *Held) AwaitLocked(by *Holder, since time.Duration) {
	by.Since = since
	if h.Lease.Renewal == nil && h.over == nil {
		h.engine.renewals.schedule(h, h.Lease.Deadline())
	}
	h.ArmLocked()
	h.AtLocked(h.Now())
}

// UnderWayLocked returns what is closed when an extension that is under way has ended, or when all nodes have answered the acquire; nil if
// neither is to be waited for.
func (h *Held) UnderWayLocked() <-chan struct{} {
	if extend, is := h.Lease.Extending().(*Round); is {
		return extend.Done()
	}
	if acquire, is := h.Lease.Acquiring().(*Round); is {
		return acquire.allLocked()
	}
	return nil
}

// FailedLocked returns the last extension if it has failed, when it began, and whether it was a renewal; nil if it has not.
func (h *Held) FailedLocked() (r *Round, began time.Time, renewal bool) {
	of, began, renewal := h.Lease.Failed()
	r, _ = of.(*Round)
	return r, began, renewal
}

// Now returns the time.
func (h *Held) Now() time.Time { return h.engine.Clock.Now() }

// Reply implements [wire.Receiver] for observations.
func (h *Held) Reply(tag wire.Tag, reply *wire.Reply) {
	h.Enter()
	h.doLocked(h.Lease.Answered(nil, tag, reply))
	h.Exit()
}

// AtLocked returns how the lease stands, and ends over with it. If the deadline ended the lease, the timer goes on,
// because tick still has to clean up. A holder who stops in the grace has not lost the lock, so its end is reported when the grace is
// over, or by the release.
func (h *Held) AtLocked(now time.Time) quorum.Ending {
	ending := h.Lease.At(now)
	if ending != quorum.NotEnded && h.over != nil {
		if ending != quorum.Expired {
			h.over.timer.Stop()
		}
		h.over.end()
	}
	lost := ending == quorum.Lost || ending == quorum.Expired && h.Lease.Holds() > 0 && !h.Lease.InGrace(now)
	if lost && h.Holder.awaited() {
		h.engine.Events.Over(h, ending)
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
	h.Enter()
	defer h.Exit()
	now := h.Now()
	if hold.Ended() {
		return h.StandsLocked(hold, now), hold.inTime
	}
	return h.StandsLocked(hold, now), h.Lease.Exclusive(now)
}

// Context returns a context that ends with a hold, and with the lock.
func (h *Held) Context(hold *Hold) context.Context {
	h.Enter()
	defer h.Exit()
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
		h.over.timer = h.engine.Clock.AfterFunc(h.Lease.Remaining(now), h.tick)
		h.AtLocked(now)
	}
	return h.over.Context
}

// tick runs at what was the deadline, or the end of the grace, when the timer was set.
func (h *Held) tick() {
	h.Enter()
	if again, now := h.noticeLocked(), h.Now(); !again.IsZero() {
		h.over.timer.Reset(again.Sub(now))
	}
	h.Exit()
}

// noticeLocked looks whether the lock is over, and returns when to look again; zero means never. It sends the release if the lock may
// have left keys, and waits for no answer.
func (h *Held) noticeLocked() (again time.Time) {
	now := h.Now()
	switch {
	case h.AtLocked(now) == quorum.NotEnded: // extended meanwhile
		again = h.Lease.Deadline()
	case h.Lease.InGrace(now):
		again = h.Lease.ExclusiveUntil()
		h.OverLocked() // the release has to wait for tick
	}
	h.doLocked(h.Name.CleanUp(nil, &h.Lease))
	return again
}
