package sim

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// holding counts the nodes that hold a lock now, in their memory or on their disk.
func (w *world) holding(k *lock) int {
	n := 0
	for _, s := range w.servers {
		if e, ok := s.get(k.round.key, s.now()); ok && e.token == k.round.token {
			n++
		}
	}
	return n
}

// checkHeld holds a lock that its holder relies on to what it relies on.
func (w *world) checkHeld(k *lock, when string) {
	if w.amnesia || !k.held() {
		return
	}
	if n, need := w.holding(k), len(w.servers)/2+1; n < need {
		w.violate("a lock that is held is on a majority of nodes", "%s, %v was on %d of %d nodes", when, k, n, len(w.servers))
	}
}

// checkWon holds a lock that has been won to what winning means.
func (w *world) checkWon(k *lock) {
	if w.amnesia {
		return
	}
	for _, c := range w.clients {
		if o := c.holds; o != nil && o != k && o.round.key == k.round.key && o.held() && k.held() {
			w.violate("two never hold the same lock", "client %d won %v while client %d held %v", k.client.number, k, c.number, o)
		}
	}
	if !k.held() {
		w.violate("what is won has validity left", "client %d won %v after its deadline", k.client.number, k)
	}
	w.checkHeld(k, "when it was won")
}

// checkEnd holds the end of a call to what is promised of it.
func (w *world) checkEnd(r *round) {
	c := r.client
	took := c.clock.Now().Sub(r.started)
	if slack := 5 * time.Millisecond; c.pauses == r.pauses && c.clock.leapt == r.leapt && took > nodeTimeout+slack {
		w.violate("a call ends within the node timeout", "client %d waited %v for %v of %s", c.number, took, r.verb, r.token)
	}
	if r.verb != extend || r.outcome != quorum.Done {
		return
	}
	if !c.clock.Now().Before(r.before) {
		w.violate("an extension is confirmed before the old deadline", "client %d: %v was extended %v after it", c.number, r.lock, c.clock.Now().Sub(r.before))
	}
	if !r.lock.held() {
		w.violate("a lock that lapsed is not revived", "client %d: %v was extended when it was over", c.number, r.lock)
	}
	w.checkHeld(r.lock, "when it was extended")
}

// checkRest holds the world, come to rest with all faults gone, to what must not be
// left behind.
func (w *world) checkRest() {
	for _, c := range w.clients {
		if c.call != nil && !c.dead {
			w.violate("every call ends", "client %d still waits for %v of %s", c.number, c.call.verb, c.call.token)
			return
		}
	}
	for _, s := range w.servers {
		for key := range s.keys {
			if e, ok := s.get(key, s.now()); ok {
				w.checkLeft(s, e)
			}
		}
	}
}

// checkLeft asks why a key is still there.
func (w *world) checkLeft(s *server, e entry) {
	c, k := w.owner(e.token)
	left := time.Duration(e.expires-s.now()) * time.Millisecond
	switch {
	case c.dead:
		return // its keys end with their TTL
	case !w.plan.Fencing:
		return // what a broken connection has left may be read after the clean-up
	case k == nil:
		w.violate("a lost round leaves nothing behind", "node %d holds %s, of a round that was lost, for another %v", s.number, e.token, left)
	case k.unlocked:
		w.violate("an unlock leaves nothing behind", "node %d holds %v, which was unlocked, for another %v", s.number, k, left)
	}
}

// checkOver holds a lock that has ended by itself, some time ago and with all faults gone,
// to what it may leave behind: its keys go on for the drift allowance, for what the clocks
// drift apart meanwhile, and for as long as
// the command that gave them their TTL was on its way.
func (w *world) checkOver(k *lock) {
	if !w.plan.Fencing {
		return
	}
	for _, s := range w.servers {
		e, ok := s.get(k.round.key, s.now())
		if !ok {
			continue
		}
		if _, owner := w.owner(e.token); owner != k {
			continue
		}
		left := time.Duration(e.expires-s.now()) * time.Millisecond
		if allowed := 2*drift.Of(k.lease.Longest()) + e.late + k.client.clock.leapt; left > allowed {
			w.violate("a failed extension leaves nothing behind", "node %d holds %v for another %v, though its lease is over", s.number, k, left)
		}
	}
}

// owner returns whose token it is, and the lock if the round was won.
func (w *world) owner(token string) (*client, *lock) {
	for _, c := range w.clients {
		for _, k := range slices.Backward(c.locks) {
			if k.round.token == token {
				return c, k
			}
		}
	}
	return w.clients[int(token[1]-'0')], nil
}
