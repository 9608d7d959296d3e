package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// reads has the clients of some plans share locks.
func (p *Plan) reads(r *rand.Rand) {
	if p.Seed%9 != 6 && p.Seed%9 != 7 {
		return
	}
	alone := p.Kept || p.Watched
	if !alone && r.IntN(2) == 0 { // one more
		p.more(r, 1)
	}
	share := pick(r, 1, 2, 3)
	for i := range p.Steps {
		s := &p.Steps[i]
		s.Read = (s.Kind == Acquire || s.Kind == Wait) && r.IntN(4) < share
	}
	if alone || len(p.Steps) == 0 {
		return
	}
	switch r.IntN(8) {
	case 0: // no writer can say there that it waits
		p.onSomeNodes(r, Beside)
	case 1:
		p.throng(r, 0)
	case 2:
		p.crowd(r)
	}
}

// throng adds that readers come and go until the end, or those who want a slot, and that writers wait meanwhile.
func (p *Plan) throng(r *rand.Rand, limit uint16) {
	s := Step{At: p.Steps[r.IntN(len(p.Steps))].At, Kind: Throng, Name: r.IntN(p.Names), TTL: pick(r, 300*time.Millisecond, time.Second)}
	s.Slots, s.For = limit, 15*time.Millisecond+upTo(r, 25*time.Millisecond)
	p.Steps = append(p.Steps, s)
	for range 1 + r.IntN(3) {
		w := Step{At: s.At + upTo(r, time.Second), Kind: Wait, Client: r.IntN(p.Clients), Name: s.Name}
		w.TTL, w.For = time.Second, time.Millisecond+upTo(r, 5*time.Millisecond)
		p.Steps = append(p.Steps, w)
	}
}

// throng has all clients but the last read, or take slots, again and again, so that there is always somebody in, as far as they come in. It ends when no
// writer waits any more, or is known to wait in vain.
func (w *world) throng(s Step) {
	w.log("they come and go: %s", key(s.Name))
	ends := w.restAt + startOver + shortPatience + 2*time.Second
	if s.Slots > 0 {
		w.racing = ends
	}
	for i, c := range w.clients {
		if i == len(w.clients)-1 && i > 0 {
			continue
		}
		next := s
		next.Read, next.passing, next.For = s.Slots == 0, true, 5*s.For/2
		var come func()
		come = func() {
			n := c.name(key(s.Name))
			if w.now > ends || w.now > w.restAt && !w.waitsFor(n.key) {
				return
			}
			if reading := slices.IndexFunc(n.waiters, func(o *waiter) bool { return o.passing }); reading < 0 {
				c.wait(next)
			}
			c.after(s.For, come)
		}
		c.do(come)
	}
}

// waitsFor reports whether a writer of some client that is not dead waits for a lock.
func (w *world) waitsFor(key string) bool {
	return slices.ContainsFunc(w.clients, func(c *client) bool {
		return !c.dead && slices.ContainsFunc(c.name(key).waiters, func(o *waiter) bool { return !o.kind().Several() })
	})
}

// doneShared checks and notes what a command has done to those who share a key.
func (s *server) doneShared(m message, f *sight) {
	after, is := s.peek(f.key, s.now())
	own, in := s.sharer(f.key, m.cmd.Token, s.now())
	s.check(!f.was || isMark(f.token) || is && after == f.entry, "a key is changed by its owner only",
		"node %d: %v of %s changed the key of %s", s.number, does(m.cmd), m.cmd.Token, f.token)
	switch verb, of := does(m.cmd), m.of; {
	case f.in && !in && f.stopped && effects[s.forbidden] == reads:
		s.check(false, "a release that may not read takes nothing away", "node %d: %v of %s stops at %s", s.number, verb, m.cmd.Token, s.forbidden)
	case verb == force && f.in && !in:
		s.endsByForce(m.cmd.Token, f.key)
	case verb == acquire && !f.in && in && of.over > 0:
		of.delayed = append(of.delayed, delay{s.number, s.world.now})
	case verb == extend && f.in && f.own.number == of.lock.slot:
		of.yes++
	case verb == extend && in && own.number == of.lock.slot:
		of.unheard++
	case !f.in && in && verb != acquire:
		s.check(false, "a lock that lapsed is not revived", "node %d: %v of %s let it in", s.number, verb, m.cmd.Token)
	}
	if in && own != f.own {
		own.late, own.born = s.world.now-m.sent, s.world.now
		if f.in && f.own.number == own.number {
			own.born = f.own.born
		}
		s.sharers[f.key].in[own.token] = own
	}
	s.checkSlots(f.key)
}

