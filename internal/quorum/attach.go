package quorum

import "time"

// Attach takes up a lock of which only the token is known. It asks every node what it
// holds and changes nothing.
//
// It is done by the majority-th node that holds the token, with the least of the TTLs that
// they have left, if validity is left of that.
type Attach struct {
	tally
	grant Grant // its TTL is the least of those that count
	told  bool
}

// NewAttach begins to attach over n nodes; start is read before the first look.
func NewAttach(n int, start time.Time, drift Drift) *Attach {
	return &Attach{tally: newTally(n), grant: Grant{Start: start, Drift: drift}}
}

// Asked tells that the look has gone out to every node: nothing waits for that.
func (a *Attach) Asked(Clock) Effects { return Effects{} }

// Saw takes what a node holds: Yes for the token, with the TTL that is left of it.
func (a *Attach) Saw(clock Clock, node int, vote Vote, ttl time.Duration, server string) Effects {
	if !a.count(node, vote, server) || a.told {
		return Effects{}
	}
	if a.Said(node) == Yes && (a.yes == 1 || ttl < a.grant.TTL) {
		a.grant.TTL = ttl
	}
	outcome := a.outcome()
	if outcome == Done && !clock.Now().Before(a.grant.Deadline()) {
		outcome = TooLate
	}
	a.told = outcome != Undecided
	return Effects{Outcome: outcome}
}

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
