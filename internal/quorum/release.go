package quorum

// Release gives a lock back on every node that its acquire may have reached. A
// node that was never reached counts as one that does not hold the key.
//
// Done means that a majority held the token until now and let go of it. Denied
// means that so many did not hold it that the lock cannot have been ours any more.
type Release struct {
	tally
	told bool
}

// NewRelease begins the release of a lock that was won over n nodes. The shell
// sends the release to each node that the acquire may have reached.
func NewRelease(n int, reached func(node int) bool) *Release {
	r := &Release{tally: newTally(n)}
	r.without(reached)
	return r
}

// Asked tells that the release has gone out to every node: nothing waits for that.
func (r *Release) Asked(Clock) Effects { return Effects{} }

// Vote takes the answer of a node and the identity of the server that gave it
// ("" where unknown).
func (r *Release) Vote(_ Clock, node int, vote Vote, server string) Effects {
	if !r.count(node, vote, server) || r.told {
		return Effects{}
	}
	outcome := r.outcome()
	r.told = outcome != Undecided
	return Effects{Outcome: outcome}
}

// Stop ends the wait of the caller; the release goes on.
func (r *Release) Stop(Clock) Effects {
	if r.told {
		return Effects{}
	}
	r.told = true
	return Effects{Outcome: NoQuorum}
}
