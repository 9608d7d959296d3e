package sim

import (
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
)

// alone empties a plan for those who come again and again to one lock, and reports whether they are told of changes.
func (p *Plan) alone() bool {
	if !p.Tracking || p.Fickle {
		return false
	}
	p.Steps, p.Names, p.Handoff, p.Guard, p.LookEvery = nil, 1, 0, 0, 0
	return true
}

// calm makes a plan of so many clients in which nothing takes much longer than usual on its way, without fencing.
func (p *Plan) calm(r *rand.Rand, clients int) {
	p.Clients, p.Calm, p.Fenced, p.Plain, p.Walls = clients, true, false, 0, nil
	p.Rates = clockRates(r, p.Nodes+p.Clients)
}

// crowd makes a plan in which writers of some clients come again and again, some of them with little patience, and readers beside them.
func (p *Plan) crowd(r *rand.Rand) {
	if !p.alone() {
		return
	}
	until := 500*time.Millisecond + upTo(r, 500*time.Millisecond)
	come := func(client, n int, s Step) {
		s.Kind, s.Client, s.Until, s.TTL = Again, client, until, time.Second
		for range n {
			s.At = upTo(r, 20*time.Millisecond)
			p.Steps = append(p.Steps, s)
		}
	}
	come(r.IntN(p.Clients), 1, Step{For: time.Millisecond + upTo(r, 4*time.Millisecond), Pause: 20 * time.Millisecond})
	come(r.IntN(p.Clients), 4, Step{Read: true, For: 10*time.Millisecond + upTo(r, 30*time.Millisecond), Pause: time.Millisecond})
	writers := r.IntN(2) // without a pause, so that there is always one that waits
	for client := range p.Clients {
		hold, pause := time.Millisecond+upTo(r, 4*time.Millisecond), pick(r, time.Microsecond, 50*time.Millisecond)
		come(client, 2*writers, Step{For: hold, Pause: time.Microsecond})
		come(client, r.IntN(3), Step{For: hold, Pause: pause})
		come(client, r.IntN(3), Step{For: hold, Pause: pause, Patience: 10*time.Millisecond + upTo(r, 50*time.Millisecond)})
		come(client, r.IntN(5), Step{Read: true, For: 5*time.Millisecond + upTo(r, 40*time.Millisecond), Pause: pause})
	}
}

// writersBesideReaders makes some plans those in which writers of all clients but the last one come again and again, without a pause, and
// readers of the last one.
func (p *Plan) writersBesideReaders(r *rand.Rand) {
	if p.Kept || p.Watched || p.Refusing || r.IntN(64) > 0 {
		return
	}
	*p = Plan{Seed: p.Seed, Nodes: p.Nodes, Durable: true, Fencing: true, Tracking: true, Names: 1, Busy: true}
	p.calm(r, 3+r.IntN(2))
	s := Step{Kind: Again, TTL: time.Second, Until: 200*time.Millisecond + upTo(r, 300*time.Millisecond), Pause: time.Microsecond}
	s.For = time.Millisecond + upTo(r, 5*time.Millisecond)
	writers, readers := 2+r.IntN(5), 1+r.IntN(3)
	for s.Client = range p.Clients {
		n := writers
		if s.Read = s.Client == p.Clients-1; s.Read {
			n = readers
		}
		for range n {
			s.At = upTo(r, 20*time.Millisecond)
			p.Steps = append(p.Steps, s)
		}
	}
}

// kinds makes a plan in which readers and those who want slots come again and again.
func (p *Plan) kinds(r *rand.Rand) {
	if !p.alone() {
		return
	}
	s := Step{Kind: Again, TTL: time.Second, Until: 300*time.Millisecond + upTo(r, 300*time.Millisecond)}
	for range 3 + r.IntN(8) {
		s.At, s.Client, s.Read, s.Slots = upTo(r, 20*time.Millisecond), r.IntN(p.Clients), r.IntN(2) == 0, 0
		if !s.Read {
			s.Slots = uint16(1 + r.IntN(3))
		}
		s.For, s.Pause = time.Millisecond+upTo(r, 20*time.Millisecond), pick(r, time.Microsecond, 20*time.Millisecond)
		p.Steps = append(p.Steps, s)
	}
}

