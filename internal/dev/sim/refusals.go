package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// scripted are calls of all kinds, which use all scripts.
var scripted = []StepKind{Acquire, Acquire, Acquire, AcquireAll, Wait, Wait, Wait, Wait, Extend, Extend, Extend, Unlock, Unlock, Cancel, CancelWait, Attach}

// refusals makes some plans those in which nodes refuse a command of their scripts for a while, as if a right is taken from the user, or
// are full, beside callers of all kinds.
func (p *Plan) refusals(r *rand.Rand) {
	if p.Kept || p.Watched || p.Storm || p.Sets > 0 || p.Far > 0 || r.IntN(32) > 0 {
		return
	}
	tracking := p.Tracking
	*p = Plan{Seed: p.Seed, Fencing: p.Fencing, Fenced: p.Fenced, Durable: true, Refusing: true}
	p.clear(r, howMany(r), 2+r.IntN(3))
	p.Tracking, p.Names = tracking, 2+r.IntN(2)
	p.Handoff = pick(r, 0, 0, 20*time.Millisecond)
	if p.Fenced { // counters end before the names are taken at the end
		p.Keep = pick(r, time.Minute, form.DefaultKeep)
		p.walls(r)
	}
	horizon := 300*time.Millisecond + upTo(r, time.Second)
	p.random(r, 15+r.IntN(30), scripted, pick(r, 200*time.Millisecond, 500*time.Millisecond, time.Second), horizon, r.IntN(3))
	share := r.IntN(3)
	for i := range p.Steps {
		switch s := &p.Steps[i]; {
		case s.Kind == AcquireAll:
			s.All = 2
		case s.Kind != Acquire && s.Kind != Wait || r.IntN(3) > share:
		case r.IntN(2) == 0:
			s.Read = true
		default:
			s.Slots = uint16(1 + r.IntN(3))
		}
	}
	for range 3 + r.IntN(10) {
		p.refuse(r, upTo(r, horizon), pick(r, AllNodes, r.IntN(p.Nodes), r.IntN(p.Nodes)), pick(r, 20*time.Millisecond, 500*time.Millisecond))
	}
	for range r.IntN(6) {
		p.halfway(r, upTo(r, horizon))
	}
	// By the end, what no release could take off the nodes has ended by itself.
	end := time.Duration(0)
	for _, s := range p.Steps {
		end = max(end, s.At+s.For)
	}
	p.Steps = append(p.Steps, Step{At: end + form.WantFor, Kind: Unlock})
}

// refuse adds that a node refuses something from a time on.
func (p *Plan) refuse(r *rand.Rand, at time.Duration, node int, most time.Duration) {
	s := Step{At: at, Kind: Refuse, Node: node, For: most/8 + upTo(r, most)}
	if n := r.IntN(len(commands) + 3); n < len(commands) {
		s.Command = commands[n]
	}
	p.Steps = append(p.Steps, s)
}

// halfway adds that a client takes a lock that several may have while a node refuses something, and extends it while that node refuses
// something else and a writer waits. One of them may die then.
func (p *Plan) halfway(r *rand.Rand, at time.Duration) {
	const part = 8 * time.Millisecond
	s := Step{Node: r.IntN(p.Nodes), Client: r.IntN(p.Clients), Name: r.IntN(p.Names), TTL: time.Second}
	writer := Step{Kind: Wait, Client: r.IntN(p.Clients), Name: s.Name, TTL: time.Second, For: time.Millisecond}
	if s.Read = r.IntN(2) == 0; !s.Read {
		s.Slots = 2
	}
	add := func(s Step, kind StepKind, from time.Duration) {
		s.Kind, s.At = kind, at+from+upTo(r, part/2)
		p.Steps = append(p.Steps, s)
	}
	p.refuse(r, at, s.Node, part)
	add(s, Unlock, 0)
	add(s, Acquire, part/2)
	p.refuse(r, at+part, s.Node, 2*part)
	add(writer, Wait, part)
	add(s, Extend, part)
	if r.IntN(2) == 0 {
		s.Client = pick(r, s.Client, writer.Client)
		add(s, pick(r, Die, Unlock, CancelWait), 2*part)
	}
}

// refuse has the node refuse a command for a while. Without a command it is full.
func (s *server) refuse(command string, d time.Duration) {
	if command == "" {
		s.log("node %d is full for %v", s.number, d)
	} else {
		s.log("node %d refuses %s for %v", s.number, command, d)
	}
	s.refused++
	number := s.refused
	s.rights = rights{forbidden: command, full: command == ""}
	s.after(d, func() {
		if number == s.refused {
			s.rights = rights{}
		}
	})
}

// checkFull checks that a node that is full grants nothing.
func (s *server) checkFull(c *wire.Command, v *wire.Value) {
	s.check(!s.full || does(c) != acquire || c.Reply(v).Answer != quorum.Yes, "a node that is full grants no lock", "node %d grants %s", s.number, c.Token)
}

// checkEndless checks that all ends that is on a node under a key and beside it, at rest.
func (w *world) checkEndless(s *server, key string) {
	for _, beside := range []string{key, slots(key), wanted(key)} {
		z := s.sharers[beside]
		w.check(z == nil || len(z.in) == 0 || !z.forever, "nothing is left for ever", "node %d: what stands under %s", s.number, beside)
	}
	e, ok := s.peek(key, s.now())
	w.check(!ok || !e.forever || !w.plan.Refusing, "nothing is left for ever", "node %d: %s", s.number, key)
}

// checkNames checks that when everything is over each name can be taken, as any kind of lock.
func (w *world) checkNames() {
	i := slices.IndexFunc(w.clients, func(c *client) bool { return !c.dead && c.call == nil && len(c.holds) == 0 })
	if !w.plan.Refusing || i < 0 {
		return
	}
	for name := range w.plan.Names {
		for _, s := range []Step{{}, {Read: true}, {Slots: 1}} {
			c, had := w.clients[i], len(w.locks)
			s.TTL = time.Second
			for tries := 0; tries < 5 && len(w.locks) == had; tries++ { // an answer may be late
				c.name(key(name)).try(s)
				w.run(w.now + time.Second)
			}
			w.check(len(w.locks) > had, "every name can be taken", "client %d does not get %s as %v", c.number, key(name), s.kind())
			giveUp(c.holds)
			w.run(w.now + time.Second)
		}
	}
}
