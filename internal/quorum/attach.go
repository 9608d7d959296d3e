package quorum

import "time"

// Attach takes up a lock of which only the token is known. It asks every node what it
// holds and changes nothing.
//
// It is done by the majority-th node that holds the token with the same number, with the least of the TTLs that
// those with the token have left, if validity is left of that.
type Attach struct {
	tally
	grant   Grant    // its TTL is the least of those that count
	numbers []uint64 // that the nodes hold with the token; 0: none
	fence   uint64
	told    bool
}

// NewAttach begins to attach over n nodes; start is read before the first look.
func NewAttach(n int, start time.Time, drift Drift) *Attach {
	return &Attach{tally: newTally(n), numbers: make([]uint64, n), grant: Grant{Start: start, Drift: drift}}
}

// Asked tells that the look has gone out to every node: nothing waits for that.
func (a *Attach) Asked(Clock) Effects { return Effects{} }

// Saw takes what a node holds: Yes for the token, with the number beside it (0: none) and the TTL that is left.
func (a *Attach) Saw(clock Clock, node int, vote Vote, number uint64, ttl time.Duration, server string) Effects {
	if !a.count(node, vote, server) || a.told {
		return Effects{}
	}
	outcome := a.outcome()
	if a.Said(node) == Yes {
		if a.yes == 1 || ttl < a.grant.TTL {
			a.grant.TTL = ttl
		}
		a.numbers[node], a.fence = number, number
	}
	if outcome == Done && !a.agreed() {
		outcome = Undecided
		if a.pending() == 0 {
			outcome = NoQuorum
		}
	}
	if outcome == Done && !clock.Now().Before(a.grant.Deadline()) {
		outcome = TooLate
	}
	a.told = outcome != Undecided
	return Effects{Outcome: outcome}
}

// agreed says whether a majority holds the number that has come last.
func (a *Attach) agreed() bool {
	n := 0
	for i, number := range a.numbers {
		if a.Said(i) == Yes && number == a.fence {
			n++
		}
	}
	return n >= a.need()
}

// Fence returns the fencing token of the lock; 0 where it has none.
func (a *Attach) Fence() uint64 { return a.fence }

// Stop ends the wait of the caller.
func (a *Attach) Stop(Clock) Effects {
	if a.told {
		return Effects{}
	}
	a.told = true
	return Effects{Outcome: NoQuorum}
}

// Lease begins the lease of a lock that has been taken up. longest is the longest TTL
// that a node may have been given, as far as the caller knows.
func (a *Attach) Lease(longest time.Duration) *Lease {
	l := NewLease(len(a.ballots), a.grant)
	l.spread, l.longest = true, max(l.longest, longest)
	return l
}
