package sim

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// held is a lock in the hands of a holder, as package redlock holds it.
type held struct {
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
	mutex
	client  *client
	of      *round // the acquire that won it, maybe that of another client
	fence   uint64 // that the nodes hold with the token; 0: without fencing
	lease   lock.Term
	current *held // that of the present holder

	extending bool // an extension is under way

	due     timer // of the next renewal
	dropped bool  // it is not renewed any more
}

func (k *held) String() string { return k.of.token }

// newLock makes a lock for its first holder.
func (c *client) newLock(of *round, w *lock.Want, fence, block uint64, lease quorum.Lease) *held {
	t := &term{client: c, of: of, fence: fence}
	t.lease.Begin(&c.fenced, c.form, form.Mark{Key: of.key, Token: of.token, Number: fence}, w, lease, c.plan.Handoff, block)
	t.current = &held{term: t, holds: []quorum.Hold{t.lease.Hold()}, number: t.lease.Fence()}
	return t.current
}

// won takes up what a won round leaves.
func (c *client) won(r *round, w *lock.Want) *held {
	votes := r.acquire.Votes()
	k := c.newLock(r, w, votes.Fence(), r.acquire.Ask.Block, votes.Lease(votes))
	if r.known {
		k.know()
	}
	c.checkWon(k)
	if k.fence > 0 {
		c.checkHolder(k)
		c.fenced.Won(c.clock.Now(), r.acquire.Ask, k.fence)
	}
	k.take()
	return k
}

// take begins a hold.
func (k *held) take() {
	k.client.locks = append(k.client.locks, k)
	k.await()
	k.renew()
}

// newExtend makes an extension; the caller has the turn.
func (k *held) newExtend(grant quorum.Grant) *round {
	e, c := new(lock.Extend), k.client
	r := c.newRound(extend, k.of.key, k.of.token, &e.Round, &k.mutex)
	r.lock, r.before = k, k.lease.Deadline()
	k.extending = true
	r.asks = k.lease.Extend(nil, e, grant)
	return r
}

// unlock gives up a handle.
func (k *held) unlock() { k.do(k.leaveHold) }

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
	if last && c.holds == k {
		c.holds = nil
	}
	if !last {
		c.log("client %d leaves %v", c.number, k)
		return
	}
	k.release(now, exclusive)
}

func (k *held) release(now time.Time, exclusive bool) {
	c := k.client
	k.of.given = append(k.of.given, c)
	k.unlocked, k.at = true, c.now
	l := new(lock.Release)
	r := c.newRound(release, k.of.key, k.of.token, &l.Round, &k.mutex)
	r.lock = k
	r.asks = k.lease.Release(nil, l, now)
	r.onAsked = func() {
		k.dropped = true
		c.released(k, exclusive)
	}
	if o := c.call; o != nil && o.lock == k {
		o.stop()
	}
	c.begin(r)
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
		case k.lease.At(c.clock.Now()) == quorum.Held: // too early
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
	if c.holds == k {
		c.holds, c.ended = nil, k
	}
	if !k.ended {
		k.ended, k.at = true, c.now
		c.log("client %d: the lease of %v is over", c.number, k)
		c.check(!c.plan.Watched || k.lease.At(now) != quorum.Lost || c.counting(k) < quorum.Majority(len(c.servers)), "a lock that a majority holds is not lost",
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
	acts := k.lease.CleanUp(nil, now)
	if len(acts) == 0 {
		return
	}
	k.of.given = append(k.of.given, c)
	for _, a := range acts {
		_ = c.lines[a.Tag.Node].send(order{cmd: a.Command})
	}
	c.released(k, false)
}

// renew has the lock renewed when it is due next. If another extension is under way then, it is tried again
// soon; package redlock waits for the end of that extension.
func (k *held) renew() {
	c := k.client
	if k.dropped || k.lease.Renewal == nil || k.lease.Renewing {
		return
	}
	now := c.clock.Now()
	due, ok := k.lease.Renewal.Next(now)
	switch {
	case !ok:
	case due.After(now):
		k.due.set(c, &c.clock, due, func() { k.do(k.renew) })
	case k.extending:
		k.due.set(c, &c.clock, now.Add(time.Millisecond), func() { k.do(k.renew) })
	default:
		if grant, ok := k.lease.Renewal.Grant(now); ok {
			k.beginRenewal(grant)
		} else {
			k.due.set(c, &c.clock, now.Add(time.Millisecond), func() { k.do(k.renew) })
		}
	}
}

// answered records that a node has answered an extension or observation.
func (k *held) answered() {
	now := k.client.clock.Now()
	if k.lease.Sooner(now) {
		k.renew()
	}
	if k.lease.At(now) != quorum.Held {
		k.current.over()
	}
}

func (k *held) beginRenewal(grant quorum.Grant) {
	c := k.client
	c.check(!k.current.unlocked, "a lease ends with its unlock", "client %d: %v is renewed when it has been released", c.number, k)
	k.watch()
	k.lease.Renewing = true
	r := k.newExtend(grant)
	r.onEnded = func() {
		c.soon(func() {
			k.do(func() {
				k.extending = false
				k.lease.EndRenewal(c.clock.Now(), r.outcome)
				if k.lease.At(c.clock.Now()) != quorum.Held {
					k.current.over()
				}
				k.renew()
			})
		})
	}
	c.begin(r)
}
