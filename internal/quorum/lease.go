package quorum

import (
	"time"
)

// Ending is the way in which a lease ended.
type Ending uint8

// The endings. A lease ends once.
const (
	NotEnded Ending = iota // the lease stands
	Released               // the holder released it
	Gone                   // the nodes no longer hold it
	Expired                // its deadline went by
)

// Lease is the right that a won round grants to the holder: until the deadline nobody else can hold the lock. That is
// true if the clocks keep within the drift bound. With a grace the deadline comes that much earlier, and the keys stay.
// So nobody else can hold the lock during the grace.
type Lease struct {
	// votes is the round that won the lease, until every key is known. nil means that every node may hold the key, and
	// counts.
	votes   *Acquire
	grant   Grant
	longest time.Duration
	mayLast time.Time // the latest instant until which some node was asked to keep the key
	keys    []watched // nil until the first extension or observation
	// extensions is how many have begun. It starts at one for a lock that is attached, because others may have extended
	// it.
	extensions int32
	holder     int32 // the number of the present holder: how many holders have handed the lock off
	holds      int32 // how many holds the present holder has: one, and one more for each reentry
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

// Nodes returns the number of nodes over which the lock was taken.
func (l *Lease) Nodes() int { return int(l.nodes) }

// Deadline returns the instant from which the lock must not be relied on.
func (l *Lease) Deadline() time.Time { return l.grant.Deadline() }

// MayHold reports whether a node may hold the key: by the acquire, or because an extension may have arrived there. It
// returns true if that is not known.
func (l *Lease) MayHold(node int) bool {
	return l.extended() || l.votes == nil || l.votes.MayHold(node)
}

// Asking reports whether some node has not answered the acquire.
func (l *Lease) Asking() bool { return l.votes != nil && l.votes.Pending() > 0 }

// Known reports whether every node has shown its key since the acquire. It is also true for a lock that was attached.
func (l *Lease) Known() bool { return l.votes == nil }

// extended reports whether an extension may have given the key to any node.
func (l *Lease) extended() bool { return l.extensions > 0 }

// Ask returns the grant to ask for in an extension that begins now.
func (l *Lease) Ask(now time.Time, ttl time.Duration) Grant {
	return Grant{Start: now, TTL: ttl, Drift: l.grant.Drift, Grace: l.grant.Grace}
}

// Exclusive reports whether nobody else can have the lock: the lease stands, or its grace is not over.
func (l *Lease) Exclusive(now time.Time) bool { return l.At(now) == NotEnded || l.InGrace(now) }

// InGrace reports whether the lease has expired, and nobody else can have the lock yet.
func (l *Lease) InGrace(now time.Time) bool {
	return l.At(now) == Expired && now.Before(l.grant.exclusive())
}

// ExclusiveUntil returns the instant until which nobody else can have the lock.
func (l *Lease) ExclusiveUntil() time.Time { return l.grant.exclusive() }

// Kept returns the instant until which a majority keeps the key at least.
func (l *Lease) Kept() time.Time { return l.grant.end() }

// MayLast returns the latest instant until which some node was asked to keep the key.
func (l *Lease) MayLast() time.Time { return l.mayLast }

// Longest returns the longest TTL that any node may have been given. For that long after the last contact with a node,
// the node may still hold the key.
func (l *Lease) Longest() time.Duration { return l.longest }

// Remaining returns the validity that is left. It returns 0 once the lease is over.
func (l *Lease) Remaining(now time.Time) time.Duration {
	if l.At(now) != NotEnded {
		return 0
	}
	return l.Deadline().Sub(now)
}

// At returns how the lease stands at an instant. Reaching the deadline ends the lease.
func (l *Lease) At(now time.Time) Ending {
	if l.ending == NotEnded && !now.Before(l.Deadline()) {
		l.ending = Expired
	}
	return l.ending
}

// End ends the lease, unless it has ended before. It returns how the lease ended.
func (l *Lease) End(now time.Time, how Ending) Ending {
	if l.At(now) == NotEnded {
		l.ending = how
	}
	return l.ending
}

// Enter adds a hold of the holder, for a reentry. It returns false if the lease is over.
func (l *Lease) Enter(now time.Time) (Hold, bool) {
	if l.At(now) != NotEnded {
		return Hold{}, false
	}
	l.holds++
	return l.Hold(), true
}

// Holds returns how many holds the present holder has.
func (l *Lease) Holds() int { return int(l.holds) }

// Leftovers reports, once, that the lease is over and may have left keys that outlive it. Either the nodes no longer
// agree on the lock, or it expired after an extension that failed. The shell then sends the release to every node that
// may hold the key. A lease that was released has no leftovers: its release is on the way, and the answers to that
// count.
//
// The keys stay until the grace is over: Leftovers returns false before.
func (l *Lease) Leftovers(now time.Time) bool {
	ending := l.At(now)
	left := ending == Gone || ending == Expired && l.mayLast.After(l.Kept()) && !l.InGrace(now)
	left, l.cleanedUp = left && !l.cleanedUp, l.cleanedUp || left
	return left
}

// tooLate returns the outcome of an extension that fails because the lease is over.
func (l *Lease) tooLate() Outcome {
	if l.ending == Gone {
		return Denied
	}
	return TooLate
}

// try records that a grant is asked for.
func (l *Lease) try(grant Grant) {
	l.longest = max(l.longest, grant.TTL)
	if grant.end().After(l.mayLast) {
		l.mayLast = grant.end()
	}
}

// Hold is the part of a lease that one handle has. A holder may have several holds ([Lease.Enter]). Earlier holders
// that handed the lease off ([Handoff]) have had holds too.
type Hold struct {
	lease  *Lease
	holder int32  // the number of its holder
	how    Ending // how the hold ended; NotEnded until then
}

// Hold returns a hold of the present holder that is counted already.
func (l *Lease) Hold() Hold { return Hold{lease: l, holder: l.holder} }

// At returns how the lock stands for this hold.
func (h *Hold) At(now time.Time) Ending {
	if h.how != NotEnded {
		return h.how
	}
	return h.lease.At(now)
}

// Ended reports whether the hold itself has ended, and not only its lease.
func (h *Hold) Ended() bool { return h.how != NotEnded }

// Current reports whether the holder of this hold has the lease, or was the last to have it.
func (h *Hold) Current() bool { return h.holder == h.lease.holder }

// Leave ends the hold. It returns true if that was the last hold of its holder. The lock is to be handed off or
// released then.
func (h *Hold) Leave(now time.Time) bool {
	if h.how = h.lease.At(now); h.how == NotEnded {
		h.how = Released
	}
	h.lease.holds--
	return h.lease.holds == 0
}
