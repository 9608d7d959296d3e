package quorum

import "time"

// Ending says how a lease ended.
type Ending uint8

// The endings. A lease ends once.
const (
	Held     Ending = iota // it has not
	Released               // the holder gave it back
	Gone                   // the nodes no longer hold it
	Expired                // its deadline went by
)

// Lease is what a won round leaves in the holder's hands: a deadline until which
// nobody else can hold the lock, while clocks keep within the drift bound.
type Lease struct {
	nodes     int
	grant     Grant
	longest   time.Duration
	tried     time.Time // until when some node may keep the key, as far as that was asked for
	ending    Ending
	swept     bool
	spread    bool  // an extension has been begun: it may have planted the key on any node
	holds     int   // how many times the lock is held: once, and once more for each reentry
	restoring []int // restoring[i] counts the old TTLs that may still arrive at node i; nil until there is one
}

// NewLease begins the lease that a won round over n nodes granted.
func NewLease(n int, grant Grant) *Lease {
	l := &Lease{nodes: n, grant: grant, holds: 1}
	l.try(grant)
	return l
}

// Deadline returns the instant from which the lock must not be relied on.
func (l *Lease) Deadline() time.Time { return l.grant.Deadline() }

// Spread says whether every node may hold the key, and not only those that the acquire
// may have reached.
func (l *Lease) Spread() bool { return l.spread }

// Kept returns the instant until which a majority keeps the key, at least.
func (l *Lease) Kept() time.Time { return l.grant.end() }

// Longest returns the longest TTL that any node may have been given: that long
// after the last contact with it a node may still hold the key.
func (l *Lease) Longest() time.Duration { return l.longest }

// Remaining returns the validity that is left; 0 once the lease is over.
func (l *Lease) Remaining(now time.Time) time.Duration {
	if l.At(now) != Held {
		return 0
	}
	return l.Deadline().Sub(now)
}

// At returns how the lease stands at an instant; reaching the deadline ends it.
func (l *Lease) At(now time.Time) Ending {
	if l.ending == Held && !now.Before(l.Deadline()) {
		l.ending = Expired
	}
	return l.ending
}

// End ends the lease, if nothing has ended it before, and returns how it stands.
func (l *Lease) End(now time.Time, how Ending) Ending {
	if l.At(now) == Held {
		l.ending = how
	}
	return l.ending
}

// Enter counts a reentry by the holder; false: the lease is over.
func (l *Lease) Enter(now time.Time) bool {
	if l.At(now) != Held {
		return false
	}
	l.holds++
	return true
}

// Leave ends a hold. It returns true for the last one: then the lock is to be released.
func (l *Lease) Leave() bool {
	l.holds--
	return l.holds == 0
}

// Holds returns how many times the lock is held.
func (l *Lease) Holds() int { return l.holds }

// Detach ends the lease and leaves the keys where they are, for another to take up. It does not while an old TTL may still
// arrive somewhere, which would be cut off behind the other's back.
func (l *Lease) Detach(now time.Time) bool {
	for _, n := range l.restoring {
		if n > 0 {
			return false
		}
	}
	l.swept = true
	return l.End(now, Released) == Released
}

// Leftovers says, once, that the lease is over in a way that leaves keys behind for
// longer than anybody counts on: the shell sends the release to every node that the
// acquire may have reached. A lease that was released is not among them: its release is
// on the way, and its answers count.
func (l *Lease) Leftovers() bool {
	left := l.ending == Gone || l.ending == Expired && l.tried.After(l.Kept())
	left, l.swept = left && !l.swept, l.swept || left
	return left
}

// try notes that a grant is being asked for.
func (l *Lease) try(grant Grant) {
	l.longest = max(l.longest, grant.TTL)
	if grant.end().After(l.tried) {
		l.tried = grant.end()
	}
}

// extend takes a confirmed grant. A deadline never moves backwards: a grant that
// ends earlier changes nothing.
func (l *Lease) extend(grant Grant) {
	if grant.Deadline().After(l.grant.Deadline()) {
		l.grant = grant
	}
}

// restore notes that an old TTL is sent to a node.
func (l *Lease) restore(node int) {
	if l.restoring == nil {
		l.restoring = make([]int, l.nodes)
	}
	l.restoring[node]++
}

// restores says whether an old TTL may still arrive at a node.
func (l *Lease) restores(node int) bool { return l.restoring != nil && l.restoring[node] > 0 }
