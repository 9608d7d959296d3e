package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// watching makes a plan in which the key of a renewed lock is changed and deleted by others. Its nodes push changes.
func (p *Plan) watching(r *rand.Rand) {
	p.clear(r, howMany(r), 2)
	p.Watched, p.Kept, p.Tracking, p.Fencing, p.Durable = true, false, true, true, true
	p.Steps = []Step{{Kind: Acquire, TTL: time.Hour, Auto: true}}
	at := 2 * time.Second     // the lock has been renewed once, and the answers are there
	for range 1 + r.IntN(3) { // no more than are observed, with a late extension
		at += upTo(r, pick(r, time.Millisecond, time.Second))
		s := Step{At: at, Kind: pick(r, Lapse, Lapse, Lapse, Flush, Touch, Touch, Cut), Node: r.IntN(p.Nodes)}
		if r.IntN(8) == 0 {
			s.Kind, s.Client = Force, 1
		}
		p.Steps = append(p.Steps, s)
	}
	switch r.IntN(3) {
	case 0:
		p.stalling(r)
	case 1:
		p.confirming(r)
	}
	if r.IntN(4) == 0 {
		p.straggling(r)
	}
	if r.IntN(2) == 0 { // the first renewal gives a node the key, and an extension confirms that, maybe late
		p.Steps = append(p.Steps, Step{At: 50 * time.Millisecond, Kind: Lapse, Node: r.IntN(p.Nodes)},
			Step{At: time.Second, Kind: Extend, TTL: time.Hour})
		for node := range p.Nodes {
			if r.IntN(4) == 0 {
				p.Steps = append(p.Steps, Step{At: time.Second - time.Microsecond, Kind: Stall, Node: node, For: 300 * time.Millisecond})
			}
		}
	}
	p.lengthened(rand.New(rand.NewPCG(p.Seed, 0xa0761d6478bd642f)))
}

// lengthened has some of such plans extend the lock by more than a renewal would, while one node is slow to answer: the first renewal is
// due by then.
func (p *Plan) lengthened(r *rand.Rand) {
	if r.IntN(4) > 0 {
		return
	}
	at := 60*time.Millisecond + upTo(r, 30*time.Millisecond)
	p.Steps = append(p.Steps, Step{At: at, Kind: Extend, TTL: 3 * time.Hour},
		Step{At: at - time.Microsecond, Kind: Stall, Node: r.IntN(p.Nodes), For: 40*time.Millisecond + upTo(r, 10*time.Millisecond)})
}

// stalling adds to such a plan an extension, or a round for another lock, that is held up on its way, while nodes lose the key and
// another client takes the lock and gives it back.
func (p *Plan) stalling(r *rand.Rand) {
	at := 4*time.Second + upTo(r, time.Second)
	held := len(p.Steps)
	p.Steps = append(p.Steps, Step{At: at, Kind: Extend, TTL: time.Hour})
	for node := range p.Nodes {
		if r.IntN(4) == 0 {
			continue
		}
		stall := Step{At: at - time.Microsecond, Kind: Stall, Node: node, For: time.Millisecond + upTo(r, 300*time.Millisecond)}
		loss := Step{At: at + upTo(r, stall.For), Kind: pick(r, Lapse, Lapse, Flush), Node: node}
		if r.IntN(4) == 0 {
			loss.Kind = Cut
		}
		p.Steps = append(p.Steps, stall, loss)
		if r.IntN(4) == 0 {
			p.Steps = append(p.Steps, Step{At: loss.At + time.Microsecond, Kind: Data, Node: node})
		}
	}
	if r.IntN(2) == 0 {
		p.Steps = append(p.Steps, Step{At: at + upTo(r, 300*time.Millisecond), Kind: Extend, TTL: time.Hour})
	}
	taken := at + upTo(r, 300*time.Millisecond)
	p.comeAndGo(r, taken)
	p.Steps = append(p.Steps, Step{At: at + 2*noticed, Kind: Cancel}) // nothing: the run goes on until then
	switch r.IntN(6) {
	case 0:
		p.Names, p.Steps[held] = 2, Step{At: at, Kind: Wait, Name: 1, TTL: time.Second, For: time.Millisecond}
	case 1:
		p.Steps = append(p.Steps, Step{At: taken + upTo(r, 300*time.Millisecond), Kind: Unlock})
	}
}

// confirming adds to such a plan an extension that a majority confirms, while it is held up on its way to a node. This one and so many
// of the others lose the key meanwhile that another client can take the lock.
func (p *Plan) confirming(r *rand.Rand) {
	at, late := 4*time.Second+upTo(r, time.Second), r.IntN(p.Nodes)
	wait := 100*time.Millisecond + upTo(r, 200*time.Millisecond)
	p.Steps = append(p.Steps, Step{At: at, Kind: Extend, TTL: time.Hour},
		Step{At: at - time.Microsecond, Kind: Stall, Node: late, For: wait})
	if r.IntN(2) == 0 { // one of the losses is not noticed before another extension
		p.Steps = append(p.Steps, Step{At: at + 1500*time.Microsecond, Kind: Stall, Node: (late + 1) % p.Nodes, For: wait + 100*time.Millisecond},
			Step{At: at + wait + 2*time.Millisecond, Kind: Extend, TTL: time.Hour})
	}
	for i := range quorum.Majority(p.Nodes) {
		p.Steps = append(p.Steps, Step{At: at + 2*time.Millisecond + upTo(r, 50*time.Millisecond), Kind: pick(r, Lapse, Flush), Node: (late + i) % p.Nodes})
	}
	p.comeAndGo(r, at+55*time.Millisecond)
	p.Steps = append(p.Steps, Step{At: at + upTo(r, noticed), Kind: Unlock},
		Step{At: at + 2*noticed, Kind: Cancel}) // nothing: the run goes on until then
}

