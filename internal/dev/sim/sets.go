package sim

import (
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// waitingSets makes a plan in which some take several locks at once, again and again, beside others that take one of them.
func (p *Plan) waitingSets(r *rand.Rand) {
	if p.Seed%9 != 6 || p.Kept || p.Watched || r.IntN(3) > 0 || !p.alone() {
		return
	}
	p.Names = 2 + r.IntN(7)
	p.calm(r, 2+r.IntN(3))
	ttl, until := pick(r, 500*time.Millisecond, 2*time.Second), 200*time.Millisecond+upTo(r, 400*time.Millisecond)
	hold := time.Millisecond + upTo(r, pick(r, 2*time.Millisecond, 40*time.Millisecond))
	come := func(kind StepKind) {
		s := Step{Kind: kind, TTL: ttl, Until: until, At: upTo(r, 20*time.Millisecond), Client: r.IntN(p.Clients), Name: r.IntN(p.Names)}
		s.For, s.Pause, s.All = hold/2+upTo(r, hold/2), pick(r, time.Microsecond, 20*time.Millisecond), 2
		if kind == WaitAll {
			s.All += r.IntN(p.Names - 1)
			p.Sets++
		}
		if r.IntN(8) == 0 {
			s.Patience = 10*time.Millisecond + upTo(r, 100*time.Millisecond)
		}
		p.Steps = append(p.Steps, s)
	}
	for range 1 + r.IntN(4) {
		come(WaitAll)
	}
	for range r.IntN(3 * p.Names) {
		come(Again)
	}
	p.Steady = true
	if r.IntN(3) == 0 {
		come(Nested)
	}
	if r.IntN(3) == 0 { // somebody keeps one of them to the end
		s := Step{Kind: Wait, At: upTo(r, until/2), TTL: 200 * time.Millisecond, Auto: true, Client: r.IntN(p.Clients), Name: r.IntN(p.Names), For: until + time.Second}
		p.Steps = append(p.Steps, s)
		p.Steady = false
	}
	if r.IntN(3) == 0 {
		for range 1 + r.IntN(4) {
			s := Step{Kind: pick(r, Cut, Freeze, Vanish, Die, Pause, Lapse), At: upTo(r, until), Client: r.IntN(p.Clients), Node: r.IntN(p.Nodes), Name: r.IntN(p.Names)}
			s.For, s.Lose = time.Millisecond+upTo(r, 300*time.Millisecond), pick(r, 0, 0.5, 1)
			p.Steps = append(p.Steps, s)
		}
		p.Steady = false
	}
}

const (
	// maxRaces is how many locks of each of its names others get at most, of that of which they get the fewest, while a set waits.
	maxRaces = 40
	// maxPassed is how many locks others get at most while one waits for a lock that sets want, too.
	maxPassed = 64
	// slack is how late something may happen: a round, and the timers.
	slack = 2*nodeTimeout + 10*time.Millisecond
)

// mostPatience is for how long a set holds something at most while the name that it waits for does not change hands.
func (s Step) mostPatience() time.Duration { return min(s.TTL/4, 5*time.Second) }

// holderSince returns since when somebody holds a key on a majority of nodes; false if nobody does.
func (w *world) holderSince(key string) (since time.Duration, is bool) {
	on, from := map[string]int{}, map[string]time.Duration{}
	for _, s := range w.servers {
		if e, ok := s.peek(key, s.now()); ok {
			on[e.token]++
			from[e.token] = max(from[e.token], e.born)
		}
	}
	for token, n := range on {
		if n >= quorum.Majority(len(w.servers)) {
			return from[token], true
		}
	}
	return 0, false
}

// due returns when it has to have given back what it holds, if the holder at its place stays the same; 0: never.
func (t *several) due() time.Duration {
	if t.place == nil || t.all.Held() == 0 {
		return 0
	}
	since, is := t.client.holderSince(t.place.queue.key)
	if !is {
		return 0
	}
	return max(since, t.from) + t.mostPatience()*102/100 + slack
}

// checkHeldSince checks that it has not held something for too long where it waits.
func (t *several) checkHeldSince() {
	due, c := t.due(), t.client
	c.check(due == 0 || c.now <= due || c.dead || c.upsets > t.upsets, "a set holds nothing for long while the holder in its way stays the same",
		"client %d, %v behind %v", c.number, t.keys, c.now-t.from)
}

// watchPatience checks that from time to time.
func (t *several) watchPatience(number int) {
	if !t.waits(number) || t.client.resting {
		return
	}
	t.checkHeldSince()
	t.client.world.after(t.mostPatience()/2, func() { t.watchPatience(number) })
}

// checkPasses checks that it does not go past calls that wait in its client, but for those at the name of its turn.
func (t *several) checkPasses(s lock.Step, at int) {
	c := t.client
	for i := range s.Names.Each() {
		c.check(i == at || len(c.name(t.keys[i]).lock.Waiting()) == 0, "a set has its turn like others in its client",
			"client %d comes for %v", c.number, t.keys)
	}
}

// raced returns how many locks others have got since, of that name of which they have got the fewest.
func (t *several) raced() (least int) {
	least = t.client.wins[t.keys[0]] - t.wins[t.keys[0]]
	for _, key := range t.keys {
		least = min(least, t.client.wins[key]-t.wins[key])
	}
	return least
}

// checkHave checks that it has got on.
func (t *several) checkHave() {
	c := t.client
	for i, k := range t.locks {
		left, stands := k.lease.Remaining(c.clock.Now()), k.lease.At(c.clock.Now()) == quorum.NotEnded
		c.check(stands && k.key == t.keys[i], "a set has the locks of all its names", "client %d: %s", c.number, k.key)
		c.check(left > t.TTL*8/10 || !c.plan.Steady, "the locks of a set were just taken or extended", "client %d: %s for %v", c.number, k.key, left)
	}
	n := t.raced()
	c.check(n <= maxRaces*len(t.keys) || !c.plan.Steady, "a set gets on", "client %d has waited for %d locks of each of %v", c.number, n, t.keys)
}

// mostWaits is how long those that take several locks may need to get them when nobody else comes.
func (w *world) mostWaits() (most time.Duration) {
	for _, s := range w.plan.Steps {
		if s.Kind == WaitAll || s.Kind == Nested {
			most += 4 * s.mostPatience()
		}
	}
	return most
}

// checkSets checks that no set waits when the others have come to an end.
func (w *world) checkSets() {
	for _, c := range w.clients {
		for _, t := range c.several {
			w.check(t.over || c.dead || !w.plan.Steady, "a set gets on", "client %d still waits for %v", c.number, t.keys)
		}
	}
}

// checkSlowed checks for how long sets have kept one back that waits for a lock, and how often.
func (w *waiter) checkSlowed() {
	c, n := w.queue.client, w.queue
	if !c.plan.Steady || c.plan.Sets == 0 || w.set != nil {
		return
	}
	others := c.wins[n.key] - w.wins
	c.check(others <= maxPassed, "one that waits gets on beside sets", "client %d: waiter %d has waited for %d locks of %s",
		c.number, w.number, others, n.key)
	longest := time.Duration(0)
	for _, s := range c.plan.Steps {
		longest = max(longest, s.For)
	}
	most := time.Duration(others+1) * (2*longest + time.Duration(c.plan.Sets)*w.mostPatience()*3/2 + slack)
	c.check(c.now-w.at <= most, "a set slows others by its patience only", "client %d: waiter %d has waited %v for %s, which others have got %d times",
		c.number, w.number, c.now-w.at, n.key, others)
}

// nested has a goroutine take two locks one after the other, the later by name first, again and again.
func (c *client) nested(s Step) {
	if c.now > warmUp+s.Until {
		return
	}
	first, second := s, s
	first.Name, first.Auto, second.Auto = (s.Name+1)%c.plan.Names, true, true
	if key(first.Name) < key(second.Name) {
		first.Name, second.Name = second.Name, first.Name
	}
	first.Kind, second.Kind = Nested, Nested
	w := c.wait(first)
	w.onWon = func(k *held) {
		o := c.wait(second)
		o.onWon = func(l *held) {
			c.after(s.For, func() {
				l.giveUp()
				k.giveUp()
				c.after(c.atRandom(s.Pause), func() { c.nested(s) })
			})
		}
	}
}
