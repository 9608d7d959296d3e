package sim

import (
	"math/rand/v2"
	"time"
)

// extras adds fencing and guards to a plan, or makes one of its own for them.
func (p *Plan) extras(r *rand.Rand) {
	p.Fenced = r.IntN(2) == 0
	forgets := !p.Durable && r.IntN(2) == 0
	switch {
	case p.Kept && forgets:
		p.Guard = 5 * time.Second
	case p.Kept:
	case forgets && r.IntN(2) == 0:
		p.drill(r)
	case forgets:
		p.guard(r)
	case p.Fenced:
		switch n := r.IntN(16); {
		case n < 5:
			p.duel(r)
		case n == 5 && p.Tracking:
			p.lapses(r)
		case n < 8:
			p.fade(r)
		}
	}
	p.Fickle = p.Tracking && r.IntN(4) == 0
	if p.Fenced {
		p.walls(r)
		p.Plain = r.IntN(4) / 3
	}
}

// clear leaves a plan without steps, for so many machines, one lock, and no tracking.
func (p *Plan) clear(r *rand.Rand, nodes, clients int) {
	p.Nodes, p.Clients, p.Names, p.Tracking, p.Steps = nodes, clients, 1, false, nil
	p.Rates = clockRates(r, nodes+clients)
}

// lapses adds to a plan that nodes drop keys.
func (p *Plan) lapses(r *rand.Rand) {
	horizon := time.Duration(0)
	for _, s := range p.Steps {
		horizon = max(horizon, s.At)
	}
	for range 1 + r.IntN(5) {
		at := upTo(r, horizon)
		p.Steps = append(p.Steps, Step{At: at, Kind: Lapse, Node: r.IntN(p.Nodes+1) - 1, Name: r.IntN(p.Names)})
	}
}

// walls sets the clocks: near the true time, or some of them hours off. A counter that a node has
// forgotten, or that has come to its end, begins anew with the time of day, so that it must not be
// further off than the guard, or its life, makes up for.
func (p *Plan) walls(r *rand.Rand) {
	near := 300 * time.Millisecond
	if p.Guard > 0 {
		near = min(near, (p.Guard-2200*time.Millisecond)/2)
	}
	nodesOff, clientsOff := p.Guard == 0 && p.Keep == 0 && r.IntN(2) == 0, r.IntN(2) == 0
	for i := range p.Nodes + p.Clients {
		off := upTo(r, 2*near+1) - near
		if i < p.Nodes && nodesOff && r.IntN(2) == 0 {
			off += time.Duration(r.IntN(5)-2) * time.Hour
		}
		if i >= p.Nodes && clientsOff {
			off = pick(r, -time.Hour, -25*time.Millisecond, 0, 10*time.Millisecond, 950*time.Millisecond, time.Hour)
		}
		p.Walls = append(p.Walls, off)
	}
}

// duel makes a plan in which many rounds run into each other, what one asks of a node comes when others
// have taken the lock there and lost it, and keys lapse before their time: then nothing but the counters
// keeps their tokens apart.
func (p *Plan) duel(r *rand.Rand) {
	p.clear(r, pick(r, 3, 3, 3, 4, 5, 7), 3)
	p.Durable, p.Echo = true, !p.Fencing || r.IntN(4) == 0
	p.Fencing = p.Fencing && !p.Echo // what is left behind is not checked with an echo
	at := time.Duration(0)
	for range 5 + r.IntN(12) {
		at += upTo(r, 1500*time.Microsecond)
		s := Step{Client: r.IntN(p.Clients), TTL: time.Hour, For: 500*time.Microsecond + upTo(r, 4*time.Millisecond)}
		another := pick(r, Lapse, Unlock, Attach, Extend, Cancel, Freeze, Pause, Cut)
		for _, s.Kind = range []StepKind{Partition, Unlock, Acquire, Lapse, another} {
			s.At, s.Node = at+upTo(r, 300*time.Microsecond), r.IntN(p.Nodes)
			if s.Kind == Lapse && r.IntN(2) == 0 {
				s.Node = AllNodes
			}
			if r.IntN(3) > 0 {
				p.Steps = append(p.Steps, s)
			}
		}
	}
}

// fade makes a plan with so long pauses that counters come to their end.
func (p *Plan) fade(r *rand.Rand) {
	p.clear(r, howMany(r), p.Clients)
	p.Keep = time.Duration(8+r.IntN(3)) * time.Second
	ttl, calls, faults := pick(r, 300*time.Millisecond, time.Second, p.Keep/2), pick(r, contest, tenure), r.IntN(3)
	begin := time.Duration(0)
	for range 4 + r.IntN(6) {
		before := len(p.Steps)
		p.random(r, 2+r.IntN(6), calls, ttl, time.Second, faults)
		for i := range p.Steps[before:] {
			p.Steps[before+i].At += begin
		}
		begin += upTo(r, p.Keep+3*time.Second)
	}
}