// comeAndGo has another client take the lock and give it back.
func (p *Plan) comeAndGo(r *rand.Rand, at time.Duration) {
	p.Steps = append(p.Steps, Step{At: at, Kind: Acquire, Client: 1, TTL: time.Hour},
		Step{At: at + upTo(r, 20*time.Millisecond), Kind: Unlock, Client: 1})
}

// straggling has the acquire of such a plan held up on its way to a node. This one and so many of the others lose the key meanwhile
// that another client can take the lock.
func (p *Plan) straggling(r *rand.Rand) {
	late := r.IntN(p.Nodes)
	p.Steps = append(p.Steps, Step{Kind: Stall, Node: late, For: 70*time.Millisecond + upTo(r, 20*time.Millisecond)})
	for i := range quorum.Majority(p.Nodes) - 1 {
		p.Steps = append(p.Steps, Step{At: 20 * time.Millisecond, Kind: Lapse, Node: (late + 1 + i) % p.Nodes})
	}
	p.Steps = append(p.Steps, Step{At: 30 * time.Millisecond, Kind: Acquire, Client: 1, TTL: time.Hour},
		Step{At: 45 * time.Millisecond, Kind: Unlock, Client: 1},
		Step{At: 95 * time.Millisecond, Kind: Unlock, Client: 1}) // if it was late itself
}

// noticed is how long after a deletion its holder knows of it, even if its connections have just ended.
const noticed = time.Second

// Reply implements [wire.Receiver] for observations.
func (g *granted) Reply(tag wire.Tag, r *wire.Reply) {
	g.do(func() {
		k := g.current
		k.client.log("client %d: does node %d hold %v? %v", k.client.number, tag.Node, k, r.Answer)
		k.act(g.lease.Answered(nil, tag, r))
	})
}

// changed checks that the holder of a lock knows some time later if a change of its key has left no majority.
func (w *world) changed(key string) {
	for _, k := range w.locks {
		if w.plan.Watched && k.lease.Renewal != nil && k.of.key == key && k.held() && w.holders(k) < quorum.Majority(len(w.servers)) {
			w.after(noticed, func() {
				w.check(!k.held() || k.of.straggled(0) || k.unheard() || k.untracked(), "a renewed lock that is deleted is lost at once",
					"client %d relies on %v", k.client.number, k)
			})
		}
	}
}

// unheard reports whether a node was given the lock's key by an extension whose answer was lost with its connection.
func (k *held) unheard() bool {
	return k.extended(func(r *round) bool { return r.unheard > 0 })
}

// untracked reports whether a node was not sent an extension, so that it may not track the lock's key.
func (k *held) untracked() bool {
	return k.extended(func(r *round) bool { return r.votes(quorum.Unsent) > 0 })
}

// extended reports whether an extension of the lock for which nodes were asked is as is says.
func (k *held) extended(is func(*round) bool) bool {
	return slices.ContainsFunc(k.client.calls, func(r *round) bool {
		return r.lock == k && r.verb == extend && !r.Grant().Start.IsZero() && is(r)
	})
}

// holders counts the nodes that hold a lock.
func (w *world) holders(k *held) int {
	return w.holding(k, func(*server, entry) bool { return true })
}

// counting counts those of them of which the holder can know that they have held it all the time: since it was won, or since an
// extension before one that a majority has confirmed.
func (w *world) counting(k *held) int {
	return w.holding(k, func(s *server, e entry) bool {
		shown := func(r *round) bool {
			answer := r.Answer(s.number)
			return (answer == quorum.Yes || answer == quorum.Recreated) && e.born <= r.sent+nodeTimeout
		}
		return shown(k.of) || k.extended(func(r *round) bool {
			known := e.born+nodeTimeout <= r.sent // before it began
			return known && r.votes(quorum.Yes) >= quorum.Majority(len(w.servers)) && k.extended(func(before *round) bool { return before.sent < r.sent && shown(before) })
		})
	})
}

// delay is where and when an acquire has set its key after its outcome.
type delay struct {
	node int
	at   time.Duration
}

// straggled reports whether a node has carried out an acquire after its outcome, and not before a time, and has said so in time.
func (r *round) straggled(since time.Duration) bool {
	return slices.ContainsFunc(r.delayed, func(d delay) bool { return d.at >= since && r.acquire.Votes().Holds(d.node) })
}

// votes counts the nodes with an answer.
func (r *round) votes(answer quorum.Answer) (n int) {
	for i := range r.client.servers {
		if r.Answer(i) == answer {
			n++
		}
	}
	return n
}

func (w *world) holding(k *held, counts func(*server, entry) bool) (n int) {
	for _, s := range w.servers {
		if e, ok := s.lockOf(k.of.key, k.of.token, s.now()); ok && (k.slot == 0 || e.number == k.slot) && counts(s, e) {
			n++
		}
	}
	return n
}
