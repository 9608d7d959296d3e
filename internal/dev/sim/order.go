package sim

import (
	"math/rand/v2"
	"slices"
	"time"
)

// turns makes a plan in which processes come one after the other for a lock that is held, and then again and again.
func (p *Plan) turns(r *rand.Rand) {
	if p.Seed%9 != 3 || p.Kept || p.Watched || r.IntN(4) > 0 || !p.alone() {
		return
	}
	p.calm(r, 3+r.IntN(6))
	if r.IntN(4) == 0 {
		p.Far = 2 + r.IntN(19)
	}
	reads, many := r.IntN(3) == 0, r.IntN(3) == 0
	s := Step{Kind: Again, TTL: time.Second, Until: time.Second, For: time.Millisecond + upTo(r, 20*time.Millisecond)}
	s.Pause = pick(r, time.Microsecond, 30*time.Millisecond)
	for s.Client = range p.Clients {
		s.Read = reads && s.Client == 1
		callers := 1
		if many {
			callers += r.IntN(3)
		}
		for range callers {
			s.At += apart + upTo(r, 30*time.Millisecond)
			p.Steps = append(p.Steps, s)
		}
	}
	p.Steps[0].Kind, p.Steps[0].For = Wait, s.At+s.For
}

const (
	// apart is how long after another a process comes at least if its place is behind that.
	apart = 5 * time.Millisecond
	// maxTurns is how many locks others get at most, for each client, while a process waits that is in the list.
	maxTurns = 6
)

// orderly reports whether processes have turns in a plan, with one caller each, and none of them is far away. Those who take several locks
// at once have their turn at one of them, and do not wait for their turn at the others.
func (p *Plan) orderly() bool {
	return p.Calm && p.Far == 0 && p.Sets == 0 && len(p.Steps) == p.Clients
}

// Reads reports whether some take shared locks in a plan.
func (p *Plan) Reads() bool { return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Read }) }

// countPairs counts the pairs of a waiter, which has got its lock, with the waiters of other clients that wait for the same kind of lock.
func (n *name) countPairs(w *waiter) {
	if !n.client.plan.orderly() || w.kind().Several() {
		return
	}
	for _, c := range n.client.clients {
		for _, o := range c.name(n.key).waiters {
			if o.kind().Several() || max(w.at-o.at, o.at-w.at) < apart {
				continue
			}
			n.client.pairs.all++
			if o.at < w.at {
				n.client.pairs.wrong++
			}
		}
	}
}
