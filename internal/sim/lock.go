package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// lock is a lock in the hands of a holder, as package redlock holds it.
type lock struct {
	*term
	holds  []quorum.Hold // of the handles that have not been unlocked
	number uint64        // the holder's fencing token; 0: without fencing

	given    bool          // the holder before has passed it on
	passed   bool          // it was passed on
	detached bool          // its holder has left it on the nodes
	unlocked bool          // its release has begun
	ended    bool          // by itself
	checked  bool          // what it has left is checked, or need not be
	at       time.Duration // true time of these
}

// term is what the nodes have granted to a client: to one holder after the other, if it is passed on.
type term struct {
	client  *client
	of      *round // the acquire that won it, maybe that of another client
	fence   uint64 // that the nodes hold with the token; 0: without fencing
	lease   *quorum.Lease
	handoff quorum.Handoff
	current *lock // that of the present holder

	extending bool // an extension is under way
	sending   bool // a round of it asks the nodes
	pending   bool // an Unlock waits for that

	renewal *quorum.Renewal // nil means that nobody renews it
	due     timer           // of the next renewal
	dropped bool            // it is not renewed any more
}

func (k *lock) String() string { return k.of.token }

// newLock makes a lock for its first holder.
func (c *client) newLock(of *round, fence uint64, lease *quorum.Lease) *lock {
	t := &term{client: c, of: of, fence: fence, lease: lease}
	t.handoff = quorum.NewHandoff(lease, c.plan.Handoff, fence, of.fence.block)
	t.current = &lock{term: t, holds: []quorum.Hold{lease.Hold()}, number: t.handoff.Fence()}
	return t.current
}

// won takes up what a won round leaves.
func (c *client) won(r *round, auto bool) *lock {
	k := c.newLock(r, r.acquire.Fence(), r.acquire.Lease(r.acquire))
	if r.known {
		k.know()
	}
	c.checkWon(k)
	if k.fence > 0 {
		c.checkHolder(k)
		c.counts.Learn(c.clock.Now(), r.fence.estimate, k.fence)
	}
	k.take(auto)
	return k
}

// take begins a hold.
func (k *lock) take(auto bool) {
	k.client.locks = append(k.client.locks, k)
	k.await()
	if auto {
		k.renewal = quorum.NewRenewal(k.lease, k.lease.Start(), k.of.ttl, 0)
		k.renew()
	}
}

// command is one about the lock.
func (k *lock) command(v verb, ttl time.Duration) command {
	with := fencing{number: k.fence, keep: cmp.Or(k.client.plan.Keep, keepFence)}
	return command{verb: v, key: k.of.key, token: k.of.token, ttl: ttl, fenced: k.fence > 0, fence: with}
}

// newExtend makes an extension; the caller has the turn.
func (k *lock) newExtend(grant quorum.Grant) *round {
	cmd := k.command(extend, grant.TTL)
	cmd.track = k.client.watched[k.of.key] == k
	r := k.client.newRound(cmd, quorum.NewExtend(k.lease, grant), grant)
	r.lock, r.before, r.onAsked = k, k.lease.Deadline(), k.asked
	k.extending, k.sending = true, true
	return r
}

// asked ends what a round sends, which begins with sending: no command that can create the key is sent
// after its release.
func (k *lock) asked() {
	k.sending = false
	if k.pending {
		k.pending = false
		k.current.release()
	}
}

// unlock gives up a handle.
func (k *lock) unlock() {
	c := k.client
	hold := &k.holds[len(k.holds)-1]
	if len(k.holds) == 1 && c.pass(k, hold) {
		return
	}
	last := hold.Leave(c.clock.Now())
	k.holds = k.holds[:len(k.holds)-1]
	c.check(last || len(k.holds) > 0, "the last unlock releases the lock", "client %d: %v is not released", c.number, k)
	c.check(!last || len(k.holds) == 0, "only the last unlock releases the lock",
		"client %d: %v is released with %d handles left", c.number, k, len(k.holds))
	if last && c.holds == k {
		c.holds = nil
	}
	switch {
	case !last:
		c.log("client %d leaves %v", c.number, k)
	case k.sending:
		k.pending = true
	default:
		k.release()
	}
}

