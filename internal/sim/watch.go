package sim

import (
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// watching makes a plan in which the key of a renewed lock is changed and deleted by others. Its nodes push changes.
func (p *Plan) watching(r *rand.Rand) {
	p.clear(r, howMany(r), 2)
	p.Watched, p.Kept, p.Tracking, p.Fencing, p.Durable = true, false, true, true, true
	p.Steps = []Step{{Kind: Acquire, TTL: time.Hour, Auto: true}}
	at := 2 * time.Second     // the lock has been renewed once, and the answers are there
	for range 1 + r.IntN(4) { // no more than are observed
		at += upTo(r, pick(r, time.Millisecond, time.Second))
		s := Step{At: at, Kind: pick(r, Lapse, Lapse, Lapse, Flush, Touch, Touch, Cut), Node: r.IntN(p.Nodes)}
		if r.IntN(8) == 0 {
			s.Kind, s.Client = Force, 1
		}
		p.Steps = append(p.Steps, s)
	}
}

// noticed is how long after a deletion its holder knows of it, even if its connections have just ended.
const noticed = time.Second

// watch has the nodes' pushes about the lock's key looked into.
func (k *lock) watch() { k.client.watched[k.of.key] = k }

// observe finds out whether a node still holds the lock.
func (k *lock) observe(l *line) {
	c := k.client
	if !k.lease.Invalidated(&c.clock, l.server.number) {
		return
	}
	l.send(command{verb: observe, key: k.of.key, track: true}, func(vote quorum.Answer, r reply) {
		if vote == quorum.Yes && r.token != k.of.token {
			vote = quorum.No
		}
		c.log("client %d: does node %d hold %v? %s", c.number, l.server.number, k, vote)
		k.unsure = k.unsure || vote != quorum.Yes && vote != quorum.No
		k.lease.Observed(&c.clock, l.server.number, vote)
		if k.lease.At(c.clock.Now()) == quorum.Lost {
			k.current.over()
		}
	})
}

// changed checks that the holder of a lock knows some time later if a change of its key has left no majority.
func (w *world) changed(key string) {
	for _, k := range w.locks {
		if w.plan.Watched && k.of.key == key && k.held() && w.holders(k) < quorum.Majority(len(w.servers)) {
			w.after(noticed, func() {
				w.check(!k.held() || k.unsure, "a renewed lock that is deleted is lost at once",
					"client %d relies on %v", k.client.number, k)
			})
		}
	}
}

// holders counts the nodes that hold a lock.
func (w *world) holders(k *lock) (n int) {
	for _, s := range w.servers {
		if e, ok := s.peek(k.of.key, s.now()); ok && e.token == k.of.token {
			n++
		}
	}
	return n
}
