package sim

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// checkHeld checks that a lock that its holder relies on is in the memory, or on the disk, of a majority of nodes.
func (w *world) checkHeld(k *held, when string) {
	if w.amnesia || w.lapsed || !k.held() {
		return
	}
	n := w.holders(k)
	w.check(n >= quorum.Majority(len(w.servers)), "a lock that is held is on a majority of nodes",
		"%s, %v was on %d of %d nodes", when, k, n, len(w.servers))
}

// excludes reports whether two never hold the same lock: what nodes forget does no harm behind a guard,
// what lapses too early does.
func (w *world) excludes() bool { return (!w.amnesia || w.plan.Guard > 0) && !w.lapsed }

// checkWon holds a lock that has been won to what winning means.
func (w *world) checkWon(k *held) {
	if !w.excludes() {
		return
	}
	for _, o := range w.locks {
		w.check(!o.excludes(k) || !o.held() || !k.held(), "two clients never hold the same lock",
			"client %d won %v while client %d held %v", k.client.number, k, o.client.number, o)
	}
	w.checkTaken(k)
	w.checkHeld(k, "when it was won")
}

// checkEnd holds the end of a call to what is promised of it.
func (w *world) checkEnd(r *round) {
	c, k := r.client, r.lock
	now := c.clock.Now()
	took, limit := now.Sub(r.Grant().Start), nodeTimeout+5*time.Millisecond
	if r.first {
		limit += dialTimeout
	}
	if r.raised { // that is asked when the answers are there
		limit += nodeTimeout
	}
	w.check(took <= limit || c.upsets > r.upsets, "a call ends within the node timeout",
		"client %d waited %v for %v of %s", c.number, took, r.verb, r.token)
	if r.verb == acquire {
		w.checkLost(r)
	}
	if r.verb == release && r.outcome == quorum.Done {
		w.checkReleased(r)
	}
	if r.verb != extend || r.outcome != quorum.Done {
		return
	}
	w.check(now.Before(r.before), "an extension is confirmed before the old deadline",
		"client %d: %v was extended %v after it", c.number, k, now.Sub(r.before))
	w.check(!k.current.unlocked && k.lease.At(now) == quorum.NotEnded, "a lock that lapsed is not revived",
		"client %d: %v was extended when it was over", c.number, k)
	w.check(r.yes > len(w.servers)/2, "a node that had forgotten a lock does not extend it",
		"client %d: %v was extended by %d of %d nodes", c.number, k, r.yes, len(w.servers))
	w.checkHeld(k, "when it was extended")
}

// checkReleased holds an Unlock that has found the lock on a majority to what that means. Nodes that have lost the key may have given
// it to others, and an extension or a late acquire may have set it there again: the answers show the former. They do not show whom the nodes
// have forgotten.
func (w *world) checkReleased(r *round) {
	k := r.lock
	if w.plan.Echo || len(k.of.attached) > 0 || k.unheard() {
		return
	}
	for _, o := range w.locks {
		meanwhile := o.of.outcome == quorum.Done && o.of.sent >= max(k.of.over, w.restored) && o.of.over < r.sent && !k.of.straggled(o.of.sent)
		w.check(!o.excludes(k) || !meanwhile, "an unlock that is done says that nobody else has had the lock",
			"client %d unlocked %v, which client %d has had meanwhile as %v", k.client.number, k, o.client.number, o)
	}
}

// checkLost holds a round that is lost to the votes of the majority.
func (w *world) checkLost(r *round) {
	if r.outcome == quorum.Done || r.outcome == quorum.TooLate || r.stopped || r.barred {
		return
	}
	granted := r.agreed()
	w.check(granted < quorum.Majority(len(w.servers)), "a round that a majority has granted is won",
		"client %d: %s is %s with %d of %d nodes", r.client.number, r.token, outcomes[r.outcome], granted,
		len(w.servers))
}

