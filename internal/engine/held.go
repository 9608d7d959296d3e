package engine

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Held is a lock that the nodes have granted. One holder has it after the other. A Held is made in place. The mutex of
// the entry guards all fields but place and due.
type Held struct {
	*Entry
	// The program may call methods of Lease that return no Acts. The Held calls the others, and receives the replies.
	Lease  lock.Lease
	First  Holder  // the holder that took the lock
	Holder *Holder // the holder that has the lock now
	Loss   *error  // the program's error for an end that is no release; nil until it is asked for

	functions int32         // how many functions of Do hold the lock
	place     int32         // 1 + the index in dueLocks, or 0 if the lock is not there; under renewals.mu
	due       time.Duration // when the lock is due in renewals, counted from renewals.epoch; under renewals.mu
	over      *over         // nil until it is needed
}

// Holder is a call that has got the lock, with the handles that belong to it. The mutex of the lock guards it.
type Holder struct {
	Want  Want
	Owner string // the id of the owner, for calls that pass no context; "" if the program has given none
	Of    any    // the program's own value for the call; nil if it keeps none
	Fence uint64 // the fencing token. 0 means that there is none.
	// Since is when the program began to wait for the end of the lock, in the program's own time. 0 means that it does not
	// wait. The program is notified of the end once.
	Since time.Duration
}

// awaited reports whether the program waits to hear of the end. Then a timer has to notice the end if the renewals
// stop.
func (by *Holder) awaited() bool { return by.Since > 0 }

// over is a context that ends with the lease.
type over struct {
	own
	timer clock.Timer // fires at the deadline, and then at the end of the grace
}

// Hold is the part of a Held that one handle has.
type Hold struct {
	quorum.Hold
	Renews bool // this handle began the renewals of the lock
	inTime bool // the hold was ended while nobody else could have the lock
	own    *own // nil until its context is asked for
}

// own is a context that ends with the hold of a handle, or with the lock.
type own struct {
	context.Context
	end context.CancelFunc
}

// AdoptLocked makes h a lock that somebody else has taken, and returns the hold of its first holder. If the token has
// the owner part of the Engine, the messages to the holder come here from now on.
func (e *Entry) AdoptLocked(h *Held, id form.ID, lease quorum.Lease) quorum.Hold {
	h.Entry, h.Holder = e, &h.First
	e.Name.Adopt(&h.Lease, id, &h.First.Want, lease, h)
	if token.Owner(id.Token) == e.engine.Self {
		e.engine.listen()
	}
	return h.firstLocked()
}

// firstLocked begins the renewals, if the first holder wants them, and returns the hold of that holder.
func (h *Held) firstLocked() quorum.Hold {
	h.First.Fence = h.Lease.Fence()
	h.ArmLocked()
	return h.Lease.Hold()
}

// HeldBy returns the lock of a key that an owner holds, and the Holder that belongs to the owner. Both are nil if the
// owner does not hold the lock.
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

// Has reports whether a holder still has the lock.
func (h *Held) Has(by *Holder) bool {
	h.Enter()
	defer h.Exit()
	return h.Holder == by && h.AtLocked(h.Now()) == quorum.NotEnded
}

// AwaitLocked records that the program waits to hear of the end, since a time of its own. It schedules a check at the
// deadline if nothing else would notice the end. So the end is reported even if no call asks for the state of the lock.
func (h *Held) AwaitLocked(by *Holder, since time.Duration) {
	by.Since = since
	if h.Lease.Renewal == nil && h.over == nil {
		h.engine.renewals.schedule(h, h.Lease.Deadline())
	}
	h.ArmLocked()
	h.AtLocked(h.Now())
}

// UnderWayLocked returns a channel that is closed when the last extension under way has ended. Without an extension it
// is closed when all nodes have answered the acquire. UnderWayLocked returns nil if neither is under way.
func (h *Held) UnderWayLocked() <-chan struct{} {
	if extend, is := h.Lease.Extending().(*Round); is {
		return extend.Done()
	}
	if acquire, is := h.Lease.Acquiring().(*Round); is {
		return acquire.allLocked()
	}
	return nil
}

// WithdrawAcquire ends the commands of the acquire that wait for a connection. The lock does without these nodes.
func (h *Held) WithdrawAcquire() {
	h.Enter()
	token, acquiring := h.Lease.ID().Token, h.Lease.Acquiring() != nil
	h.Exit()
	if acquiring {
		for _, n := range h.engine.Nodes {
			n.Withdraw(token, nodeerr.ErrUnneeded)
		}
	}
}

// FailedLocked returns the last extension that failed, if none has succeeded since. Otherwise it returns the extension
// whose outcome is not known yet, if there is one. It also returns when that extension began, and whether it is a
// renewal. r is nil if there is no such extension.
func (h *Held) FailedLocked() (r *Round, began time.Time, renewal bool) {
	of, began, renewal := h.Lease.Failed()
	r, _ = of.(*Round)
	return r, began, renewal
}

// Now returns the time of the Engine's clock.
func (h *Held) Now() time.Time { return h.engine.Clock.Now() }

// Reply hands the answer to an observation to the lock, and carries out the Acts that follow. It implements
// [wire.Receiver].
func (h *Held) Reply(tag wire.Tag, reply *wire.Reply) {
	h.Enter()
	h.doLocked(h.Lease.Answered(nil, tag, reply))
	h.Exit()
}

// AtLocked returns how the lease stands, and ends over if the lease has ended. If the deadline ended the lease, the
// timer goes on, because tick still has to clean up. A holder that stops within the grace has not lost the lock. So its
// end is reported when the grace is over, or by the release.
func (h *Held) AtLocked(now time.Time) quorum.Ending {
	ending := h.Lease.At(now)
	if ending != quorum.NotEnded && h.over != nil {
		if ending != quorum.Expired {
			h.over.timer.Stop()
		}
		h.over.end()
	}
	lost := ending == quorum.Gone || ending == quorum.Expired && h.Lease.Holds() > 0 && !h.Lease.InGrace(now)
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

// Stands returns how the lock stands for a handle. exclusive reports whether nobody else can have the lock. If the hold
// has ended, exclusive reports whether nobody else could have it at that moment.
func (h *Held) Stands(hold *Hold) (ending quorum.Ending, exclusive bool) {
	h.Enter()
	defer h.Exit()
	now := h.Now()
	if hold.Ended() {
		return h.StandsLocked(hold, now), hold.inTime
	}
	return h.StandsLocked(hold, now), h.Lease.Exclusive(now)
}

// Context returns a context that ends with a hold, or with the lock.
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

// OverLocked returns a context that ends with the lock. From the first call on, a timer notices the end of the lock.
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

// tick is called by the timer of over. The timer was set to the deadline at that time, or to the end of the grace.
func (h *Held) tick() {
	h.Enter()
	if again, now := h.noticeLocked(), h.Now(); !again.IsZero() {
		h.over.timer.Reset(again.Sub(now))
	}
	h.Exit()
}

// noticeLocked checks whether the lock is over, and returns when to check again, or zero for never. If the lock is over
// and may have left keys, noticeLocked sends the release. Nobody waits for the answers.
func (h *Held) noticeLocked() (again time.Time) {
	now := h.Now()
	switch {
	case h.AtLocked(now) == quorum.NotEnded: // it was extended meanwhile
		again = h.Lease.Deadline()
	case h.Lease.InGrace(now):
		again = h.Lease.ExclusiveUntil()
		h.OverLocked() // its tick sends the release after the grace
	}
	h.doLocked(h.Name.CleanUp(nil, &h.Lease))
	return again
}
