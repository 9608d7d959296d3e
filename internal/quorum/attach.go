package quorum

import "time"

// Attach takes up a lock of which only the token is known. It asks every node what it holds and changes nothing.
//
// It is done at the majority-th node that holds the token with the same number, if validity is left. The TTL of the
// lease is the shortest that those nodes have left.
type Attach struct {
	tally
	grant Grant  // its TTL is the shortest so far
	fence uint64 // the number that has come last
}

// NewAttach begins to attach over n nodes. The Start of the grant is read before the first node is asked, and it has no TTL.
func NewAttach(n int, grant Grant) *Attach {
	a := &Attach{grant: grant}
	a.begin(n)
	return a
}

// Observed takes what a node holds: Yes means the token, with the number beside it (0 means none) and the TTL that is left.
func (a *Attach) Observed(clock Clock, node int, answer Answer, number uint64, ttl time.Duration, server string) Actions {
	if !a.count(node, answer, server) || a.over {
		return Actions{}
	}
	outcome := a.outcome()
	if a.Answer(node) == Yes {
		if a.yes == 1 || ttl < a.grant.TTL {
			a.grant.TTL = ttl
		}
		a.ballots[node].number, a.fence = number, number
	}
	switch agreed := a.same(a.fence) >= a.need(); {
	case outcome != Done:
	case !agreed && a.Pending() > 0:
		outcome = Undecided
	case !agreed:
		outcome = NoQuorum
	case !clock.Now().Before(a.grant.Deadline()):
		outcome = TooLate
	}
	return a.conclude(outcome)
}

// Fence returns the fencing token of the lock; 0 if it has none.
func (a *Attach) Fence() uint64 { return a.fence }

// Lease begins the lease of a lock that has been taken up. longest is the longest TTL that a node may have been given,
// as far as the caller knows.
func (a *Attach) Lease(longest time.Duration) Lease {
	l := NewLease(len(a.ballots), a.grant)
	l.extensions, l.longest = 1, max(l.longest, longest)
	return *l
}
