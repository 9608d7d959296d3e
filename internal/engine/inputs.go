package engine

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/token"
)

// AskLocked begins a round in which a call takes the lock. The round has the token, or a random one if token is "". The
// argument of is stored as Acquire.Of, the program's own value for the call.
func (e *Entry) AskLocked(c *Call, token string, of any) *Acquire {
	a := new(Acquire)
	a.Of = of
	a.begin(&a.acquire.Round, e, nil)
	e.engine.Events.Began(&a.Round)
	var room [usualNodes]lock.Act
	e.doLocked(e.Name.Ask(room[:0], &a.acquire, c, e.engine.Token(token, c.Metadata), &a.Round))
	return a
}

// Token returns the token of a round: made, or a random one with the metadata if made is "".
func (g *Engine) Token(made, metadata string) string {
	if made != "" {
		return made
	}
	return token.WithMetadata(token.Random(g.Self), metadata)
}

// WonLocked makes h the lock that the round of a call has won, and returns the hold of its first holder.
func (e *Entry) WonLocked(a *Acquire, c *Call, h *Held) quorum.Hold {
	h.Entry, h.Holder = e, &h.First
	e.doLocked(e.Name.Won(nil, c, &h.First.Want, &a.acquire, &h.Lease, h))
	return h.firstLocked()
}

// LostLocked records that the round of a call was not won. A call that waits goes on waiting.
func (e *Entry) LostLocked(a *Acquire, c *Call) { e.doLocked(e.Name.Lost(nil, c, &a.acquire)) }

// LostRoundLocked returns the record of a round that is lost.
func (a *Acquire) LostRoundLocked() LostRound { return a.acquire.LostRound() }

// NewExtend makes a round that extends the lock. The argument of is stored as Extend.Of, the program's own value for
// the call.
func (h *Held) NewExtend(of any) *Extend {
	x := new(Extend)
	x.Of = of
	x.begin(&x.extend.Round, h.Entry, h)
	return x
}

// Extend asks for a TTL for a handle, in a round that NewExtend has made. The round begins when the extensions before
// it have ended.
func (h *Held) Extend(x *Extend, ttl time.Duration, hold *Hold) {
	var room [usualNodes]lock.Act
	h.Enter()
	h.doLocked(h.Lease.Extend(room[:0], &x.extend, ttl, &hold.Hold, &x.Round))
	h.Exit()
}

// goOnLocked begins or ends renewals, as the holder wants.
func (h *Held) goOnLocked() {
	if h.Holder.Want.Renewed {
		h.ArmLocked()
	} else {
		h.stopRenewingLocked()
	}
}

// RenewFromNow changes whether the holder wants the lock renewed, and for how long at most, counted from now.
func (h *Held) RenewFromNow(renewed bool, maxHold time.Duration) {
	h.Enter()
	defer h.Exit()
	w := &h.Holder.Want
	if w.Renewed, w.MaxHold = renewed, maxHold; renewed {
		h.Lease.Renew(h.Now(), w)
	}
	h.goOnLocked()
}

// LeaveLocked ends a hold of a lock. exclusive is false if somebody else may have the lock.
func (h *Held) LeaveLocked(hold *Hold, now time.Time, exclusive bool) lock.Left {
	before := hold.Ended()
	left := h.Lease.Leave(now, &hold.Hold)
	if !before {
		hold.endLocked(exclusive)
	}
	if left == lock.None || left == lock.Others && hold.Renews && !before {
		h.stopRenewingLocked()
	}
	h.AtLocked(now)
	return left
}

// ReleaseLocked sends the release of a lock that is over to each node that may hold it. exclusive is false if somebody
// else may have the lock.
func (h *Held) ReleaseLocked(r *Release, now time.Time, exclusive bool) {
	r.begin(&r.release.Round, h.Entry, h)
	r.releases = true
	var room [usualNodes]lock.Act
	h.doLocked(h.Name.Release(room[:0], &h.Lease, &r.release, now, exclusive, &r.Round))
}

// DetachLocked ends the only hold of a lock, and leaves the lock on the nodes.
func (h *Held) DetachLocked(hold *Hold, now time.Time) {
	acts := h.Name.Detach(nil, &h.Lease, &hold.Hold)
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
