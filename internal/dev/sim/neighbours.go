package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Neighbours are programs that use the same servers, and know nothing of the library.

// neighbours adds them to a plan.
func (p *Plan) neighbours(r *rand.Rand) {
	if p.Kept || p.Watched || len(p.Steps) == 0 {
		return
	}
	if r.IntN(8) == 0 {
		p.data(r)
	}
	if r.IntN(48) == 0 {
		p.rush(r)
	}
	if p.Tracking && !p.Fickle && r.IntN(16) == 0 {
		p.succession(r)
	}
	if r.IntN(12) == 0 && p.Fenced {
		p.onSomeNodes(r, CounterData) // while locks are held as a rule
	}
}

// succession adds that keys without a TTL are in the way of somebody who waits, and that others with the same value take their
// place, some of them while the connection is down.
func (p *Plan) succession(r *rand.Rand) {
	at, name, client := p.Steps[r.IntN(len(p.Steps))].At, r.IntN(p.Names), r.IntN(p.Clients)
	for node := range p.Nodes {
		if r.IntN(4) == 0 {
			continue
		}
		s := Step{At: at + upTo(r, time.Millisecond), Client: client, Node: node, Name: name, Lose: 1, Value: "1"}
		how := Cut
		if !p.Fenced && r.IntN(2) == 0 { // counters must not go
			how = Flush
		}
		end := s.At + healAfter/2 + upTo(r, healAfter/2)
		for _, s.Kind = range []StepKind{Stray, how, Lapse, Stray} {
			p.Steps = append(p.Steps, s)
			s.At = max(s.At, end) + upTo(r, 100*time.Microsecond)
		}
	}
	p.Steps = append(p.Steps, Step{At: at + time.Millisecond, Kind: Wait, Client: client, Name: name, TTL: time.Second})
}

// data adds that somebody's data comes to some nodes, on none, some or all of them with a TTL, and that somebody waits for a lock of its
// name.
func (p *Plan) data(r *rand.Rand) {
	before := len(p.Steps)
	name, at := p.onSomeNodes(r, Data)
	passing := r.IntN(3)
	for i := range p.Steps[before:] {
		if r.IntN(2) < passing {
			p.Steps[before+i].TTL = time.Millisecond + upTo(r, time.Second)
		}
	}
	for range r.IntN(3) {
		s := Step{At: at + upTo(r, 10*time.Millisecond), Kind: Wait, Client: r.IntN(p.Clients), Name: name}
		s.TTL, s.For = time.Second, time.Millisecond
		p.Steps = append(p.Steps, s)
	}
}

// onSomeNodes adds that the same happens on some nodes to the same name, soon after another step.
func (p *Plan) onSomeNodes(r *rand.Rand, kind StepKind) (name int, at time.Duration) {
	name = r.IntN(p.Names)
	at = p.Steps[r.IntN(len(p.Steps))].At
	for node := range p.Nodes {
		if r.IntN(2) == 0 {
			p.Steps = append(p.Steps, Step{At: at + upTo(r, 3*time.Millisecond), Kind: kind, Node: node, Name: name})
		}
	}
	return name, at
}

// rush adds that others take the lock in turn for a while, and that somebody waits for it meanwhile.
func (p *Plan) rush(r *rand.Rand) {
	s := Step{At: p.Steps[r.IntN(len(p.Steps))].At, Kind: Rush, Name: r.IntN(p.Names), For: 300*time.Millisecond + upTo(r, time.Second)}
	p.Steps = append(p.Steps, s)
	for range 1 + r.IntN(2) {
		w := Step{At: s.At + upTo(r, s.For/4), Kind: Wait, Client: r.IntN(p.Clients), Name: s.Name}
		w.TTL, w.For = time.Second, time.Millisecond
		p.Steps = append(p.Steps, w)
	}
}

// stranger is a client of another library.
type stranger struct {
	*world
	key    string
	token  string
	number int           // of the tokens that it has had
	until  time.Duration // when it has enough
	next   *stranger     // who takes the lock the moment that this one gives it back; nil means nobody
}

// rush begins a rush: two that poll, or pass the lock on to each other.
func (w *world) rush(s Step) {
	w.log("others take %s in turn for %v", key(s.Name), s.For)
	w.rushed = true
	a := &stranger{world: w, key: key(s.Name), until: w.now + s.For}
	b := &stranger{world: w, key: a.key, until: a.until}
	a.token, b.token = fmt.Sprintf("xa-%v-", s.At), fmt.Sprintf("xb-%v-", s.At)
	if w.chance(int(s.At), 17)&1 == 0 {
		a.next, b.next = b, a
	} else {
		w.after(time.Duration(w.chance(int(s.At), 18)%1000)*time.Microsecond, b.take)
	}
	a.take()
}

// take sets the key on every node where it is not there, and gives it back after a moment.
func (x *stranger) take() {
	x.number++
	token := fmt.Sprint(x.token, x.number)
	for _, s := range x.servers {
		if _, held := s.peek(x.key, s.now()); !held && s.up && x.now >= s.frozen {
			s.set(x.key, &entry{token: token, expires: s.now() + 10*time.Second})
		}
	}
	x.after(x.moment(1), func() {
		for _, s := range x.servers {
			if e, held := s.peek(x.key, s.now()); held && e.token == token && s.up && x.now >= s.frozen {
				s.set(x.key, nil)
			}
		}
		switch {
		case x.now > x.until:
		case x.next != nil:
			x.next.take()
		default:
			x.after(x.moment(2), x.take)
		}
	})
}

func (x *stranger) moment(what int) time.Duration {
	return time.Duration(100+x.chance(x.number, what, 19)%2000) * time.Microsecond
}

// occupied reports whether somebody's data is on so many nodes that the others are no majority.
func (w *world) occupied(is func(s *server) bool) bool {
	n := 0
	for _, s := range w.servers {
		if is(s) {
			n++
		}
	}
	return len(w.servers)-n < quorum.Majority(len(w.servers))
}

// checkOccupied checks that nobody waits for somebody's data.
func (w *world) checkOccupied(q *name, head *waiter) {
	holds := func(k *held) bool { return k.of.key == q.key && k.held() }
	data := func(s *server) bool {
		e, ok := s.peek(q.key, s.now())
		_, ours := s.asking(q.key, s.now())
		return ok && e.foreign && e.forever || head.kind().Several() && !ours && (!ok || e.token == head.kind().Mark())
	}
	if !w.occupied(data) || slices.ContainsFunc(w.locks, holds) || w.now < w.restAt+startOver {
		q.occupied = w.now
	}
	w.check(w.now-q.occupied <= w.patience, "nobody waits for somebody's data", "client %d: waiter %d waits for %s",
		q.client.number, head.number, q.key)
}
