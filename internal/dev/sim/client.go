package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// client is a process that takes locks: it carries out what the machines of
// internal/quorum decide, as package redlock does.
type client struct {
	*world
	number int
	self   string        // the owner part of its tokens
	clock  clock         // for leases; counts suspend
	mono   clock         // for timeouts; does not
	wall   time.Duration // the time of day when the run begins
	form   form.Form     // of the locks that it takes
	fenced form.Fenced   // which is the form, or that of locks that are attached
	lines  []*line
	dead   bool
	paused time.Duration // until when it stands still
	upsets int           // how often it did, or its clock leapt
	missed []func()      // what it would have done meanwhile
	timers int
	random int

	calls []*round // that were begun
	call  *round   // that of the goroutine that tries, extends and unlocks; nil means none
	holds []*held  // what it holds: one lock, or several that it has taken together
	ended []*held  // what it held last, and has not unlocked since that ended by itself
	last  *round   // the acquire that was begun last

	attaching *lock.Attach // under way; nil means none
	several   []*several   // that were begun

	rules lock.Rules
	names []*name
}

func newClient(w *world, number int) *client {
	c := &client{world: w, number: number, self: fmt.Sprintf("C%cAAAAAA", 'A'+number)}
	c.clock = clock{world: w, rate: w.plan.Rates[w.plan.Nodes+number]}
	c.mono = c.clock
	c.fenced.Keep, c.form = cmp.Or(w.plan.Keep, form.DefaultKeep), form.Exclusive{}
	if w.plan.Fenced && number >= w.plan.Plain {
		c.form = &c.fenced
	}
	if w.plan.Fenced {
		c.wall = noon + w.plan.Walls[w.plan.Nodes+number]
	}
	pace := lock.Pace{First: 2 * time.Millisecond, Most: 200 * time.Millisecond, Heal: healAfter, Handoff: c.plan.Handoff, Random: c.atRandom}
	c.rules = lock.Rules{
		Clock: &c.clock, Wall: c.timeOfDay, Nodes: len(w.servers), Timeout: nodeTimeout, Self: c.self, Form: c.form, Fenced: &c.fenced, Drift: drift, Pace: pace,
		Broken: func(err error) {
			c.check(false, "a queue changes its state as its table says", "client %d: %v", c.number, err)
		},
		Closed: func() bool { return false },
	}
	for _, s := range w.servers {
		l := &line{world: w, client: c, server: s, guard: wire.Guard{MaxTTL: w.plan.Guard}, stood: map[string]stood{}}
		l.commands = &wire.Pipeline[order]{
			Life:    wire.Life{Least: minPause, Most: maxPause, MostCostly: maxCostly, LookEvery: w.plan.LookEvery, Random: c.atRandom},
			Timeout: nodeTimeout, First: dialTimeout, MaxOverdue: maxOverdue,
		}
		c.lines = append(c.lines, l)
		w.at(0, l.dial)
	}
	return c
}

// do lets the client do something, as soon as it runs, in order.
func (c *client) do(what func()) {
	switch {
	case c.dead:
	case c.paused > c.now || len(c.missed) > 0:
		c.missed = append(c.missed, what)
		if len(c.missed) == 1 {
			c.at(c.paused, c.goOn)
		}
	default:
		what()
	}
}

// goOn is when a pause is over, unless another has begun.
func (c *client) goOn() {
	if c.paused > c.now {
		c.at(c.paused, c.goOn)
		return
	}
	missed := c.missed
	c.missed = nil
	for _, what := range missed {
		c.do(what)
	}
}

func (c *client) after(d time.Duration, what func()) { c.world.after(d, func() { c.do(what) }) }

// soon lets another goroutine do something.
func (c *client) soon(what func()) {
	c.timers++
	late := time.Duration(c.chance(c.number, c.timers, 10)%40) * time.Microsecond
	c.after(late, what)
}

// afterClock lets the client do something when a clock of its shows a time. Timers fire
// late.
func (c *client) afterClock(of *clock, at time.Time, what func()) {
	c.timers++
	late := time.Duration(c.chance(c.number, c.timers, 3)%1000) * time.Microsecond
	c.after(of.until(at)+late+1, what)
}

// timer does something at the earliest of the times that it is set to.
type timer struct{ at time.Time }

// set has what done when a clock shows at. Zero means never.
func (t *timer) set(c *client, of *clock, at time.Time, what func()) {
	if at.IsZero() || !t.at.IsZero() && !at.Before(t.at) {
		return
	}
	t.at = at
	c.afterClock(of, at, func() {
		if t.at.Equal(at) {
			t.at = time.Time{}
			what()
		}
	})
}

func (c *client) timeOfDay() time.Time {
	return epoch.Add(time.Duration(float64(c.now)*c.clock.rate) + c.wall)
}

func key(name int) string { return fmt.Sprintf("lock-%d", name) }

