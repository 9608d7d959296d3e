package sim

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// holding counts the nodes that hold a lock now, in their memory or on their disk.
func (w *world) holding(k *lock) int {
	n := 0
	for _, s := range w.servers {
		if e, ok := s.peek(k.key, s.now()); ok && e.token == k.token {
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
		for _, o := range c.live {
			if o.key == k.key && o.token != k.token && o.held() && k.held() {
				w.violate("two never hold the same lock", "client %d won %v while client %d held %v", k.client.number, k, c.number, o)
			}
		}
	}
	w.checkHeld(k, "when it was won")
}

// checkVerdict holds a round that is won to what that means for its caller.
func (w *world) checkVerdict(r *round) {
	if c := r.client; !c.clock.Now().Before(r.grant.Deadline()) {
		w.violate("what is won has validity left", "client %d won %s after its deadline", c.number, r.token)
	}
}

// checkEnd holds the end of a call to what is promised of it.
func (w *world) checkEnd(r *round) {
	c := r.client
	took := c.clock.Now().Sub(r.grant.Start)
	if slack := 5 * time.Millisecond; c.pauses == r.pauses && c.clock.leapt == r.leapt && took > nodeTimeout+slack {
		w.violate("a call ends within the node timeout", "client %d waited %v for %v of %s", c.number, took, r.verb, r.token)
	}
	if r.verb != extend || r.outcome != quorum.Done {
		return
	}
	if !c.clock.Now().Before(r.before) {
		w.violate("an extension is confirmed before the old deadline", "client %d: %v was extended %v after it", c.number, r.lock, c.clock.Now().Sub(r.before))
	}
	if r.lock.unlocked || r.lock.lease.At(c.clock.Now()) != quorum.Held {
		w.violate("a lock that lapsed is not revived", "client %d: %v was extended when it was over", c.number, r.lock)
	}
	if need := len(w.servers)/2 + 1; r.yes < need {
		w.violate("a node that had forgotten a lock does not extend it", "client %d: %v was extended by %d of %d nodes", c.number, r.lock, r.yes, len(w.servers))
	}
	w.checkHeld(r.lock, "when it was extended")
}

// checkSend holds a command that is about to be sent to what may be sent.
func (w *world) checkSend(r *round) {
	if r.verb != extend {
		return
	}
	if k := r.lock; k.unlocked || k.lease.At(k.client.clock.Now()) != quorum.Held {
		w.violate("only its release follows the end of a lease", "client %d: an extension of %v is sent to a node", k.client.number, k)
	}
}

// checkKept holds a lock that has ended by itself to what renewals promise.
func (w *world) checkKept(k *lock) {
	if w.plan.Kept && k.keeping != nil && w.attached[k.token] == nil {
		w.violate("a renewed lock is not lost to one node", "client %d has lost %v", k.client.number, k)
	}
}

// checkRest holds the world, come to rest with all faults gone, to what must not be
// left behind.
func (w *world) checkRest() {
	for _, c := range w.clients {
		for _, r := range c.calls {
			if !c.dead && w.now-r.began >= settleTime {
				w.violate("every call ends", "client %d still waits for %v of %s", c.number, r.verb, r.token)
				return
			}
		}
	}
	for _, s := range w.servers {
		for name := range w.plan.Names {
			if e, ok := s.peek(key(name), s.now()); ok && !e.forever {
				w.checkLeft(s, key(name), e)
			}
		}
	}
}

// checkLeft asks why a key is still there.
func (w *world) checkLeft(s *server, key string, e entry) {
	if !w.plan.Fencing {
		return // what a broken connection has left may be read after the clean-up
	}
	r := w.rounds[e.token]
	last, held, dead, unlocked := r.over, false, r.client.dead, false
	for _, k := range w.locks {
		if k.token == e.token {
			held = held || !k.unlocked && !k.ended
			dead = dead || k.client.dead
			unlocked = unlocked || k.unlocked
			last = max(last, k.at)
		}
	}
	left := time.Duration(e.expires-s.now()) * time.Millisecond
	switch {
	case dead: // its keys end with their TTL
	case held, r.outcome == quorum.Undecided, w.now-last < settleTime:
	case r.outcome != quorum.Done:
		w.violate("a lost round leaves nothing behind", "node %d holds %s, of a round that was lost, for another %v", s.number, e.token, left)
	case unlocked:
		w.violate("an unlock leaves nothing behind", "node %d holds %v, which was unlocked, for another %v", s.number, e.token, left)
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
		e, ok := s.peek(k.key, s.now())
		if !ok || e.token != k.token || w.attached[k.token] != nil {
			continue
		}
		left := time.Duration(e.expires-s.now()) * time.Millisecond
		if allowed := 2*drift.Of(k.lease.Longest()) + e.late + k.client.clock.leapt; left > allowed {
			w.violate("a failed extension leaves nothing behind", "node %d holds %v for another %v, though its lease is over", s.number, k, left)
		}
	}
}
