package quorum

import (
	"time"
)

// Ending is how a lease ended.
type Ending uint8

// The endings. A lease ends once.
const (
	NotEnded Ending = iota // so far
	Released               // the holder released it
	Lost                   // the nodes no longer hold it
	Expired                // its deadline went by
)

// Lease is what a won round grants to the holder: a deadline until which nobody else can hold the lock, as long as the
// clocks keep within the drift bound. With a grace the deadline comes that much earlier, and the keys stay: nobody else can
// hold the lock during the grace.
type Lease struct {
	votes      *Acquire // the round that won it, until every key is known; nil: every node may hold the key, and counts
	grant      Grant
	longest    time.Duration
	mayLast    time.Time // some node may keep the key until then, as far as that was asked for
	keys       []watched // nil until the first extension or observation
	extensions int32     // how many have been begun; one before a lock is attached, as others may have extended it
	holder     int32     // the number of the present holder: how many have handed the lock off
	holds      int32     // how many times the present one holds it: once, and once more for each reentry
	nodes      uint16
	ending     Ending
	cleanedUp  bool
}

// NewLease begins the lease that a won round over n nodes granted.
func NewLease(n int, grant Grant) *Lease {
	l := &Lease{nodes: uint16(n), grant: grant, holds: 1}
	l.try(grant)
	return l
}

// Start returns the instant from which the validity that the nodes have granted counts.
func (l *Lease) Start() time.Time { return l.grant.Start }

// Nodes returns over how many nodes the lock was taken.
func (l *Lease) Nodes() int { return int(l.nodes) }

// Deadline returns the instant from which the lock must not be relied on.
func (l *Lease) Deadline() time.Time { return l.grant.Deadline() }

// MayHold reports whether a node may hold the key: by the acquire, or since an extension may have arrived there. It may if that is
// not known.
func (l *Lease) MayHold(node int) bool {
	return l.extended() || l.votes == nil || l.votes.MayHold(node)
}

// Asking reports whether some node has not answered the acquire.
func (l *Lease) Asking() bool { return l.votes != nil && l.votes.Pending() > 0 }

// Known reports whether every node has shown what it holds since the acquire.
func (l *Lease) Known() bool { return l.votes == nil }

// extended reports whether an extension may have given the key to any node.
func (l *Lease) extended() bool { return l.extensions > 0 }

// Ask returns the grant to ask for in an extension that begins now.
func (l *Lease) Ask(now time.Time, ttl time.Duration) Grant {
	return Grant{Start: now, TTL: ttl, Drift: l.grant.Drift, Grace: l.grant.Grace}
}

// Exclusive reports whether nobody else can have the lock: it is held, or its grace is not over.
func (l *Lease) Exclusive(now time.Time) bool { return l.At(now) == NotEnded || l.InGrace(now) }

// InGrace reports whether the lease has expired, and nobody else can have the lock yet.
func (l *Lease) InGrace(now time.Time) bool {
	return l.At(now) == Expired && now.Before(l.grant.exclusive())
}

// ExclusiveUntil returns the instant until which nobody else can have the lock.
func (l *Lease) ExclusiveUntil() time.Time { return l.grant.exclusive() }

// Kept returns the instant until which a majority keeps the key at least.
func (l *Lease) Kept() time.Time { return l.grant.end() }

// MayLast returns the instant until which some node may keep the key, as far as that was asked for.
func (l *Lease) MayLast() time.Time { return l.mayLast }

// Longest returns the longest TTL that any node may have been given. For that long after the last contact with it a
// node may still hold the key.
func (l *Lease) Longest() time.Duration { return l.longest }

// Remaining returns the validity that is left; 0 once the lease is over.
func (l *Lease) Remaining(now time.Time) time.Duration {
	if l.At(now) != NotEnded {
		return 0
	}
	return l.Deadline().Sub(now)
}

// At returns how the lease stands at an instant; reaching the deadline ends it.
func (l *Lease) At(now time.Time) Ending {
	if l.ending == NotEnded && !now.Before(l.Deadline()) {
		l.ending = Expired
	}
	return l.ending
}

// End ends the lease, unless it has ended before, and returns how it stands.
func (l *Lease) End(now time.Time, how Ending) Ending {
	if l.At(now) == NotEnded {
		l.ending = how
	}
	return l.ending
}

// Enter is a reentry by the holder. It returns false if the lease is over.
func (l *Lease) Enter(now time.Time) (Hold, bool) {
	if l.At(now) != NotEnded {
		return Hold{}, false
	}
	l.holds++
	return l.Hold(), true
}

// Holds returns how many times the lock is held by the present holder.
func (l *Lease) Holds() int { return int(l.holds) }

// Leftovers reports, once, that the lease is over and may have left keys that outlive it: the nodes no longer agree on
// the lock, or it expired after an extension that failed. The shell then sends the release to every node that may
// hold the key. A lease that was released has no leftovers: its release is on the way, and its answers count.
//
// The keys stay until the grace is over: Leftovers returns false before.
func (l *Lease) Leftovers(now time.Time) bool {
	ending := l.At(now)
	left := ending == Lost || ending == Expired && l.mayLast.After(l.Kept()) && !l.InGrace(now)
	left, l.cleanedUp = left && !l.cleanedUp, l.cleanedUp || left
	return left
}

// tooLate is how an extension fails once the lease is over.
func (l *Lease) tooLate() Outcome {
	if l.ending == Lost {
		return Denied
	}
	return TooLate
}

// try notes that a grant is being asked for.
func (l *Lease) try(grant Grant) {
	l.longest = max(l.longest, grant.TTL)
	if grant.end().After(l.mayLast) {
		l.mayLast = grant.end()
	}
}

// Hold is what one handle has of a lease: several of one holder ([Lease.Enter]), or those of holders that handed it off
// ([Handoff]).
type Hold struct {
	lease  *Lease
	holder int32  // the number of its holder
	how    Ending // how the hold ended; NotEnded until then
}

// Hold returns a hold of the present holder, who has it already.
func (l *Lease) Hold() Hold { return Hold{lease: l, holder: l.holder} }

// At returns how the lock stands for this hold.
func (h *Hold) At(now time.Time) Ending {
	if h.how != NotEnded {
		return h.how
	}
	return h.lease.At(now)
}

// Ended reports whether the hold has ended by itself, and not only with its lease.
func (h *Hold) Ended() bool { return h.how != NotEnded }

// Current reports whether the holder that this hold belongs to has the lease, or was the last to have it.
func (h *Hold) Current() bool { return h.holder == h.lease.holder }

// Leave ends the hold. It returns true for the last of its holder: the lock is to be handed off or released then.
func (h *Hold) Leave(now time.Time) bool {
	if h.how = h.lease.At(now); h.how == NotEnded {
		h.how = Released
	}
	h.lease.holds--
	return h.lease.holds == 0
}