// endsByForce notes that somebody has released a lock by force.
func (w *world) endsByForce(token, key string) {
	if r := w.rounds[life{token, key}]; r != nil {
		r.given = append(r.given, nil)
	}
}

// inside are those who share a key on the node now, in order.
func (s *server) inside(key string) (in []entry) {
	if z := s.sharers[key]; z != nil {
		for token := range z.in {
			if e, is := s.sharer(key, token, s.now()); is {
				in = append(in, e)
			}
		}
	}
	slices.SortFunc(in, byToken)
	return in
}

func byToken(a, b entry) int {
	if a.token < b.token {
		return -1
	}
	return 1
}

// asked reports whether one that waits, or somebody's data, keeps out who comes for a lock of a kind on the node.
func (s *server) asked(key string, kind form.Kind) bool {
	by, ours := s.lowest(key, kind.Mark(), false, s.now())
	return !ours || by.limit == 0
}

// keeps reports whether what a node holds under a token keeps others out, at rest: it is not about to be released.
func (w *world) keeps(token, key string) bool {
	r := w.rounds[life{token, key}]
	return r == nil || r.client.dead || !w.plan.Fencing || r.outcome == quorum.Done && !r.passing
}

// keepsOut reports whether those who share a lock on a node, or a writer that waits, keep others out, at rest, of another kind.
func (s *server) keepsOut(key string, kind form.Kind) bool {
	e, ok := s.peek(key, s.now())
	asked := kind.Several() && s.asked(key, kind)
	if kind.Several() && (asked || !ok || form.KindOf(e.token) == kind) {
		return asked
	}
	in := s.inside(key)
	// One that nobody is in any more ends some time later.
	return len(in) == 0 || slices.ContainsFunc(in, func(e entry) bool { return s.keeps(e.token, key) })
}

// checkShares holds what those who share locks have left on a node, at rest, to what they may leave.
func (w *world) checkShares(s *server, key string) {
	if e, ok := s.peek(key, s.now()); ok && isMark(e.token) {
		w.check(len(s.sharers[key].in) > 0, "the last one who shares a lock leaves nothing behind", "node %d: a mark of nobody", s.number)
	}
	w.checkEndless(s, key)
	for _, e := range s.inside(key) {
		w.checkLeft(s, key, e)
	}
	s.checkSlots(key)
	s.checkTakenBack(key)
}

// forceShared releases a lock that some share, whoever they are: one after the other, or, as older versions do, all at once by their mark.
func (l *line) forceShared(key, mark string) {
	if l.chance(l.client.number, l.server.number, int(l.now), 22)&1 == 0 {
		cmd := new(wire.Command)
		form.Exclusive{}.Remove(cmd, key, form.Observation{Value: mark})
		_ = l.send(order{cmd: cmd})
		return
	}
	shared := form.Shared{Kind: form.KindOf(mark)}
	l.ask(shared.Sharers(key, 0), receiver(func(r *wire.Reply) {
		for i := range r.Each {
			cmd := new(wire.Command)
			shared.Remove(cmd, key, form.Observation{Token: r.Each[i].Value})
			_ = l.send(order{cmd: cmd})
		}
	}), wire.Tag{})
}
