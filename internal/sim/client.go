package sim

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/pipeline"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// client is a process that takes locks: it carries out what the machines of
// internal/quorum decide, as package redlock does.
type client struct {
	world  *world
	number int
	clock  clock // for leases; counts suspend
	mono   clock // for timeouts; does not
	lines  []*line
	dead   bool
	paused time.Duration // until when it stands still
	pauses int           // how often it did
	rounds int
	timers int

	call  *round // the call under way; nil: none
	holds *lock  // nil: nothing
	locks []*lock
}

// lock is what a won round leaves in the client's hands.
type lock struct {
	client   *client
	round    *round // the acquire
	lease    *quorum.Lease
	unlocked bool
	ended    bool // by itself
}

func (k *lock) String() string { return k.round.token }

func newClient(w *world, number int, rate float64, servers []*server) *client {
	c := &client{world: w, number: number, clock: clock{world: w, rate: rate}, mono: clock{world: w, rate: rate}}
	for i, s := range servers {
		l := &line{
			world: w, client: c, server: s, number: i, pause: minPause,
			commands: pipeline.New[order](nodeTimeout, maxOverdue),
		}
		c.lines = append(c.lines, l)
		w.at(0, l.connect)
	}
	return c
}

// do lets the client do something, as soon as it runs.
func (c *client) do(what func()) {
	switch {
	case c.dead:
	case c.paused > c.world.now:
		c.world.at(c.paused, func() { c.do(what) })
	default:
		what()
	}
}

func (c *client) after(d time.Duration, what func()) { c.world.after(d, func() { c.do(what) }) }

// afterClock lets the client do something when a clock of its shows a time. Timers fire
// late.
func (c *client) afterClock(of *clock, at time.Time, what func()) {
	c.timers++
	late := time.Duration(c.world.chance(c.number, c.timers, 3)%1000) * time.Microsecond
	c.after(of.until(at)+late+1, what)
}

func (c *client) pause(d time.Duration) {
	c.paused = max(c.paused, c.world.now+d)
	c.pauses++
}

// die ends the process. What it has sent is on its way.
func (c *client) die() {
	c.dead = true
	for _, l := range c.lines {
		if l.conn != nil {
			l.conn.cut = true
		}
	}
}

// acquire begins a TryLock.
func (c *client) acquire(name int, ttl time.Duration) {
	if c.call != nil || c.holds != nil {
		return
	}
	grant := quorum.Grant{Start: c.clock.Now(), TTL: ttl, Drift: drift}
	machine := quorum.NewAcquire(len(c.lines), grant)
	r := c.newRound(acquire, machine, key(name), c.token(), ttl)
	r.acquire = machine
	c.begin(r)
}

func key(name int) string { return fmt.Sprintf("lock-%d", name) }

// token is fresh for every round.
func (c *client) token() string { return fmt.Sprintf("c%d-%d", c.number, c.rounds+1) }

// extend begins an Extend of the lock that is held.
func (c *client) extend(ttl time.Duration) {
	k := c.holds
	if c.call != nil || k == nil || k.lease.At(c.clock.Now()) != quorum.Held {
		return
	}
	grant := quorum.Grant{Start: c.clock.Now(), TTL: ttl, Drift: drift}
	machine := quorum.NewExtend(k.lease, grant, k.reached)
	r := c.newRound(extend, machine, k.round.key, k.round.token, ttl)
	r.extend, r.lock, r.before = machine, k, k.lease.Deadline()
	c.begin(r)
}

// unlock begins an Unlock of the lock that is held.
func (c *client) unlock() {
	k := c.holds
	if c.call != nil || k == nil {
		return
	}
	c.world.checkHeld(k, "until it is unlocked")
	c.holds, k.unlocked = nil, true
	k.lease.End(c.clock.Now(), quorum.Released)
	r := c.newRound(release, quorum.NewRelease(len(c.lines), k.reached), k.round.key, k.round.token, k.lease.Longest())
	c.begin(r)
}

// reached says whether node i may hold the lock.
func (k *lock) reached(i int) bool { return k.round.acquire.Reached(i) }

// won takes up what a won round leaves.
func (c *client) won(r *round) {
	k := &lock{client: c, round: r, lease: r.acquire.Lease()}
	c.holds = k
	c.locks = append(c.locks, k)
	c.world.checkWon(k)
	k.watch()
}

// watch looks at the lock just before its deadline and at it.
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

// held says whether the holder may rely on the lock.
func (k *lock) held() bool {
	return !k.client.dead && !k.unlocked && k.lease.At(k.client.clock.Now()) == quorum.Held
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
	if c.holds == k {
		c.holds = nil
		c.world.tell("client %d: the lease of %v is over", c.number, k)
	}
	if k.ended {
		return
	}
	k.ended = true
	if c.world.resting {
		c.world.after(settleTime, func() { c.world.checkOver(k) })
	}
	if !k.lease.Leftovers() {
		return
	}
	for i, l := range c.lines {
		if k.reached(i) {
			l.send(order{cmd: command{verb: release, key: k.round.key, token: k.round.token, ttl: k.lease.Longest().Milliseconds()}, node: i})
		}
	}
}