func (k *lock) release() {
	c := k.client
	c.checkHeld(k, "until it is unlocked")
	k.of.given = append(k.of.given, c)
	k.unlocked, k.at = true, c.now
	now := c.clock.Now()
	exclusive := k.lease.Exclusive(now)
	k.lease.End(now, quorum.Released)
	r := c.newRound(k.command(release, k.lease.Longest()), quorum.NewRelease(k.lease, now), c.grant(0))
	r.lock = k
	k.sending = true
	r.onAsked = func() {
		k.asked()
		k.dropped = true
		c.released(k, exclusive)
	}
	if o := c.call; o != nil && o.lock == k {
		o.stop()
	}
	c.begin(r)
}

// await checks the lock at its deadline and just before its grace is over.
func (k *lock) await() {
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
		case k.lease.At(c.clock.Now()) == quorum.Held: // too early
			k.await()
		default:
			k.current.over()
		}
	})
}

// held reports whether the holder may rely on it that nobody else has the lock. Of a lock that several have taken up each
// may release it, and the others do not notice.
func (k *lock) held() bool {
	c := k.client
	another := func(by *client) bool { return by != c }
	return !c.dead && !k.unlocked && !k.passed && !k.detached && k.lease.Exclusive(c.clock.Now()) &&
		!slices.ContainsFunc(k.of.given, another)
}

// over gives up a lock that has ended by itself, and what it may have left.
func (k *lock) over() {
	c := k.client
	if k.unlocked || k.detached {
		return
	}
	now := c.clock.Now()
	if c.holds == k {
		c.holds, c.ended = nil, k
	}
	if !k.ended {
		k.ended, k.at = true, c.now
		c.log("client %d: the lease of %v is over", c.number, k)
		c.check(!c.plan.Watched || k.lease.At(now) != quorum.Lost || c.counting(k) < quorum.Majority(len(c.servers)), "a lock that a majority holds is not lost",
			"client %d has lost %v", c.number, k)
		c.check(!c.plan.Kept || k.renewal == nil || k.of.attached != nil, "a renewed lock is not lost to one node",
			"client %d has lost %v", c.number, k)
		k.checked = !c.resting
	}
	if k.lease.InGrace(now) {
		c.afterClock(&c.clock, k.lease.ExclusiveUntil(), k.over)
	} else if !k.checked {
		k.checked = true
		c.world.after(restTime, func() { c.checkOver(k) })
	}
	if !k.lease.Leftovers(now) {
		return
	}
	k.of.given = append(k.of.given, c)
	for i, l := range c.lines {
		if k.lease.Reached(i) {
			l.send(k.command(release, k.lease.Longest()), ignored)
		}
	}
	c.released(k, false)
}

// renew has the lock renewed when it is due next. If another extension is under way then, it is tried again
// soon; package redlock waits for the end of that extension.
func (k *lock) renew() {
	c := k.client
	if k.dropped || k.renewal == nil {
		return
	}
	now := c.clock.Now()
	due, ok := k.renewal.Next(now)
	switch {
	case !ok:
	case due.After(now):
		k.due.set(c, &c.clock, due, k.renew)
	case k.extending:
		k.due.set(c, &c.clock, now.Add(time.Millisecond), k.renew)
	default:
		if grant, ok := k.renewal.Grant(now); ok {
			k.beginRenewal(grant)
		} else {
			k.due.set(c, &c.clock, now.Add(time.Millisecond), k.renew)
		}
	}
}

// answered records that a node has answered an extension or observation.
func (k *lock) answered() {
	now := k.client.clock.Now()
	if k.renewal != nil && k.renewal.Sooner(now) {
		k.renew()
	}
	if k.lease.At(now) != quorum.Held {
		k.current.over()
	}
}

func (k *lock) beginRenewal(grant quorum.Grant) {
	c := k.client
	// While the release asks the nodes the lease is over.
	c.check(!k.sending, "a lease ends with its unlock", "client %d: %v is renewed while it is released", c.number, k)
	k.watch()
	r, renewal := k.newExtend(grant), k.renewal
	r.onEnded = func() {
		c.soon(func() {
			k.extending = false
			renewal.Ended(c.clock.Now(), r.outcome)
			if k.lease.At(c.clock.Now()) != quorum.Held {
				k.current.over()
			}
			if k.renewal == renewal {
				k.renew()
			}
		})
	}
	c.begin(r)
}