// checkRest holds the world, come to rest with all faults gone, to what must not be
// left behind.
func (w *world) checkRest() {
	for _, c := range w.clients {
		for _, r := range c.calls {
			w.check(c.dead || r.over > 0 || w.now-r.sent < restTime, "every call ends",
				"client %d still waits for %v of %s", c.number, r.verb, r.token)
		}
	}
	for _, s := range w.servers {
		for name := range w.plan.Names {
			if e, ok := s.peek(key(name), s.now()); ok && !e.forever {
				w.checkLeft(s, key(name), e)
			}
			w.checkShares(s, key(name))
		}
	}
}

// checkLeft asks why a key is still there.
func (w *world) checkLeft(s *server, key string, e entry) {
	if !w.plan.Fencing {
		return // what a broken connection has left may be read after the clean-up
	}
	r := w.rounds[life{e.token, key}]
	if r == nil {
		return // of another library's client
	}
	last, held, dead, unlocked, unclear := max(r.over, r.back), false, r.client.dead, false, false
	for _, k := range w.locks {
		if k.of == r {
			held = held || !k.unlocked && !k.passed && !k.ended && !k.detached
			dead = dead || k.client.dead
			unlocked = unlocked || k.unlocked
			unclear = unclear || k.unlocked && k.released.outcome != quorum.Done
			last = max(last, k.at)
		}
	}
	left := e.expires - s.now()
	switch {
	case dead, e.born < w.restored: // its keys end with their TTL, and so do those whose release a node has forgotten
	case held, r.outcome == quorum.Undecided, w.now-last < restTime:
	case r.outcome != quorum.Done:
		w.check(false, "a lost round leaves nothing behind", "node %d holds %s for another %v", s.number, e.token, left)
	case r.back > 0:
		w.check(false, "a set that is not won leaves nothing behind", "node %d holds %s of %s for another %v", s.number, key, e.token, left)
	case unclear && slices.Contains(r.late, s.number): // its error says that keys may be left
	case unlocked && (r.unsure || slices.Contains(r.silent, s.number)):
	case unlocked:
		w.check(false, "an unlock leaves nothing behind", "node %d holds %v for another %v", s.number, e.token, left)
	}
}

// checkOver holds a lock that has ended by itself, some time ago and with all faults gone,
// to what it may leave behind: its keys go on for the drift allowance, for what the clocks
// drift apart meanwhile, and for as long as
// the command that gave them their TTL was on its way.
func (w *world) checkOver(k *held) {
	if !w.plan.Fencing || k.of.attached != nil {
		return
	}
	for _, s := range w.servers {
		if e, ok := s.lockOf(k.of.key, k.of.token, s.now()); ok {
			left, allowed := e.expires-s.now(), 2*drift.Of(k.lease.Longest())+e.late+k.client.clock.leapt
			w.check(left <= allowed, "a failed extension leaves nothing behind",
				"node %d holds %v for another %v", s.number, k, left)
		}
	}
}

// checkChange holds a command to what no command may do. A deletion of a key without a TTL that was there for long when it was
// observed may meet another with the same value.
func (s *server) checkChange(m message, l *line, key string, before entry, was bool, after entry, is bool) {
	verb, of := does(m.cmd), m.of
	name, _ := split(m.cmd.Token)
	if m.cmd.Keys() != nil {
		of = s.rounds[life{name, key}]
	}
	switch w := s.world; {
	case was && before.foreign:
		w.check(is && after == before, "somebody's data is left alone", "node %d: %v of %s changed it", s.number, verb, name)
	case verb == heal && was && before.forever && before.token == name:
		age, leapt := w.now-before.born, time.Duration(0)
		if seen := l.stood[key]; seen.token == name {
			age = max(age, seen.age)
		}
		for _, c := range w.clients {
			leapt = max(leapt, c.clock.leapt)
		}
		w.check(age >= healAfter*99/100-leapt, "a key without a TTL is deleted only when it has been there for long",
			"node %d: after %v", s.number, age)
	case verb == force && was && !is && before.token == name:
		w.endsByForce(name, key)
		if isMark(name) && s.sharers[key] != nil {
			for token := range s.sharers[key].in {
				w.endsByForce(token, key)
			}
		}
	case was && before.token != name && (!is || after != before):
		w.check(false, "a key is changed by its owner only", "node %d: %v of %s changed the key of %s",
			s.number, verb, name, before.token)
	case verb == acquire && !was && is && of != nil && of.over > 0:
		of.delayed = append(of.delayed, delay{s.number, s.world.now})
	case verb == extend && was && before.token == name:
		of.yes++
	case verb == extend && !was && is:
		of.unheard++
	case !was && is && verb != acquire && verb != extend:
		w.check(false, "a lock that lapsed is not revived", "node %d: %v of %s made the key",
			s.number, verb, name)
	}
}

