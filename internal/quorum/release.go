package quorum

import "time"

// Release is the command to every node that may hold a lock to release it. Any other node counts as one that does not
// hold the key.
//
// Done means that a majority held the token until now and has deleted it. Denied means that too many nodes did not hold
// it, so the lock can no longer have been ours.
//
// A key that an extension may have given back counts as one that was not held. That is the key of a node that may not
// have held it all the time. Its answer to the extension comes before its answer to the release. It is every key if the
// lease is lost. It is also every key if the lease has expired after an extension, and its grace is over when the
// release begins. A lock that was attached counts as extended, because the process that detached it may have extended
// it.
type Release struct {
	tally
	lease *Lease
	late  bool
}

// Begin begins the release of a lock, in place. The shell sends the command to each node that may hold the key
// ([Lease.MayHold]).
func (r *Release) Begin(lease *Lease, now time.Time) *Release {
	r.begin(lease.Nodes())
	r.lease = lease
	r.late = lease.ending == Gone || lease.ending == Expired && lease.extended() && !lease.Exclusive(now)
	for i := range lease.Nodes() {
		if !lease.MayHold(i) {
			r.count(i, No, "")
		}
	}
	return r
}

// Vote records the answer of a node. server is the identity of the server that gave it, or "" if that is unknown.
func (r *Release) Vote(_ Clock, node int, answer Answer, server string) Actions {
	if answer == Yes && r.late {
		answer = Recreated
	}
	if !r.count(node, r.lease.counted(node, answer), server) || r.over {
		return Actions{}
	}
	return r.conclude(r.outcome())
}

// Late records a late answer like any other.
func (r *Release) Late(clock Clock, node int, answer Answer, server string) Actions {
	return r.Vote(clock, node, answer, server)
}