// guard makes a plan with nodes that forget what they knew, and are trusted again within it.
func (p *Plan) guard(r *rand.Rand) {
	p.Guard = 2300*time.Millisecond + time.Duration(r.IntN(3))*500*time.Millisecond
	p.Steps = nil
	ttl, horizon := time.Duration(pick(r, 300, 600, 1000))*time.Millisecond, time.Duration(3+r.IntN(4))*time.Second
	p.random(r, 20+r.IntN(25), pick(r, contest, tenure, sharing, queueing), ttl, horizon, r.IntN(3))
	for i := range p.Steps {
		s := &p.Steps[i]
		if r.IntN(5) == 0 {
			s.Kind, s.For = pick(r, Crash, Crash, Replace), min(s.For, 200*time.Millisecond)
		}
		if s.Kind == Extend && r.IntN(2) == 0 {
			s.Kind, s.Auto = Acquire, true
		}
	}
	p.bunch(r, Crash, Replace, Cancel) // a lock is forgotten when it is held, and wanted then
}

// drill makes a plan in which so many nodes forget a lock at once that it can be taken again, and the
// others try to.
func (p *Plan) drill(r *rand.Rand) {
	p.clear(r, pick(r, 1, 3, 3, 5), 3)
	p.Guard = time.Duration(pick(r, 2300, 3000)) * time.Millisecond
	begin := upTo(r, time.Second)
	p.Steps = []Step{{At: begin, Kind: Acquire, TTL: p.Guard, Auto: r.IntN(4) == 0}}
	for node := range p.Nodes {
		s := Step{At: begin + upTo(r, 200*time.Millisecond), Kind: pick(r, Crash, Crash, Replace), Node: node}
		s.For = time.Millisecond + upTo(r, 100*time.Millisecond)
		if r.IntN(4) > 0 {
			p.Steps = append(p.Steps, s)
		}
	}
	if r.IntN(2) == 0 { // one comes when the nodes have been up again for a while
		at := begin + 200*time.Millisecond + upTo(r, time.Second)
		p.Steps = append(p.Steps, Step{At: at, Kind: Anew, Client: 1})
	}
	for range 12 + r.IntN(12) {
		s := Step{At: begin + upTo(r, 5*p.Guard/2), Client: 1 + r.IntN(2), Node: r.IntN(p.Nodes), TTL: p.Guard}
		s.Kind = pick(r, Acquire, Acquire, Acquire, Acquire, Acquire, Unlock, Unlock, Cut, Extend)
		p.Steps = append(p.Steps, s)
	}
}

// forgets has nodes forget in further ways, in a plan with a guard: they fail over to a replica that lacks their latest writes, or drop all
// keys where the clients learn of that.
func (p *Plan) forgets(r *rand.Rand) {
	seldom := 1 + r.IntN(3)
	for i := range p.Steps {
		s := &p.Steps[i]
		switch {
		case s.Kind != Crash && s.Kind != Replace:
		case p.Tracking && !p.Fickle && r.IntN(4) == 0:
			s.Kind = Flush
		case r.IntN(seldom) == 0:
			p.failOver(r, i)
		}
	}
}

// failOver makes a step one in which a node fails over.
func (p *Plan) failOver(r *rand.Rand, step int) {
	s := &p.Steps[step]
	s.Kind, s.For = Promote, 1+upTo(r, pick(r, 50*time.Millisecond, 500*time.Millisecond))
	switch {
	case p.Kept: // the next renewal may meet the former primary, and be refused
		p.delay(s.At, p.Steps[0].TTL/3)
	case r.IntN(3) == 0: // the former primary takes its place again before anybody has used the replica
		p.Steps = append(p.Steps, Step{At: s.At + s.For + upTo(r, time.Millisecond), Kind: Promote, Node: s.Node, For: 1 + upTo(r, time.Millisecond)})
	}
}

// delay has what comes after a time come later.
func (p *Plan) delay(after, by time.Duration) {
	for i := range p.Steps {
		if s := &p.Steps[i]; s.At > after {
			s.At += by
		}
	}
}

// names is how many locks there are in a plan in which some are taken together.
const names = 3

// sets has the clients of some plans take several locks at once, or none.
func (p *Plan) sets(r *rand.Rand) {
	if p.Kept || p.Watched || r.IntN(8) > 0 {
		return
	}
	p.Names = names
	for i := range p.Steps {
		s := &p.Steps[i]
		if r.IntN(3) == 0 {
			s.Name = r.IntN(names)
		}
		if s.Kind == Acquire && r.IntN(3) > 0 {
			s.Kind, s.All = AcquireAll, 2+r.IntN(names-1)
		}
	}
}
