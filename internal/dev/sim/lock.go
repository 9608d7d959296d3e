package sim

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// held is a lock in the hands of a holder, as package redlock holds it.
type held struct {
	*granted
	holds  []quorum.Hold // of the handles that have not been unlocked
	number uint64        // the holder's fencing token; 0: without fencing

	given    bool          // the holder before has handed it off
	passed   bool          // it was handed off
	detached bool          // its holder has left it on the nodes
	unlocked bool          // its release has begun
	released *round        // that release
	ended    bool          // by itself
	checked  bool          // what it has left is checked, or need not be
	at       time.Duration // true time of these
}

// granted is what the nodes have granted to a client: to one holder after the other, if it is handed off.
type granted struct {
	*name
	of      *round // the acquire that won it, maybe that of another client
	fence   uint64 // that the nodes hold with the token; 0: without fencing
	slot    uint64 // 1 + its slot; 0: it has none
	lease   lock.Lease
	current *held // that of the present holder

	due timer // of the next renewal
}

func (k *held) String() string { return k.of.token }

// begin makes the lock that of its first holder.
func (g *granted) begin() *held {
	g.current = &held{granted: g, holds: []quorum.Hold{g.lease.Hold()}, number: g.lease.Fence()}
	return g.current
}

// won takes up what a won round leaves.
func (n *name) won(r *round, call *lock.Call) (k *held, acts []lock.Act) {
	c, t := n.client, &granted{name: n, of: r}
	if r.kind.HasSlots() {
		t.slot = r.acquire.Votes().Fence()
	} else {
		t.fence = r.acquire.Votes().Fence()
	}
	acts = n.lock.Won(nil, call, call.Want, r.acquire, &t.lease, t)
	k = t.begin()
	c.checkWon(k)
	c.wins[n.key]++
	if k.fence > 0 {
		c.checkHolder(k)
	}
	k.take()
	return k, acts
}

// take begins a hold.
func (k *held) take() {
	k.client.locks = append(k.client.locks, k)
	k.await()
	k.renew()
}

// newExtend makes an extension.
func (k *held) newExtend(renews bool) (r *round, e *lock.Extend) {
	e = new(lock.Extend)
	r = k.newRound(extend, k.of.token, &e.Round)
	r.lock, r.renews = k, renews
	return r, e
}

// giveUp gives up a handle.
func (k *held) giveUp() { k.do(k.leaveHold) }

func (k *held) leaveHold() {
	c := k.client
	if len(k.holds) == 0 { // another was quicker
		return
	}
	hold := &k.holds[len(k.holds)-1]
	if len(k.holds) == 1 && c.pass(k, hold) {
		return
	}
	if len(k.holds) == 1 {
		c.checkHeld(k, "until it is unlocked")
	}
	now := c.clock.Now()
	exclusive := k.lease.Exclusive(now)
	last := k.lease.Leave(now, hold) == lock.None
	k.holds = k.holds[:len(k.holds)-1]
	c.check(last || len(k.holds) > 0, "the last unlock releases the lock", "client %d: %v is not released", c.number, k)
	c.check(!last || len(k.holds) == 0, "only the last unlock releases the lock",
		"client %d: %v is released with %d handles left", c.number, k, len(k.holds))
	if last {
		c.drop(k)
	} else {
		c.log("client %d leaves %v", c.number, k)
		return
	}
	k.release(now, exclusive)
}

func (k *held) release(now time.Time, exclusive bool) {
	c, l := k.client, new(lock.Release)
	k.of.given = append(k.of.given, c)
	k.unlocked, k.at = true, c.now
	r := k.newRound(release, k.of.token, &l.Round)
	r.lock, k.released = k, r
	if o := c.call; o != nil && o.lock == k {
		o.stop()
	}
	w, turn := k.turn()
	r.begin(k.lock.Release(nil, &k.lease, l, now, exclusive, r))
	if turn && exclusive && k.given && c.excludes() && !c.forced { // else it may not be the only lock of the name here
		k.checkTurn(w)
	}
}

// await checks the lock at its deadline and just before its grace is over.
func (k *held) await() {
	c, deadline := k.client, k.lease.Deadline()
	eve := k.lease.ExclusiveUntil().Add(-time.Microsecond)
	c.world.after(c.clock.until(eve), func() { // true whatever the client does
		if k.current.held() && k.lease.Deadline().Equal(deadline) {
			c.checkHeld(k.current, "until its deadline")
		}
	})
	c.afterClock(&c.clock, deadline, func() {
		switch {
		case !k.lease.Deadline().Equal(deadline): // extended, and watched anew
		case k.lease.At(c.clock.Now()) == quorum.NotEnded: // too early
			k.await()
		default:
			k.do(func() { k.current.over() })
		}
	})
}

// held reports whether the holder may rely on it that nobody else has the lock. Of a lock that several have taken up each
// may release it, and the others do not notice.
func (k *held) held() bool {
	c := k.client
	another := func(by *client) bool { return by != c }
	return !c.dead && !k.unlocked && !k.passed && !k.detached && k.lease.Exclusive(c.clock.Now()) &&
		!slices.ContainsFunc(k.of.given, another)
}

// over gives up a lock that has ended by itself, and what it may have left.
func (k *held) over() {
	c := k.client
	if k.unlocked || k.detached {
		return
	}
	now := c.clock.Now()
	if slices.Contains(c.holds, k) {
		c.drop(k)
		c.ended = append(slices.DeleteFunc(c.ended, func(o *held) bool { return o.of.token != k.of.token }), k)
	}
	if !k.ended {
		k.ended, k.at = true, c.now
		c.log("client %d: the lease of %v is over", c.number, k)
		c.check(!c.plan.Watched || k.lease.At(now) != quorum.Gone || c.counting(k) < quorum.Majority(len(c.servers)), "a lock that a majority holds is not lost",
			"client %d has lost %v", c.number, k)
		c.check(!c.plan.Kept || k.lease.Renewal == nil || k.of.attached != nil, "a renewed lock is not lost to one node",
			"client %d has lost %v", c.number, k)
		k.checked = !c.resting
	}
	if k.lease.InGrace(now) {
		c.afterClock(&c.clock, k.lease.ExclusiveUntil(), func() { k.do(k.over) })
	} else if !k.checked {
		k.checked = true
		c.world.after(restTime, func() { c.checkOver(k) })
	}
	acts := k.lock.CleanUp(nil, &k.lease)
	if len(acts) > 0 {
		k.of.given = append(k.of.given, c)
	}
	k.act(acts)
}

// renew has the lock renewed when it is due next.
func (g *granted) renew() {
	if g.lease.Renewal == nil || g.lease.Renewing() {
		return
	}
	c := g.client
	due, ok := g.lease.Renewal.Next(&g.lease.Lease, c.clock.Now())
	if !ok {
		return
	}
	g.due.at = time.Time{} // in the place of what was scheduled before
	g.due.set(c, &c.clock, due, func() {
		g.do(func() {
			r, e := g.current.newExtend(true)
			g.act(g.lease.Due(nil, e, r))
		})
	})
}
