package engine

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// AskLocked begins a round in which a call takes the lock under a token of its own.
func (e *Entry) AskLocked(a *Acquire, c *Call, token string) {
	a.begin(&a.acquire.Round, e, nil)
	var room [usualNodes]lock.Act
	e.doLocked(e.Name.Ask(room[:0], &a.acquire, c, token, &a.Round))
}

// WonLocked makes h what the round of a call has won, for a holder who wants w, and returns that one's hold.
func (e *Entry) WonLocked(a *Acquire, c *Call, h Holding, w *Want) quorum.Hold {
	held := h.base()
	held.Entry = e
	e.doLocked(e.Name.Won(nil, c, w, &a.acquire, &held.Term, h))
	return held.Term.Hold()
}

// LostLocked records that the round of a call was not won. A call that waits goes on.
func (e *Entry) LostLocked(a *Acquire, c *Call) { e.doLocked(e.Name.Lost(nil, c, &a.acquire)) }

// SplitLocked reports whether the round is lost, and another may win: see [quorum.Acquire.Split].
func (a *Acquire) SplitLocked() bool { return a.acquire.Votes().Split() }

// WaitLocked puts a call into the queue, whose Of is a [Waiter].
func (e *Entry) WaitLocked(c *Call) { e.doLocked(e.Name.Wait(nil, c)) }

// GiveUpLocked ends the wait of a call, unless it has ended.
func (e *Entry) GiveUpLocked(c *Call) { e.doLocked(e.Name.Leave(nil, c)) }

// Prepare makes x a round that extends the lock.
func (h *Held) Prepare(x *Extend) { x.begin(&x.extend.Round, h.Entry, h) }

// Extend asks for a TTL for a handle, in a round that Prepare has made, when the extensions before it have ended.
func (h *Held) Extend(x *Extend, ttl time.Duration, hold *Hold) {
	var room [usualNodes]lock.Act
	h.Lock()
	h.doLocked(h.Term.Extend(room[:0], &x.extend, ttl, &hold.Hold, &x.Round))
	h.Unlock()
}

// PassLocked passes the lock on to the call that Name.Next has returned, for a holder who wants w, and returns the hold of that one. It
// is renewed from [Held.GoOnLocked] on.
func (h *Held) PassLocked(from *Hold, w *Want) quorum.Hold {
	acts, hold := h.Name.Pass(nil, &h.Term, &from.Hold, w)
	from.endLocked(true)
	h.doLocked(acts)
	return hold
}

// GoOnLocked has the lock renewed, or not, as the holder wants that it was passed on to.
func (h *Held) GoOnLocked(renewed bool) {
	if renewed {
		h.ArmLocked()
	} else {
		h.stopRenewingLocked()
	}
}

// RenewAnewLocked has the lock renewed as the holder wants from now on, or not.
func (h *Held) RenewAnewLocked(w *Want) {
	if w.Renewed {
		h.Term.Renew(h.Now(), w)
	}
	h.GoOnLocked(w.Renewed)
}

// LeaveLocked ends a hold of a lock. exclusive is false if another may have it.
func (h *Held) LeaveLocked(hold *Hold, now time.Time, exclusive bool) lock.Left {
	before := hold.Ended()
	left := h.Term.Leave(now, &hold.Hold)
	if !before {
		hold.endLocked(exclusive)
	}
	if left == lock.None || left == lock.Others && hold.Renews && !before {
		h.stopRenewingLocked()
	}
	h.AtLocked(now)
	return left
}

// ReleaseLocked sends the release of a lock that is over to each node that may hold it. exclusive is false if another may have it.
func (h *Held) ReleaseLocked(r *Release, now time.Time, exclusive bool) {
	r.begin(&r.release.Round, h.Entry, h)
	r.releases = true
	var room [usualNodes]lock.Act
	h.doLocked(h.Name.Release(room[:0], &h.Term, &r.release, now, exclusive, &r.Round))
}

// DetachLocked ends the only hold of a lock, and leaves it on the nodes.
func (h *Held) DetachLocked(hold *Hold, now time.Time) {
	acts := h.Name.Detach(nil, &h.Term, &hold.Hold)
	h.stopRenewingLocked()
	h.AtLocked(now)
	h.doLocked(acts)
}

// endLocked ends the context of a hold that has ended.
func (hold *Hold) endLocked(inTime bool) {
	hold.inTime = inTime
	if hold.own != nil {
		hold.own.end()
	}
}

// InTime reports whether a hold ended while nobody else could have the lock.
func (hold *Hold) InTime() bool { return hold.inTime }