// fence is a fencing token in somebody's hands.
type fence struct {
	of     *round // that won the lock
	number uint64
	at     time.Duration // true time at which it was given
	won    bool          // else its lock was attached to, or it is that of a holder
	holder *held         // that has it; nil if it is that of all
}

// fencing reports whether fencing tokens are promised: not if a node has forgotten its counters and votes
// at once.
func (w *world) fencing() bool { return !w.amnesia || w.plan.Guard > 0 }

// checkFence holds the fencing token of a round that is won to those before it.
func (w *world) checkFence(r *round) {
	// Of a round that somebody has attached to before it was won nodes may have got back what it had lost
	// there.
	if !r.fenced || !w.fencing() || len(r.attached) > 0 {
		return
	}
	number := r.acquire.Votes().Fence()
	w.check(number > 0, "a lock that is won with fencing has a token", "client %d won %s without",
		r.client.number, r.token)
	// If the key of a round can go while it is under way, another may be won meanwhile.
	always := w.excludes() && !w.forced && len(r.given) == 0
	for _, o := range w.fences {
		w.checkOrder(o, r, number, always || o.at < r.sent)
	}
	w.fences = append(w.fences, fence{of: r, number: number, at: w.now, won: true})
}

// checkOrder holds the fencing token of a round to another. later means that it has to be higher.
func (w *world) checkOrder(o fence, r *round, number uint64, later bool) {
	switch {
	case o.of.key != r.key:
	case number == o.number:
		w.check(false, "no two locks of a name have the same fencing token", "%s and %s have %d",
			o.of.token, r.token, since(number))
	case number < o.number && later:
		w.check(false, "fencing tokens go up from holder to holder",
			"%s has %d, and %s before it had %d", r.token, since(number), o.of.token, since(o.number))
	}
}

// checkAttached holds the fencing token of a lock that has been attached to, begun at a time, to the others.
func (w *world) checkAttached(k *held, began time.Duration) {
	if !k.of.fenced || !w.fencing() {
		return
	}
	own := uint64(0)
	for _, o := range w.fences {
		switch {
		case o.of != k.of:
			w.checkOrder(o, k.of, k.fence, o.at < k.of.sent)
		case o.holder != nil:
		case o.won && o.at < began:
			own = o.number
		case own != o.number: // of one who began to attach before it was won
			own = k.fence
		}
	}
	// What is won once more, after an echo, has another.
	w.check(k.fence > 0 && (own == 0 || own == k.fence || w.plan.Echo),
		"an attached lock has the fencing token that it was won with",
		"client %d: %v has %d, and was won with %d", k.client.number, k, since(k.fence), since(own))
	w.fences = append(w.fences, fence{of: k.of, number: k.fence, at: w.now})
}

// checkCounter holds a command with fencing to what it may do to the counter, and to the key if it has
// changed it.
func (s *server) checkCounter(c *wire.Command, key string, before entry, changed bool, counted counter) {
	now := s.counters[key]
	switch {
	case counted.foreign && now != counted:
		s.check(false, "somebody's data in the place of a counter is left alone",
			"node %d: %v of %s changed it", s.number, does(c), c.Token)
	case now.number < counted.number:
		s.check(false, "a counter never goes back", "node %d: %v of %s set it from %d to %d",
			s.number, does(c), c.Token, since(counted.number), since(now.number))
	}
	if does(c) == raise && changed {
		name, granted := split(c.Args[0])
		s.check(before.token == name && before.number == granted, "a node replaces only what it granted to the round by the token of the round",
			"node %d: %s of %s, in the place of %d of %s", s.number, c.Args[2], name, since(before.number), before.token)
	}
}
