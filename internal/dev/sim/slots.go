package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// slots has the clients of some plans take slots.
func (p *Plan) slots(r *rand.Rand) {
	if p.Seed%9 != 0 {
		return
	}
	alone := p.Kept || p.Watched
	if !alone { // so that the slots do not suffice for all
		p.more(r, 1+r.IntN(2))
	}
	limits := []uint16{uint16(1 + r.IntN(3))}
	if r.IntN(4) == 0 { // not all callers have the same
		limits = append(limits, uint16(1+r.IntN(3)))
	}
	writers, readers := pick(r, 0, 0, 1, 2), r.IntN(8)/7
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.Kind != Acquire && s.Kind != Wait {
			continue
		}
		switch n := r.IntN(8); {
		case n < writers:
		case n < writers+readers:
			s.Read = true
		default:
			s.Slots = pick(r, limits...)
		}
	}
	if alone || len(p.Steps) == 0 {
		return
	}
	switch r.IntN(8) {
	case 0: // no writer can say there that it waits
		p.onSomeNodes(r, Beside)
	case 1:
		for i := range p.Steps { // readers have no turns beside them
			if s := &p.Steps[i]; s.Read {
				s.Read, s.Slots = false, limits[0]
			}
		}
		p.throng(r, limits[0])
	case 2, 3:
		p.clash(r, limits)
	case 4:
		p.limits(r)
	case 5:
		p.kinds(r)
	}
}

// more adds clients, which do some of the steps.
func (p *Plan) more(r *rand.Rand, n int) {
	for range n {
		p.Clients++
		p.Rates = append(p.Rates, clockRates(r, 1)...)
		if p.Fenced {
			p.Walls = append(p.Walls, upTo(r, 100*time.Millisecond))
		}
		for i := range p.Steps {
			if r.IntN(p.Clients) == 0 {
				p.Steps[i].Client = p.Clients - 1
			}
		}
	}
}

// clash adds that all clients take slots at the same time, and again when they have given them back.
func (p *Plan) clash(r *rand.Rand, limits []uint16) {
	at, name, long := p.Steps[r.IntN(len(p.Steps))].At, r.IntN(p.Names), cmp.Or(p.Guard, time.Hour)
	for range 2 + r.IntN(4) {
		for client := range p.Clients {
			s := Step{At: at + upTo(r, 100*time.Microsecond), Client: client, Name: name, TTL: pick(r, 300*time.Millisecond, long), Slots: pick(r, limits...)}
			s.Kind, s.For = pick(r, Acquire, Acquire, Wait), upTo(r, 5*time.Millisecond)
			back := Step{At: at + upTo(r, 20*time.Millisecond), Kind: pick(r, Unlock, Unlock, Extend), Client: client, TTL: s.TTL}
			p.Steps = append(p.Steps, s, back)
		}
		at += 5*time.Millisecond + upTo(r, 20*time.Millisecond)
	}
}

// excludes reports whether two may not be held at the same time.
func (k *held) excludes(o *held) bool {
	r, p := k.of, o.of
	return r.key == p.key && r != p && (r.kind != p.kind || !r.kind.Several() || r.kind.HasSlots() && k.slot == o.slot)
}

// agreed counts the nodes that have granted what a round is for: the same slot.
func (r *round) agreed() (most int) {
	if !r.kind.HasSlots() {
		return r.votes(quorum.Yes)
	}
	for _, slot := range r.slots {
		n := 0
		for i, o := range r.slots {
			if o == slot && r.Answer(i) == quorum.Yes {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// checkTaken checks that at most as many are taken as there are, when one has been. Of callers with different numbers the highest counts.
func (w *world) checkTaken(k *held) {
	if !k.of.kind.HasSlots() || !k.held() || !w.excludes() {
		return
	}
	w.check(0 < k.slot && k.slot <= uint64(k.of.limit), "no slot is beyond the last one", "client %d: %v is number %d of %d", k.client.number, k, k.slot, k.of.limit)
	taken, limit := map[*round]bool{k.of: true}, k.of.limit
	for _, o := range w.locks {
		if o.of.key == k.of.key && o.slot > 0 && o.held() {
			taken[o.of], limit = true, max(limit, o.of.limit)
		}
	}
	w.check(len(taken) <= int(limit), "at most as many have a slot as there are", "client %d has %v, and with it %d have one of %d", k.client.number, k, len(taken), limit)
}

// checkSlots checks that each who has a slot on a node has one of its own there.
func (s *server) checkSlots(key string) {
	if e, ok := s.peek(key, s.now()); !ok || !form.KindOf(e.token).HasSlots() {
		return
	}
	var taken []uint64
	for _, e := range s.inside(key) {
		s.check(e.number > 0 && !slices.Contains(taken, e.number), "each has a slot of its own on a node", "node %d: %s has %d", s.number, e.token, e.number)
		taken = append(taken, e.number)
	}
}

// checkTakenBack checks that a lock has no slot but its own, at rest.
func (s *server) checkTakenBack(key string) {
	for _, e := range s.inside(key) {
		r := s.rounds[life{e.token, key}]
		if r == nil || !r.kind.HasSlots() || r.client.dead || r.outcome != quorum.Done || !s.plan.Fencing || s.world.now-r.over < restTime {
			continue
		}
		heard := r.slots[s.number] == e.number && r.Answer(s.number) == quorum.Yes
		s.check(!heard || e.number == r.acquire.Votes().Fence(), "what a node has granted beside the slot that was won is taken back",
			"node %d: %s has slot %d", s.number, e.token, e.number-1)
	}
}

// free counts the slots that are free on a node, at rest.
func (s *server) free(key string, free []int) {
	taken := map[uint64]bool{}
	if e, ok := s.peek(key, s.now()); ok && form.KindOf(e.token).HasSlots() {
		for _, e := range s.inside(key) {
			if s.keeps(e.token, key) {
				taken[e.number] = true
			}
		}
	}
	if by, _ := s.lowest(key, form.KindSlot.Mark(), false, s.now()); int64(len(taken)) >= by.limit {
		return // one with a lower limit waits
	}
	for slot := range free {
		if len(taken) < len(free) && !taken[uint64(1+slot)] {
			free[slot]++
		}
	}
}

// checkFree checks that when everything is over all slots can be taken, one after the other.
func (w *world) checkFree() {
	var s *Step
	for i := range w.plan.Steps {
		if of := &w.plan.Steps[i]; of.Slots > 0 && (s == nil || of.Slots > s.Slots) {
			s = of
		}
	}
	i := slices.IndexFunc(w.clients, func(c *client) bool { return !c.dead && c.call == nil && len(c.holds) == 0 })
	if s == nil || i < 0 || w.failed != nil {
		return
	}
	c, n := w.clients[i], w.clients[i].name(key(s.Name))
	for _, server := range w.servers {
		_, _ = server.get(n.key, server.now())
		_, _ = server.get(wanted(n.key), server.now())
		if len(server.keys) > 0 {
			return // somebody's data, or a key without a TTL
		}
	}
	for number := range s.Slots {
		had := len(w.locks)
		for range 5 + 2*w.plan.Guard/time.Second { // an answer may be late, and a node may only now be found to be another one
			if len(w.locks) == had {
				n.try(Step{TTL: time.Hour, Slots: s.Slots, Name: s.Name})
				w.run(w.now + time.Second)
			}
		}
		w.check(len(w.locks) > had, "all slots can be taken again", "client %d gets %d of %d", c.number, number, s.Slots)
		c.holds = nil // so that it takes another
	}
}
