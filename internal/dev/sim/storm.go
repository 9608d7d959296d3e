package sim

import (
	"math/rand/v2"
	"time"
)

const (
	// instants is how many times the callers of a storm try, each time for another name.
	instants = 8
	// maxLost is how many times all of them may lose. Once is chance. If one time in a thousand were lost, one of the 26,000 storms of a
	// million seeds would lose twice.
	maxLost = 1
	// storming is the time between two such times, and for how long the winners keep the lock.
	storming = 300 * time.Millisecond
)

// storms makes some plans storms: callers try at the same instant to take a lock that is free, again and again, while all nodes are up, or
// all but one.
func (p *Plan) storms(r *rand.Rand) {
	if p.Kept || p.Watched || r.IntN(32) > 0 {
		return
	}
	callers, down, how := 2+r.IntN(19), r.IntN(2) == 0, r.IntN(5)
	clients := 1 + r.IntN(callers)
	if how == 0 {
		clients = callers // each takes one set
	}
	*p = Plan{Seed: p.Seed, Fencing: p.Fencing, Fenced: p.Fenced, Durable: true, Storm: true}
	p.clear(r, pick(r, 3, 3, 4, 5, 5, 7), clients)
	p.Names = instants
	if p.Fenced {
		p.walls(r)
	}
	s := Step{Kind: Try, TTL: time.Hour, At: storming, For: storming / 2}
	if how == 0 {
		s.Kind, s.All, p.Names = AcquireAll, 2, 2*instants
	}
	if how == 1 {
		s.Slots = uint16(1 + r.IntN(callers))
	}
	if down {
		p.Steps = append(p.Steps, Step{Kind: Crash, Node: r.IntN(p.Nodes), For: time.Minute})
	}
	for range instants {
		for i := range callers {
			s.Client, s.Read = i%clients, how == 2 && r.IntN(2) == 0
			p.Steps = append(p.Steps, s)
		}
		s.At += storming
		for client := range clients { // one by one, maybe
			for range s.All {
				p.Steps = append(p.Steps, Step{Kind: Unlock, Client: client, At: s.At - storming/2})
			}
		}
		s.Name += max(1, s.All)
	}
}

// checkStorm checks that one of the callers at an instant has got the lock.
func (w *world) checkStorm() {
	if !w.plan.Storm {
		return
	}
	tried, got := map[string]bool{}, map[string]bool{}
	for of := range w.rounds {
		tried[of.key] = true
	}
	for _, k := range w.locks {
		got[k.of.key] = true
	}
	names := w.plan.Names / instants
	lost := (len(tried) - len(got)) / names
	w.check(lost <= maxLost, "of callers that try at one instant one gets the lock", "%d times of %d none has got it", lost, len(tried)/names)
}
