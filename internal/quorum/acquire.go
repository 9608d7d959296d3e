package quorum

// Acquire is one round: one fresh token sent to every node at once.
//
// The round is won at the majority-th yes, if validity is left then. It reports that at once; later votes only make the
// lock sturdier. The round is lost as soon as no majority is possible. At that event the release goes to every node
// that may hold the token ([Acquire.MayHold]), also if it has not answered. A node that said no holds another token. It
// gets no release, which could only delete that other token, but an observation. The loss is reported when its reason
// is certain, and the nodes that answered the acquire have answered the release or the observation too. [Acquire.Stop]
// ends that wait.
//
// With fencing a yes comes with a number ([Acquire.Granted]), and only the nodes that agree on the token count.
type Acquire struct {
	tally
	grant Grant
	token uint64 // the fencing token or the slot; 0 while it is not known, and if there is none
	late  bool   // a majority said yes, but after the deadline
	lost  bool   // the shell was told to send the release
	slots bool   // the round is for a slot: the numbers are slots, and a majority has to grant the same one
}

// Begin begins a round over n nodes, in place. The shell sends the acquire to each node before it carries out the
// Actions that the answers lead to. So no release overtakes its acquire.
func (a *Acquire) Begin(n int, grant Grant) *Acquire {
	a.begin(n)
	a.grant = grant
	return a
}

// Unsent records that some nodes did not accept the acquire. It records all of them at once, so that a round that is
// lost by this is released on none of them.
func (a *Acquire) Unsent(clock Clock, nodes []int) Actions {
	for _, node := range nodes {
		a.count(node, Unsent, "")
	}
	return a.decide(clock)
}

// Vote records the answer of a node. server is the identity of the server that gave it, or "" if that is unknown.
func (a *Acquire) Vote(clock Clock, node int, answer Answer, server string) Actions {
	if !a.count(node, answer, server) {
		return Actions{}
	}
	return a.decide(clock)
}

// Late records a late answer like any other.
func (a *Acquire) Late(clock Clock, node int, answer Answer, server string) Actions {
	return a.Vote(clock, node, answer, server)
}

// Released records that a node has answered the release of a lost round, or the observation in its place, or that this
// has failed.
func (a *Acquire) Released(node int) Actions {
	a.ballots[node].released = true
	if a.lost && !a.over {
		return a.report(Actions{})
	}
	return Actions{}
}

// Stop ends the wait of the caller, because the caller gave up or the node timeout is over. A round that is still open
// is lost.
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

// MayHold reports whether a node may hold the token: the acquire may have arrived there, and the answer to it was not
// no.
func (a *Acquire) MayHold(node int) bool {
	return a.Answer(node) != Unsent && a.Answer(node) != No
}

// Lease begins the lease of a round that is won. The lease looks at the later votes of the round too.
func (a *Acquire) Lease() Lease {
	l := NewLease(len(a.ballots), a.grant)
	l.votes = a
	return *l
}

// Holds reports whether the server of a node has said yes, though maybe as another node. In a round for a slot, the
// server must have granted the slot of the round.
func (a *Acquire) Holds(node int) bool {
	if of, twin := a.Duplicate(node); twin {
		node = of
	}
	return a.Answer(node) == Yes && (!a.slots || a.ballots[node].number == a.token)
}

// Split reports whether a round that is lost may have been split: callers that tried at the same time have each won
// some of the nodes. Then one node said yes and another one no, and at most a minority of all nodes gave no such
// answer. In a round for a slot, another slot is like a no. Another round may win.
func (a *Acquire) Split() bool {
	return a.lost && !a.late && a.yes > 0 && (a.no > 0 || a.slots) && a.answered() >= a.need()
}

// decide finds out whether the round is won or lost by now, and returns the Actions that follow.
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

// report adds the outcome of a lost round to actions, if it can be reported now.
func (a *Acquire) report(actions Actions) Actions {
	certain := a.answered() >= a.need() || a.answered()+a.Pending() < a.need()
	if certain && a.cleanedUp() {
		return Actions{Release: actions.Release, Observe: actions.Observe, Outcome: a.conclude(a.reason()).Outcome}
	}
	return actions
}

// cleanedUp reports whether every node that answered the acquire has answered the release or the observation that
// followed.
func (a *Acquire) cleanedUp() bool {
	for _, b := range a.ballots {
		if (b.answer == Yes || b.answer == No || b.answer == Refused) && !b.released {
			return false
		}
	}
	return true
}

// reason returns why the round is lost. If a majority answered, others hold too many nodes, unless a majority said yes
// too late. Otherwise too few nodes answered, or too few agree on a fencing token.
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
