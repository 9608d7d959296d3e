package sim

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// holders counts the nodes that hold a lock now, in their memory or on their disk.
func (w *world) holders(k *lock) int {
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
	if w.amnesia || w.lapsed || !k.held() {
		return
	}
	if n, need := w.holders(k), len(w.servers)/2+1; n < need {
		w.violate("a lock that is held is on a majority of nodes", "%s, %v was on %d of %d nodes", when, k, n, len(w.servers))
	}
}

// excludes reports whether two never hold the same lock: what nodes forget does no harm behind a guard, what lapses too early does.
func (w *world) excludes() bool { return (!w.amnesia || w.plan.Guard > 0) && !w.lapsed }

// checkWon holds a lock that has been won to what winning means.
func (w *world) checkWon(k *lock) {
	if !w.excludes() {
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
	limit := nodeTimeout + 5*time.Millisecond
	if r.raised { // that is asked when the answers are there
		limit += nodeTimeout
	}
	if c.pauses == r.pauses && c.clock.leapt == r.leapt && took > limit {
		w.violate("a call ends within the node timeout", "client %d waited %v for %v of %s", c.number, took, r.verb, r.token)
	}
	if r.verb == acquire {
		w.checkLost(r)
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

// checkLost holds a round that is lost to the votes of the majority.
func (w *world) checkLost(r *round) {
	if r.outcome == quorum.Done || r.outcome == quorum.TooLate || r.stopped || r.barred {
		return
	}
	granted := 0
	for i := range w.servers {
		if r.machine.Answer(i) == quorum.Yes {
			granted++
		}
	}
	if granted >= quorum.Majority(len(w.servers)) {
		w.violate("what a majority has granted is won", "client %d: %s is %s with %d of %d nodes", r.client.number, r.token, outcomes[r.outcome], granted, len(w.servers))
	}
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
	if w.plan.Kept && k.renewal != nil && w.attached[k.token] == nil {
		w.violate("a renewed lock is not lost to one node", "client %d has lost %v", k.client.number, k)
	}
}

// checkRest holds the world, come to rest with all faults gone, to what must not be
// left behind.
func (w *world) checkRest() {
	for _, c := range w.clients {
		for _, r := range c.calls {
			if !c.dead && w.now-r.began >= restTime {
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
	case held, r.outcome == quorum.Undecided, w.now-last < restTime:
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

// fence is a fencing token in somebody's hands.
type fence struct {
	of     string // the token of its lock
	number uint64
	at     time.Duration // true time at which it was given
	won    bool          // else its lock was attached to
}

// fencing reports whether fencing tokens are promised: not if a node has forgotten its counters and votes at once.
func (w *world) fencing() bool { return !w.amnesia || w.plan.Guard > 0 }

// checkFence holds the fencing token of a round that is won to those before it.
func (w *world) checkFence(r *round) {
	// Of a round that somebody has attached to before it was won nodes may have got back what it had lost there.
	if !r.fenced || !w.fencing() || len(w.attached[r.token]) > 0 {
		return
	}
	number := r.acquire.Fence()
	if number == 0 {
		w.violate("what is won with fencing has a token", "client %d won %s without", r.client.number, r.token)
	}
	// If the key of a round can go while it is under way, another may be won meanwhile.
	_, given := w.given[r.token]
	always := w.excludes() && !w.forced && !given
	for _, o := range w.fences[r.key] {
		w.checkOrder(o, r.token, number, always || o.at < r.began)
	}
	w.fences[r.key] = append(w.fences[r.key], fence{r.token, number, w.now, true})
}

// checkOrder holds a fencing token to another. later means that it has to be higher.
func (w *world) checkOrder(o fence, token string, number uint64, later bool) {
	switch {
	case number == o.number:
		w.violate("no two locks of a name have the same fencing token", "%s and %s have %d", o.of, token, since(number))
	case number < o.number && later:
		w.violate("fencing tokens go up from holder to holder", "%s has %d, and %s before it had %d", token, since(number), o.of, since(o.number))
	}
}

// checkAttached holds the fencing token of an attached lock to the others.
func (w *world) checkAttached(a *attachment) {
	if !a.of.fenced || !w.fencing() {
		return
	}
	token, number, key := a.of.token, a.machine.Fence(), a.of.key
	own := uint64(0)
	for _, o := range w.fences[key] {
		switch {
		case o.of != token:
			w.checkOrder(o, token, number, o.at < a.of.began)
		case o.won && o.at < a.began:
			own = o.number
		case own != o.number: // of one who began to attach before it was won
			own = number
		}
	}
	if number == 0 || own > 0 && own != number && !w.plan.Echo { // what is won once more has another
		w.violate("an attached lock has the fencing token that it was won with", "client %d: %s has %d, and was won with %d", a.client.number, token, since(number), since(own))
	}
	w.fences[key] = append(w.fences[key], fence{token, number, w.now, false})
}

// checkCounter holds a command with fencing to what it may do to the counter, and to the key if it has changed it.
func (s *server) checkCounter(c command, before entry, changed bool, counted uint64) {
	if now := s.counters[c.key].number; now < counted {
		s.world.violate("a counter never goes back", "node %d: %v of %s set it from %d to %d", s.number, c.verb, c.token, since(counted), since(now))
	}
	if c.verb == raise && changed && (before.token != c.token || before.number != c.fence.number) {
		s.world.violate("a token is put in the place of what its round was granted only", "node %d: %d of %s, in the place of %d of %s",
			s.number, since(c.fence.token), c.token, since(before.number), before.token)
	}
}
