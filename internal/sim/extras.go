package sim

import (
	"math"
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
		switch r.IntN(16) {
		case 0, 1:
			p.duel(r)
		case 2, 3:
			p.overtake(r)
		case 4, 5, 6:
			p.lapses(r)
		case 7:
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

// walls sets the clocks: near the true time, or some of them hours off. A counter that a node has forgotten, or that has come to
// its end, begins anew with the time of day, so that it must not be further off than the guard, or its life, makes up for.
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
			off = []time.Duration{-time.Hour, -25 * time.Millisecond, 0, 10 * time.Millisecond, 950 * time.Millisecond, time.Hour}[r.IntN(6)]
		}
		p.Walls = append(p.Walls, off)
	}
}

// duel makes a plan in which many rounds run into each other, and keys lapse before their time: then nothing but the
// counters keeps their tokens apart.
func (p *Plan) duel(r *rand.Rand) {
	p.clear(r, []int{3, 3, 4, 5, 7}[r.IntN(5)], 3)
	p.Durable, p.Echo = true, !p.Fencing || r.IntN(4) == 0
	if p.Echo {
		p.Fencing = false // what is left behind is not checked
	}
	horizon := []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond}[r.IntN(3)]
	kinds := []StepKind{Acquire, Acquire, Acquire, Acquire, Acquire, Unlock, Unlock, Lapse, Lapse, Lapse, Lapse, Attach, Extend, Cancel,
		Freeze, Partition, Partition, Pause, Cut}
	for i := range 12 + r.IntN(24) {
		s := Step{
			At: upTo(r, horizon), Kind: kinds[r.IntN(len(kinds))], Client: r.IntN(p.Clients), Node: r.IntN(p.Nodes),
			TTL: time.Hour, For: time.Duration(float64(200*time.Microsecond) * math.Exp2(r.Float64()*8)),
		}
		if s.Kind == Lapse && r.IntN(2) == 0 {
			s.Node = AllNodes
		}
		if i > 0 && r.IntN(2) == 0 {
			s.At = p.Steps[r.IntN(i)].At + time.Duration(r.IntN(500))*time.Microsecond
		}
		p.Steps = append(p.Steps, s)
	}
}

// fade makes a plan with so long pauses that counters come to their end.
func (p *Plan) fade(r *rand.Rand) {
	p.Keep = time.Duration(8+r.IntN(3)) * time.Second
	p.clear(r, howMany(r), p.Clients)
	ttls := []time.Duration{300 * time.Millisecond, time.Second, p.Keep / 2}
	ttl, calls, faults := ttls[r.IntN(len(ttls))], [][]StepKind{contest, tenure}[r.IntN(2)], r.IntN(3)
	begin := time.Duration(0)
	for range 4 + r.IntN(6) {
		for range 2 + r.IntN(6) {
			s := randomStep(r, *p, calls, ttl, time.Second, faults)
			s.At += begin
			p.Steps = append(p.Steps, s)
		}
		begin += upTo(r, p.Keep+3*time.Second)
	}
}

// overtake makes a plan in which what one asks of a node comes when others have taken the lock there and lost it.
func (p *Plan) overtake(r *rand.Rand) {
	p.clear(r, []int{3, 3, 5}[r.IntN(3)], 3)
	p.Durable, p.Echo, p.Fencing = true, false, true
	at := time.Duration(0)
	do := func(s Step) {
		s.At, s.TTL, s.For = at, time.Hour, 500*time.Microsecond+upTo(r, 4*time.Millisecond)
		p.Steps = append(p.Steps, s)
	}
	for range 3 + r.IntN(6) {
		late := r.IntN(p.Clients)
		do(Step{Kind: Partition, Client: late, Node: r.IntN(p.Nodes)})
		at += upTo(r, 100*time.Microsecond)
		do(Step{Kind: Acquire, Client: late})
		for range 1 + r.IntN(3) {
			at += 100*time.Microsecond + upTo(r, time.Millisecond)
			node := AllNodes
			if r.IntN(3) == 0 {
				node = r.IntN(p.Nodes)
			}
			do(Step{Kind: Lapse, Node: node})
			other := r.IntN(p.Clients)
			if r.IntN(2) == 0 {
				do(Step{Kind: Partition, Client: other, Node: r.IntN(p.Nodes)})
			}
			do(Step{Kind: Unlock, Client: other})
			at += upTo(r, 300*time.Microsecond)
			do(Step{Kind: Acquire, Client: other})
		}
		for c := range p.Clients {
			if r.IntN(2) == 0 {
				at += upTo(r, time.Millisecond)
				do(Step{Kind: Unlock, Client: c})
			}
		}
	}
}

