package quorum

// Release releases a lock on every node that its acquire may have reached. A node that was never reached counts as
// one that does not hold the key.
//
// Done means that a majority held the token until now and has deleted it. Denied means that so many nodes did not
// hold it that the lock cannot have been ours any more.
type Release struct{ tally }

// NewRelease begins the release of a lock that was won over n nodes. The shell sends the command to each node that
// the acquire may have reached.
func NewRelease(n int, reached func(node int) bool) *Release {
	r := &Release{tally: newTally(n)}
	for i := range n {
		if !reached(i) {
			r.count(i, No, "")
		}
	}
	return r
}

// Vote takes the answer of a node and the identity of the server that gave it, or "" if that is unknown.
func (r *Release) Vote(_ Clock, node int, answer Answer, server string) Actions {
	if !r.count(node, answer, server) || r.over {
		return Actions{}
	}
	return r.conclude(r.outcome())
}
