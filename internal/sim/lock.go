package sim

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// lock is a lock in a client's hands, as package redlock holds it.
type lock struct {
	client  *client
	acquire *quorum.Acquire // that won it; nil means that it was attached to
	key     string
	token   string
	fence   uint64 // 0: without fencing
	ttl     time.Duration
	lease   *quorum.Lease
	handles int // that have not been unlocked

	turn    bool   // an extension is under way
	sending bool   // a round of it asks the nodes
	pending func() // an Unlock that waits for that

	renewal  *quorum.Renewal // nil means that nobody renews it
	dropped  bool            // it is not renewed any more
	unlocked bool            // its release has begun
	ended    bool            // by itself
	at       time.Duration   // true time of either
}

func (k *lock) String() string { return k.token }

// won takes up what a won round leaves.
func (c *client) won(r *round, auto bool) *lock {
	k := &lock{client: c, acquire: r.acquire, key: r.key, token: r.token, fence: r.acquire.Fence(), ttl: r.ttl, lease: r.acquire.Lease(), handles: 1}
	c.world.checkWon(k)
	c.learn(r)
	k.take(auto)
	return k
}

// take begins a hold.
func (k *lock) take(auto bool) {
	c := k.client
	c.live = append(c.live, k)
	c.world.locks = append(c.world.locks, k)
	k.watch()
	if auto {
		k.renewal = quorum.NewRenewal(k.lease, k.ttl, 0)
		k.renew()
	}
}

// reached reports whether node i may hold the lock.
func (k *lock) reached(i int) bool { return k.lease.Everywhere() || k.acquire.Reached(i) }

// newExtend makes an extension; the caller has the turn.
func (k *lock) newExtend(grant quorum.Grant) *round {
	machine := quorum.NewExtend(k.lease, grant)
	r := k.client.newRound(extend, machine, k.key, k.token, grant)
	r.extend, r.lock, r.before = machine, k, k.lease.Deadline()
	r.fenced, r.fence = k.fencing()
	r.sent = k.asked
	return r
}

// asked ends what a round sends, which begins with sending: no command that can create the key is sent after its release.
func (k *lock) asked() {
	k.sending = false
	if f := k.pending; f != nil {
		k.pending = nil
		f()
	}
}

// unlock gives up a handle. It returns true for the last.
func (k *lock) unlock() bool {
	c := k.client
	k.handles--
	if !k.lease.Leave() {
		c.world.log("client %d leaves %v", c.number, k)
		if k.handles == 0 {
			c.world.violate("the last unlock releases the lock", "client %d: %v is not released", c.number, k)
		}
		return k.handles == 0
	}
	if k.handles > 0 {
		c.world.violate("only the last unlock releases the lock", "client %d: %v is released with %d handles left", c.number, k, k.handles)
	}
	if k.sending {
		k.pending = k.release
	} else {
		k.release()
	}
	return true
}

// unlockAll gives up what the client holds with all handles.
func (k *lock) unlockAll() {
	for k.handles > 0 && k.client.holds == k {
		if k.unlock() {
			k.client.holds = nil
		}
	}
}

func (k *lock) release() {
	c := k.client
	c.world.checkHeld(k, "until it is unlocked")
	c.world.give(k.token, c)
	k.unlocked, k.at = true, c.world.now
	held := k.lease.End(c.clock.Now(), quorum.Released) == quorum.Released
	k.gone()
	r := c.newRound(release, quorum.NewRelease(len(c.lines), k.reached), k.key, k.token, quorum.Grant{Start: c.clock.Now()})
	r.lock, r.redeliver = k, k.lease.Longest()
	r.fenced, r.fence = k.fencing()
	k.sending = true
	r.sent = func() {
		k.asked()
		k.dropped = true
		if q := c.queue(k.key); q != nil && held {
			q.do(q.machine.Unlocked)
		}
	}
	if o := c.call; o != nil && o.lock == k {
		o.stop()
	}
	c.begin(r)
}

// watch checks the lock just before its deadline and at it.
func (k *lock) watch() {
	c, deadline := k.client, k.lease.Deadline()
	eve := deadline.Add(-time.Microsecond)
	c.world.after(c.clock.until(eve), func() { // true whatever the client does
		if k.held() && k.lease.Deadline().Equal(deadline) {
			c.world.checkHeld(k, "until its deadline")
		}
	})
	c.afterClock(&c.clock, deadline, func() { k.tick(deadline) })
}

// held reports whether the holder may rely on the lock. Of a lock that several have taken up each
// may release it, and the others do not notice.
func (k *lock) held() bool {
	by, given := k.client.world.given[k.token]
	return !k.client.dead && !k.unlocked && k.lease.At(k.client.clock.Now()) == quorum.Held && (!given || by == k.client.number)
}

// tick is the timer at what was the deadline.
func (k *lock) tick(deadline time.Time) {
	if !k.lease.Deadline().Equal(deadline) {
		return // extended, and watched anew
	}
	if k.lease.At(k.client.clock.Now()) == quorum.Held {
		k.watch() // too early
		return
	}
	k.over()
}

// over gives up a lock that has ended by itself, and what it may have left.
func (k *lock) over() {
	c := k.client
	if k.unlocked {
		return
	}
	if c.holds == k {
		c.holds = nil
	}
	if !k.ended {
		k.ended, k.at = true, c.world.now
		c.world.log("client %d: the lease of %v is over", c.number, k)
		c.world.checkKept(k)
		k.gone()
		if c.world.resting {
			c.world.after(restTime, func() { c.world.checkOver(k) })
		}
	}
	if !k.lease.Leftovers() {
		return
	}
	c.world.give(k.token, c)
	fenced, fence := k.fencing()
	for i, l := range c.lines {
		if k.reached(i) {
			l.send(order{cmd: command{verb: release, key: k.key, token: k.token, ttl: k.lease.Longest().Milliseconds(), fenced: fenced, fence: fence}, node: i})
		}
	}
}

// fencing is what goes with its commands.
func (k *lock) fencing() (fenced bool, with fencing) {
	return k.fence > 0, fencing{number: k.fence, keep: k.client.world.plan.counterLife()}
}

// gone takes the lock off those that are held.
func (k *lock) gone() {
	k.client.live = slices.DeleteFunc(k.client.live, func(o *lock) bool { return o == k })
}