// guard makes a plan with nodes that forget what they knew, and are trusted again within it.
func (p *Plan) guard(r *rand.Rand) {
	ttl := []time.Duration{300 * time.Millisecond, 600 * time.Millisecond, time.Second}[r.IntN(3)]
	p.Guard = 2300*time.Millisecond + time.Duration(r.IntN(3))*500*time.Millisecond
	p.Nodes = howMany(r)
	p.Rates = clockRates(r, p.Nodes+p.Clients)
	horizon := 3*time.Second + time.Duration(r.IntN(4))*time.Second
	calls := [][]StepKind{contest, tenure, sharing, queueing}[r.IntN(4)]
	p.Steps = nil
	for range 20 + r.IntN(25) {
		s := randomStep(r, *p, calls, ttl, horizon, r.IntN(3))
		if r.IntN(5) == 0 {
			s.Kind, s.For = []StepKind{Crash, Crash, Replace}[r.IntN(3)], min(s.For, 200*time.Millisecond)
		}
		if s.Kind == Extend && r.IntN(2) == 0 {
			s.Kind, s.Auto = Acquire, true
		}
		p.Steps = append(p.Steps, s)
	}
	// A lock is forgotten when it is held, and wanted then.
	for i := range p.Steps {
		if k := p.Steps[i].Kind; i > 0 && (r.IntN(3) == 0 || k == Crash || k == Replace || k == Cancel) {
			p.Steps[i].At = p.Steps[r.IntN(i)].At + time.Duration(r.IntN(1000))*time.Microsecond
		}
	}
}

// drill makes a plan in which so many nodes forget a lock at once that it can be taken again, and the others try to.
func (p *Plan) drill(r *rand.Rand) {
	p.Guard = []time.Duration{2300 * time.Millisecond, 3 * time.Second}[r.IntN(2)]
	p.clear(r, []int{1, 3, 3, 5}[r.IntN(4)], 3)
	crash := func(at time.Duration, node int) Step {
		kind := []StepKind{Crash, Crash, Replace}[r.IntN(3)]
		return Step{At: at, Kind: kind, Node: node, For: time.Duration(1+r.IntN(100)) * time.Millisecond}
	}
	begin := upTo(r, time.Second)
	p.Steps = []Step{{At: begin, Kind: Acquire, TTL: p.Guard, Auto: r.IntN(4) == 0}}
	for node := range p.Nodes {
		if at := begin + time.Duration(1+r.IntN(200))*time.Millisecond; r.IntN(4) > 0 {
			p.Steps = append(p.Steps, crash(at, node))
		}
	}
	if r.IntN(2) == 0 { // one comes when the nodes have been up again for a while
		p.Steps = append(p.Steps, Step{At: begin + time.Duration(200+r.IntN(1000))*time.Millisecond, Kind: Anew, Client: 1})
	}
	kinds := []StepKind{Acquire, Acquire, Acquire, Acquire, Acquire, Unlock, Unlock, Cut, Extend}
	for range 12 + r.IntN(12) {
		at := begin + upTo(r, 5*p.Guard/2)
		s := Step{At: at, Kind: kinds[r.IntN(len(kinds))], Client: 1 + r.IntN(2), Node: r.IntN(p.Nodes), TTL: p.Guard}
		if r.IntN(12) == 0 {
			s = crash(at, r.IntN(p.Nodes))
		}
		p.Steps = append(p.Steps, s)
	}
}
