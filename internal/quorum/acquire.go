package quorum

// Acquire is one round: one fresh token put to every node at once.
//
// It is won by the majority-th yes, if validity is left then, and the caller is
// told at once; votes that come later only make the lock sturdier. It is lost as
// soon as no majority can come any more: at that event the release goes to every
// node that the acquire may have reached, those that said no or nothing yet
// included. The caller is told of the loss when its reason is certain and the nodes that
// answered have confirmed the release; [Acquire.Stop] ends that wait.
//
// With fencing a yes comes with a number, and only those count that agree on the token, see fence.
type Acquire struct {
	tally
	grant Grant
	fence *fence // nil: without fencing
	state state
	asked bool // the acquire has gone out to every node
	late  bool // a majority came, but after the deadline
}

type state uint8

const (
	open state = iota
	won
	lost // the release is out, the caller still waits
	told
)

// NewAcquire begins a round over n nodes: the shell sends the acquire to each, and
// then calls [Acquire.Asked].
func NewAcquire(n int, grant Grant) *Acquire {
	return &Acquire{tally: newTally(n), grant: grant}
}

// NewFencedAcquire begins a round likewise, in which a yes is told with Granted.
func NewFencedAcquire(n int, grant Grant) *Acquire {
	return &Acquire{tally: newTally(n), grant: grant, fence: newFence(n)}
}

// Asked tells that the acquire has gone out to every node. Until then the round can be
// won but not lost, so that no release overtakes its acquire.
func (a *Acquire) Asked(clock Clock) Effects {
	a.asked = true
	return a.judge(clock)
}

// Vote takes the answer of a node and the identity of the server that gave it
// ("" where unknown).
func (a *Acquire) Vote(clock Clock, node int, vote Vote, server string) Effects {
	if !a.count(node, vote, server) {
		return Effects{}
	}
	return a.judge(clock)
}

// Granted takes the yes of a node with the number that its counter gave for it.
func (a *Acquire) Granted(clock Clock, node int, number uint64, server string) Effects {
	if !a.count(node, Yes, server) {
		return Effects{}
	}
	if a.Said(node) == Yes {
		a.fence.granted(node, number, a.need())
	}
	return a.judge(clock)
}

// Raised takes the answer of a node that the token was put to.
func (a *Acquire) Raised(clock Clock, node int, vote Vote) Effects {
	a.fence.raised(node, vote)
	return a.judge(clock)
}

// Fence returns the fencing token of a round that is won; 0 without fencing.
func (a *Acquire) Fence() uint64 {
	if a.fence == nil {
		return 0
	}
	return a.fence.token
}

func (a *Acquire) judge(clock Clock) Effects {
	effects := a.decide(clock)
	if a.fence != nil && a.state == open {
		effects.Raise = a.fence.due()
	}
	return effects
}

// Number returns what node i has granted; 0: nothing, or without fencing.
func (a *Acquire) Number(i int) uint64 {
	if a.fence == nil {
		return 0
	}
	return a.fence.numbers[i]
}

// Agrees says of a node that has said yes whether that counts for the lock; open: it does not yet.
func (a *Acquire) Agrees(i int) (agrees, open bool) {
	if a.fence == nil || a.fence.token == 0 {
		return true, false
	}
	return a.fence.agrees(i), a.fence.raises[i] == raising
}

// agreed counts the nodes whose yes counts for the lock.
func (a *Acquire) agreed() int {
	if a.fence == nil {
		return a.yes
	}
	return a.fence.agreed()
}

// vain says that no majority can come any more.
func (a *Acquire) vain() bool {
	if a.fence == nil || a.fence.token == 0 {
		return a.hopeless()
	}
	return a.fence.agreed()+a.fence.raising()+a.pending() < a.need()
}

func (a *Acquire) decide(clock Clock) Effects {
	majority := a.agreed() >= a.need()
	switch {
	case a.state == lost:
		return a.tell(Effects{})
	case a.state != open:
		return Effects{}
	case majority && clock.Now().Before(a.grant.Deadline()):
		a.state = won
		return Effects{Outcome: Done}
	case !a.asked:
		return Effects{}
	case majority:
		a.late = true
		return a.lose()
	case a.vain():
		return a.lose()
	}
	return Effects{}
}

// Released tells that the release of a lost round has been answered by a node, or
// has failed there.
func (a *Acquire) Released(node int) Effects {
	a.ballots[node].released = true
	if a.state == lost {
		return a.tell(Effects{})
	}
	return Effects{}
}

// Lease begins the lease of a round that is won.
func (a *Acquire) Lease() *Lease { return NewLease(len(a.ballots), a.grant) }

// Stop ends the wait of the caller, after Asked: it gave up, or the node timeout is
// over. A round that is still open is lost by it.
func (a *Acquire) Stop(Clock) Effects {
	var effects Effects
	switch a.state {
	case open:
		effects.Release = a.reached()
	case lost:
	default:
		return effects
	}
	a.state = told
	effects.Outcome = a.reason()
	return effects
}

func (a *Acquire) lose() Effects {
	a.state = lost
	return a.tell(Effects{Release: a.reached(), Settling: true})
}

// tell adds the outcome of a lost round to effects once it can be told.
func (a *Acquire) tell(effects Effects) Effects {
	certain := a.answered() >= a.need() || a.failed > len(a.ballots)-a.need()
	if !certain || !a.cleaned() {
		return effects
	}
	a.state = told
	effects.Settling = false
	effects.Outcome = a.reason()
	return effects
}

// cleaned says whether every node that answered the acquire is done with its release.
func (a *Acquire) cleaned() bool {
	for _, b := range a.ballots {
		if (b.vote == Yes || b.vote == No || b.vote == Refused) && !b.released {
			return false
		}
	}
	return true
}

// reason says why the round is lost. When a majority answered, it is what others
// hold that stood in the way; else too few answered.
func (a *Acquire) reason() Outcome {
	switch {
	case a.late:
		return TooLate
	case a.hopeless() && a.answered() >= a.need():
		return Denied
	default:
		return NoQuorum
	}
}

func (a *Acquire) answered() int { return a.yes + a.no }
