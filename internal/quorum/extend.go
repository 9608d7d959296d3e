package quorum

import "time"

// Extend asks every node for a longer TTL under the token of a lock that is held.
//
// It is done by the majority-th yes, if the lease still stands then, and moves its
// deadline; or it has failed, and the deadline stays. Then each node that may have made
// its TTL longer is sent the old one, behind the extension.
//
// A node that does not hold the key, as it has forgotten it or was never reached, is given
// it by the extension. That makes the lock sturdier from the next time on, but it is no
// yes: a node that had forgotten the key may have granted it to another meanwhile.
type Extend struct {
	tally
	lease *Lease
	grant Grant
	asked bool // the extend has gone out to every node
	told  bool
}

// NewExtend begins an extension of a lease. The shell sends the extend to each node that
// [Extend.Ask] allows, and then calls [Extend.Asked]. A lease has one extension at a time: the next
// begins when the one before has been told, and all their events are serialised.
func NewExtend(lease *Lease, grant Grant) *Extend {
	lease.spread = true
	lease.try(grant)
	return &Extend{tally: newTally(lease.nodes), lease: lease, grant: grant}
}

// Ask says whether the extend may go out to one more node. It may not once the lease is
// over, since it could make a key that has been released, or has lapsed, come into being
// again: from then on nothing but the release follows. A node that is not asked is told as Unsent.
func (e *Extend) Ask(clock Clock) bool { return e.lease.At(clock.Now()) == Held }

// Vote takes the answer of a node and the identity of the server that gave it
// ("" where unknown).
func (e *Extend) Vote(clock Clock, node int, vote Vote, server string) Effects {
	if vote == Yes && !e.told && e.lease.restores(node) {
		vote = Lost // the old TTL may still arrive behind it, and undo it
	}
	if !e.count(node, vote, server) {
		return Effects{}
	}
	return e.judge(clock)
}

// Asked tells that the extend has gone out to every node. Until then it can be done
// but not fail, so that no old TTL overtakes it.
func (e *Extend) Asked(clock Clock) Effects {
	e.asked = true
	return e.judge(clock)
}

func (e *Extend) judge(clock Clock) Effects {
	if e.told {
		return Effects{}
	}
	now := clock.Now()
	held, outcome := e.lease.At(now) == Held, e.outcome()
	switch {
	case held && outcome == Done && now.Before(e.grant.Deadline()):
		e.told = true
		e.lease.extend(e.grant)
		return Effects{Outcome: Done}
	case !e.asked || held && outcome == Undecided:
		return Effects{}
	case !held || outcome == Done: // the lease is over, or the new TTL was used up before the old one
		return e.fail(now, TooLate)
	case outcome == Denied:
		e.lease.End(now, Gone)
	}
	return e.fail(now, outcome)
}

// Stop gives the extension up, after Asked: the caller did, or the lease is over.
func (e *Extend) Stop(clock Clock) Effects {
	if e.told {
		return Effects{}
	}
	now := clock.Now()
	if e.lease.At(now) != Held {
		return e.fail(now, TooLate)
	}
	return e.fail(now, NoQuorum)
}

// Restored tells how the sending of the old TTL to a node ended: Lost where it may
// still arrive. As long as it may, the node's yes to another extension is worth
// nothing, since it could be cut short behind the holder's back.
func (e *Extend) Restored(node int, vote Vote) {
	if vote != Lost {
		e.lease.restoring[node]--
	}
}

// fail has what is left of the old TTL sent to the nodes that may hold a longer one.
// Where the lease is over, they are sent the release anyway.
func (e *Extend) fail(now time.Time, outcome Outcome) Effects {
	e.told = true
	effects := Effects{Outcome: outcome}
	if e.lease.At(now) != Held {
		return effects
	}
	effects.TTL = e.lease.Kept().Sub(now)
	for node := range e.ballots {
		if said := e.Said(node); said != No && said != Unsent {
			effects.Restore = append(effects.Restore, node)
			e.lease.restore(node)
		}
	}
	return effects
}
