package quorum

// Acquire is one round: one fresh token sent to every node at once.
//
// It is won at the majority-th yes, if validity is left then, and reports that at once; votes that come later only
// make the lock sturdier. It is lost as soon as no majority is possible: at that event the release goes to
// every node that may hold the token ([Acquire.MayHold]), including those that have not answered. A node that said no
// holds another token: it gets no release, which could only delete that one, and is observed. The loss
// is reported when its reason is certain and the nodes that answered have answered that too;
// [Acquire.Stop] ends that wait.
//
// With fencing a yes comes with a number ([Acquire.Granted]), and only the nodes that agree on the token count.
type Acquire struct {
	tally
	grant Grant
	token uint64 // the fencing token; 0 without fencing, and while it is not known
	late  bool   // a majority came, but after the deadline
	lost  bool   // the release has been sent
	slots bool   // it is for a slot: the numbers are slots, and those of a majority have to be the same
}

// Begin begins a round over n nodes, in place. The shell sends the acquire to each, before it carries out what the answers lead
// to: no release overtakes its acquire.
func (a *Acquire) Begin(n int, grant Grant) *Acquire {
	a.begin(n)
	a.grant = grant
	return a
}

// Unsent records that some nodes have not taken the acquire. It takes all of them at once: a round that is lost thereby is released
// on none of them.
func (a *Acquire) Unsent(clock Clock, nodes []int) Actions {
	for _, node := range nodes {
		a.count(node, Unsent, "")
	}
	return a.decide(clock)
}

// Vote takes the answer of a node and the identity of the server that gave it, or "" if that is unknown.
func (a *Acquire) Vote(clock Clock, node int, answer Answer, server string) Actions {
	if !a.count(node, answer, server) {
		return Actions{}
	}
	return a.decide(clock)
}

// Late takes an answer that has come late, as any other.
func (a *Acquire) Late(clock Clock, node int, answer Answer, server string) Actions {
	return a.Vote(clock, node, answer, server)
}

// Released reports that a node has answered the release of a lost round, or the observation in its place, or that this has failed.
func (a *Acquire) Released(node int) Actions {
	a.ballots[node].released = true
	if a.lost && !a.over {
		return a.report(Actions{})
	}
	return Actions{}
}

// Stop ends the wait of the caller: it gave up, or the node timeout is over. A round that is still open is lost.
func (a *Acquire) Stop(Clock) Actions {
	if a.over {
		return Actions{}
	}
	actions := a.conclude(a.reason())
	if !a.lost {
		actions.Release = a.nodes(a.MayHold)
	}
	return actions
}

// MayHold reports whether a node may hold the token: the acquire may have arrived there, and was not answered with no.
func (a *Acquire) MayHold(node int) bool {
	return a.Answer(node) != Unsent && a.Answer(node) != No
}

// Lease begins the lease of a round that is won, whose further votes it looks at.
func (a *Acquire) Lease() Lease {
	l := NewLease(len(a.ballots), a.grant)
	l.votes = a
	return *l
}

// Holds reports whether a node has said yes, though maybe under another name of its server.
func (a *Acquire) Holds(node int) bool {
	if of, twin := a.Duplicate(node); twin {
		node = of
	}
	return a.Answer(node) == Yes && (!a.slots || a.ballots[node].number == a.token)
}

func (a *Acquire) decide(clock Clock) Actions {
	agreed, possible := 0, a.Pending()
	for i := range a.ballots {
		agrees, open := a.Agrees(i)
		if agrees {
			agreed++
		}
		if agrees || open {
			possible++
		}
	}
	if a.slots && a.token == 0 {
		possible += a.most()
	}
	majority := agreed >= a.need()
	switch {
	case a.over:
		return Actions{}
	case a.lost:
		return a.report(Actions{})
	case majority && clock.Now().Before(a.grant.Deadline()):
		return a.conclude(Done)
	case majority || possible < a.need():
		a.late, a.lost = majority, true
		denied := a.nodes(func(node int) bool { return a.Answer(node) == No })
		return a.report(Actions{Release: a.nodes(a.MayHold), Observe: denied, AwaitCleanUp: true})
	}
	return Actions{}
}

// report adds the outcome of a lost round to actions once it can be reported.
func (a *Acquire) report(actions Actions) Actions {
	certain := a.answered() >= a.need() || a.answered()+a.Pending() < a.need()
	if certain && a.cleanedUp() {
		return Actions{Release: actions.Release, Observe: actions.Observe, Outcome: a.conclude(a.reason()).Outcome}
	}
	return actions
}

// cleanedUp reports whether every node that answered the acquire has answered what followed.
func (a *Acquire) cleanedUp() bool {
	for _, b := range a.ballots {
		if (b.answer == Yes || b.answer == No || b.answer == Refused) && !b.released {
			return false
		}
	}
	return true
}

// reason returns why the round is lost. If a majority answered, others hold too many nodes; otherwise too few answered.
func (a *Acquire) reason() Outcome {
	switch {
	case a.late:
		return TooLate
	case (a.hopeless() || a.slots) && a.answered() >= a.need():
		return Denied
	default:
		return NoQuorum
	}
}

func (a *Acquire) answered() int { return int(a.yes + a.no) }
