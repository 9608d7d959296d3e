package quorum

// Extend is a request to every node for a longer TTL, under the token of a lock that is held.
//
// It is done at the majority-th yes, if the lease still stands then, and moves the deadline of the lease. Otherwise it
// fails, and the deadline stays. A failed extension is not taken back. The nodes that obeyed it keep the key for
// longer, until the lease ends and [Lease.Leftovers] leads to its release.
//
// The extension re-creates the key on a node that does not hold it, because the node has forgotten it or was never
// reached. That makes the lock sturdier once the next extension is done. But it is no yes: a node that had forgotten
// the key may have granted it to another holder meanwhile.
type Extend struct {
	tally
	lease  *Lease
	grant  Grant
	number int32
}

// Begin begins an extension of a lease that stands, in place. The shell sends the command to each node, but not from
// the deadline on, because it could re-create a key that has lapsed. A node that is not asked counts as Unsent. A lease
// has one extension at a time: the next begins when the outcome of the one before has been reported. All their events
// are serialised.
func (e *Extend) Begin(lease *Lease, grant Grant) *Extend {
	lease.try(grant)
	e.begin(lease.Nodes())
	e.lease, e.grant, e.number = lease, grant, lease.extending()
	return e
}

// Vote records the answer of a node. server is the identity of the server that gave it, or "" if that is unknown.
func (e *Extend) Vote(clock Clock, node int, answer Answer, server string) Actions {
	if !e.counts(node, answer, server) {
		return Actions{}
	}
	e.lease.keys[node].asked--
	return e.voted(clock, node, answer)
}

func (e *Extend) counts(node int, answer Answer, server string) bool {
	return e.count(node, e.lease.counted(node, answer), server)
}

// Late records the answer of a node whose vote was Unknown, because no answer had come in time.
func (e *Extend) Late(clock Clock, node int, answer Answer, server string) Actions {
	b := &e.ballots[node]
	if b.answer == Pending { // the answer has overtaken that vote
		return e.Vote(clock, node, answer, server)
	} else if b.answer != Unknown {
		return Actions{}
	}
	b.answer = Pending
	e.counts(node, answer, server)
	return e.voted(clock, node, answer)
}

// voted decides, and records in the lease the key that the answer of a node shows. A majority confirms the lease even
// if it comes too late for the outcome.
func (e *Extend) voted(clock Clock, node int, answer Answer) Actions {
	if e.Answer(node) == Refused { // maybe because its server has voted for another node
		answer = Refused
	}
	actions := e.decide(clock)
	e.lease.shown(clock, node, answer)
	if !e.over && e.lease.ending == Gone { // by this answer, and earlier ones of other nodes
		actions = e.conclude(Denied)
	}
	if e.outcome() == Done {
		e.lease.confirmed(e.number)
	}
	if answer == Refused && e.lease.observe(clock, node) { // the node answers, but has not shown the pushed change
		actions.Observe = []int{node}
	}
	return actions
}

// decide concludes the extension if its outcome is certain now. If it is Done, the deadline of the lease moves. If it
// is Denied, the lease is Gone.
func (e *Extend) decide(clock Clock) Actions {
	if e.over {
		return Actions{}
	}
	now := clock.Now()
	held, outcome := e.lease.At(now) == NotEnded, e.outcome()
	switch {
	case !held:
		outcome = e.lease.tooLate()
	case outcome == Done && now.Before(e.grant.Deadline()):
		if e.grant.Deadline().After(e.lease.Deadline()) { // the deadline never moves backwards
			e.lease.grant = e.grant
		}
	case outcome == Done: // the new TTL was used up before the old one
		outcome = TooLate
	case outcome == Denied:
		e.lease.End(now, Gone)
	}
	return e.conclude(outcome)
}

// Stop gives up the extension, because its caller did or because the lease is over.
func (e *Extend) Stop(clock Clock) Actions {
	if !e.over && e.lease.At(clock.Now()) != NotEnded {
		return e.conclude(e.lease.tooLate())
	}
	return e.tally.Stop(clock)
}
