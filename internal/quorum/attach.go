package quorum

import "time"

// Attach is the search for a lock by its token alone. It asks every node for its key and changes nothing.
//
// It is done at the majority-th node that holds the token with the same number, if validity is left. The TTL of the
// lease is the shortest that is left on a node with the token.
type Attach struct {
	tally
	grant Grant  // its TTL is the shortest so far
	fence uint64 // the number of the last yes
}

// NewAttach begins to attach over n nodes. The Start of grant is read before the first node is asked. grant has no TTL.
func NewAttach(n int, grant Grant) *Attach {
	a := &Attach{grant: grant}
	a.begin(n)
	return a
}

// Observed records the answer of a node. Yes means that the node holds the token. Then number is the number beside the
// token (0 means none), and ttl is the TTL that is left.
func (a *Attach) Observed(
	clock Clock, node int, answer Answer, number uint64, ttl time.Duration, server string,
) Actions {
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

// Fence returns the number that the nodes hold beside the token. 0 means that there is none.
func (a *Attach) Fence() uint64 { return a.fence }

// Lease begins the lease of the lock. longest is the longest TTL that a node may have been given, to the knowledge of
// the caller.
func (a *Attach) Lease(longest time.Duration) Lease {
	l := NewLease(len(a.ballots), a.grant)
	l.extensions, l.longest = 1, max(l.longest, longest)
	return *l
}