// limits makes a plan in which those who want slots come again and again, and one client thinks that there are fewer than the others do.
func (p *Plan) limits(r *rand.Rand) {
	if !p.alone() {
		return
	}
	low := uint16(1 + r.IntN(3))
	s := Step{Kind: Again, TTL: time.Second, Slots: low, Until: time.Second + upTo(r, time.Second), Pause: time.Millisecond}
	for range 1 + r.IntN(8) {
		s.At, s.For = upTo(r, 20*time.Millisecond), 5*time.Millisecond+upTo(r, 20*time.Millisecond)
		p.Steps = append(p.Steps, s)
	}
	s.Slots += uint16(1 + r.IntN(2))
	for range 2 * s.Slots {
		s.At, s.For, s.Client = upTo(r, 20*time.Millisecond), 5*time.Millisecond+upTo(r, 20*time.Millisecond), 1+r.IntN(p.Clients-1)
		p.Steps = append(p.Steps, s)
	}
}

// again has a goroutine wait for a lock again and again.
func (c *client) again(s Step) {
	if c.now > warmUp+s.Until {
		return
	}
	w := c.wait(s)
	w.onEnded = func() {
		pause := c.atRandom(s.Pause)
		if !w.cancelled {
			pause += s.For
		}
		c.after(pause, func() { c.again(s) })
	}
	if s.Patience > 0 {
		c.after(s.Patience, w.cancel)
	}
}

const (
	// maxOthers is how many locks others get at most, for each that comes again and again, while one waits.
	maxOthers = 18
	// maxBusy is the same for a writer beside others that come without a pause, and readers that do.
	maxBusy = 6
	// maxFar is by how many times more they get if some client is far away.
	maxFar = 4
	// maxWriters is how many writers are let in at most while one that shares the lock is the first that waits in its client: as many as a
	// client takes in a row, for each client, and those after which it passes by writers that wait, thrice.
	maxWriters = 3
)

// turns counts the locks that a client has got by waiting, by kind.
type turns [3]int

// others returns the turns of all other clients.
func (n *name) others() (all turns) {
	for i, t := range n.client.turned[n.key] {
		if i != n.client.number {
			for kind, wins := range t {
				all[kind] += wins
			}
		}
	}
	return all
}

// checkTurn checks that one that comes again and again gets its lock when others have got some, and counts it.
func (n *name) checkTurn(w *waiter) {
	c := n.client
	if w.Kind == Again && (c.plan.Sets == 0 || c.plan.Steady) {
		writers, all, callers := 0, 0, len(c.plan.Steps)
		for kind, wins := range n.others() {
			if all += wins - w.came[kind]; kind == int(form.KindExclusive) {
				writers = all
			}
		}
		most := maxOthers * callers
		switch {
		case c.plan.Far > 0:
			most *= maxFar
		case c.plan.Busy && !w.kind().Several():
			most = maxBusy * callers
		}
		c.check(all <= most, "one that waits has its turn", "client %d: waiter %d has waited for %d of %d callers", c.number, w.number, all, callers)
		c.check(all <= maxTurns*c.plan.Clients || !c.plan.orderly(), "processes have their turns", "client %d: waiter %d has waited for %d", c.number, w.number, all)
		c.check(writers <= maxWriters*(8+6*c.plan.Clients) || !w.kind().Several() || w.before > 0, "one that shares has its turn beside writers",
			"client %d: waiter %d has waited for %d writers", c.number, w.number, writers)
	}
	if c.turned[n.key] == nil {
		c.turned[n.key] = make([]turns, c.plan.Clients)
	}
	c.turned[n.key][c.number][w.kind()]++
}