func (c *client) grant(ttl time.Duration) quorum.Grant {
	return quorum.Grant{Start: c.clock.Now(), TTL: ttl, Drift: drift}
}

// main makes r, which begins with acts, the call of the goroutine that tries, extends and unlocks.
func (c *client) main(r *round, acts []lock.Act, then func()) {
	c.call = r
	r.onEnded = func() {
		if c.call == r {
			c.call = nil
		}
		then()
	}
	r.act(acts)
}

// step does what a step of the plan says, if that is possible.
func (c *client) step(s Step) {
	k, idle := c.oneOf(s), c.call == nil
	switch {
	case s.Kind == Acquire && idle && k == nil:
		c.name(key(s.Name)).try(s)
	case s.Kind == Try:
		for range 1 + s.Crowd {
			c.name(key(s.Name)).tryBeside(s)
		}
	case s.Kind == AcquireAll && idle && k == nil:
		c.tryAll(s)
	case s.Kind == Extend && k != nil:
		c.extend(k, s.TTL)
	case s.Kind == Unlock && k != nil && (idle || slices.Contains(c.holds, c.call.lock)): // beside an Extend maybe
		if len(c.holds) > 1 && c.chance(c.number, int(s.At), 21)&1 == 0 { // one by itself
			k.giveUp()
			return
		}
		giveUp(c.holds)
	case s.Kind == Unlock && k == nil && idle && c.ended != nil:
		giveUp(c.ended)
		c.ended = nil
	case s.Kind == Cancel && !idle: // an Unlock ignores it
		c.log("client %d: the context ends", c.number)
		c.call.stop()
	case s.Kind == Wait:
		for range 1 + s.Crowd {
			c.wait(s)
		}
	case s.Kind == Again:
		c.again(s)
	case s.Kind == WaitAll:
		c.againAll(s)
	case s.Kind == Nested:
		c.nested(s)
	case s.Kind == CancelWait:
		if n := c.name(key(s.Name)); len(n.waiters) > 0 {
			n.waiters[(s.Node+1)%len(n.waiters)].cancel()
		}
	case s.Kind == Enter && k != nil && idle:
		if hold, ok := k.lease.Enter(c.clock.Now()); ok {
			k.holds = append(k.holds, hold)
			c.log("client %d takes %v again", c.number, k)
			c.extend(k, k.of.Grant().TTL)
		}
	case s.Kind == Attach && idle && k == nil && c.attaching == nil:
		c.attach(s)
	case s.Kind == Force:
		c.forced = true
		c.log("client %d: force of %s", c.number, key(s.Name))
		for _, l := range c.lines {
			l.force(key(s.Name))
		}
	case s.Kind == Anew:
		c.anew()
	}
}

// oneOf returns the lock that a step is about, of those that the client holds; nil if it holds none.
func (c *client) oneOf(s Step) *held {
	if len(c.holds) == 0 {
		return nil
	}
	return c.holds[(s.Node+1)%len(c.holds)]
}

// giveUp gives up a handle of each.
func giveUp(locks []*held) {
	for _, k := range slices.Clone(locks) {
		k.giveUp()
	}
}

// drop takes a lock off what the client holds.
func (c *client) drop(k *held) {
	c.holds = slices.DeleteFunc(c.holds, func(o *held) bool { return o == k })
}

// extend begins an Extend of a lock that is held.
func (c *client) extend(k *held, ttl time.Duration) {
	k.do(func() {
		if c.call != nil || !slices.Contains(c.holds, k) || k.lease.At(c.clock.Now()) != quorum.NotEnded || k.of.Grant().Grace > ttl/2 {
			return
		}
		hold := k.holds[0]
		r, e := k.newExtend(false)
		c.main(r, k.lease.Extend(nil, e, ttl, &hold, r), func() {})
	})
}

// want is what a lock has to be like for who takes it.
func (s Step) want() *lock.Want {
	w := &lock.Want{TTL: s.TTL, Grace: s.Grace, Renewed: s.Auto, MaxHold: lock.NoLimit}
	w.Kind, w.Slots = s.kind(), s.Slots
	return w
}

// kind is that of what is taken.
func (s Step) kind() form.Kind {
	switch {
	case s.Slots > 0:
		return form.KindSlot
	case s.Read:
		return form.KindShared
	}
	return form.KindExclusive
}

// anew has a new process go on for a client that is doing nothing. It has met no server.
func (c *client) anew() {
	busy := func(r *round) bool { return r.over == 0 }
	if slices.ContainsFunc(c.calls, busy) || c.call != nil || len(c.holds) > 0 || slices.ContainsFunc(c.names, func(n *name) bool { return n.waited }) {
		return
	}
	c.log("client %d begins anew", c.number)
	c.fenced = form.Fenced{Keep: c.fenced.Keep}
	for _, l := range c.lines {
		l.guard = wire.Guard{MaxTTL: c.plan.Guard}
		if l.conn != nil {
			l.conn.breakOff(0)
		}
	}
}
