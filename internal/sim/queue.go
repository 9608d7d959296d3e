package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// queue applies what quorum.Queue decides for those who wait for one name, as package
// redlock does.
type queue struct {
	client   *client
	key      string
	machine  *quorum.Queue[*waiter]
	waiters  []*waiter // that have not ended, in the order in which they came
	holder   *held     // that a waiter of this queue got last
	busy     bool      // a round asks the nodes: that is under the mutex
	late     []func()  // what waits for the mutex
	floor    uint64    // the highest number that a lost round was granted, since the last that was won
	timer    timer
	second   time.Duration // in which spent is counted
	spent    int           // nodes asked
	ends     int           // waits that had ended before
	free     time.Duration // since when the lock has been free, with all faults gone
	served   int           // how many had been served by then
	occupied time.Duration // since when somebody's data has been in the way, with all faults gone
}

// healAfter is how long a key is seen without a TTL before it is deleted.
const healAfter = time.Second

// waiter is a call of Lock.
type waiter struct {
	Step
	queue     *queue
	number    int
	round     *round // its turn; nil means none
	lock      *held  // that was passed on to it; nil means none
	cancelled bool
	ended     bool
}

func (c *client) queue(key string) *queue {
	for _, q := range c.queues {
		if q.key == key {
			return q
		}
	}
	return nil
}

// findOrAdd returns the queue of a key.
func (c *client) findOrAdd(key string) *queue {
	q := c.queue(key)
	if q == nil {
		pace := quorum.Pace{First: 2 * time.Millisecond, Most: 200 * time.Millisecond, Heal: healAfter, Handoff: c.plan.Handoff}
		pace.Random = c.atRandom
		q = &queue{client: c, key: key, machine: quorum.NewQueue[*waiter](len(c.lines), c.self, pace)}
		c.queues = append(c.queues, q)
	}
	return q
}

// wait begins a Lock.
func (c *client) wait(s Step) {
	q := c.findOrAdd(key(s.Name))
	c.waits++
	w := &waiter{Step: s, queue: q, number: c.waits}
	c.log("client %d: waiter %d comes for %s", c.number, w.number, q.key)
	q.waiters = append(q.waiters, w)
	q.do(func(now time.Time) quorum.Actions { return q.machine.Join(now, w) })
}

func (c *client) atRandom(below time.Duration) time.Duration {
	if below <= 0 {
		return 0
	}
	c.random++
	return time.Duration(c.chance(c.number, c.random, 11) % uint64(below))
}

// do reports an event to the machine, and does what comes of it.
func (q *queue) do(event func(now time.Time) quorum.Actions) {
	if q.busy {
		q.late = append(q.late, func() { q.do(event) })
		return
	}
	now := q.client.clock.Now()
	m := event(now)
	if !m.WakeAt.IsZero() {
		q.timer.at = time.Time{} // in the place of what was asked for before
	}
	q.timer.set(q.client, &q.client.clock, m.WakeAt, func() { q.do(q.machine.Tick) })
	if m.Try {
		q.begin(m)
		return
	}
	if m.Hopeless {
		q.dismiss()
	}
	q.apply(m)
}

// begin begins a round for the waiter at the head.
func (q *queue) begin(m quorum.Actions) {
	c := q.client
	w, ok := q.machine.Head()
	if !ok || w.round != nil || w.ended {
		c.check(false, "a round is for somebody who waits for one", "client %d: a round for %s", c.number, q.key)
		return
	}
	r := c.newAcquire(q.key, w.Step, q.floor, q.machine.Block())
	c.log("client %d: the turn of waiter %d", c.number, w.number)
	w.round = r
	r.onEnded = func() { c.soon(func() { w.take(r) }) }
	r.onAsked = func() {
		q.busy = false
		q.apply(m)
		for len(q.late) > 0 && !q.busy {
			f := q.late[0]
			q.late = q.late[1:]
			f()
		}
	}
	q.busy = true
	q.spend(len(c.lines))
	c.begin(r)
}

// take goes on at the end of w's round.
func (w *waiter) take(r *round) {
	q := w.queue
	w.round = nil
	switch {
	case r.outcome == quorum.Done:
		k := q.client.won(r, w.want())
		w.got("has the lock")
		q.floor, q.holder = 0, k
		q.do(func(now time.Time) quorum.Actions { return q.machine.Won(now, r.Grant()) })
		q.client.after(w.For, func() { k.leave(w) })
	case w.cancelled:
		w.leave()
	default:
		q.floor = max(q.floor, r.acquire.Votes().Highest())
		q.do(q.machine.Lost)
	}
}

// got ends a wait with the lock.
func (w *waiter) got(how string) {
	w.end(how)
	for _, o := range w.queue.waiters {
		w.queue.client.check(o.number > w.number || o.cancelled,
			"waiters of one client get the lock in the order in which they came",
			"client %d: waiter %d before waiter %d", w.queue.client.number, w.number, o.number)
	}
}

// released gives the next waiter its turn behind a release that has just been sent, as redlock.queues does.
func (c *client) released(k *held, held bool) {
	q := c.queue(k.of.key)
	switch {
	case q == nil:
		return
	case q.holder != nil && q.holder.term == k.term:
		q.holder = nil
	case !held:
		return
	}
	w, ok := q.machine.Next(c.clock.Now())
	free := ok && w.round == nil && !q.busy
	q.do(q.machine.Unlocked)
	if free && held && k.given && c.excludes() && !c.forced { // else it may not be the only lock of the name here
		q.checkTurn(k)
	}
}

// cancel ends the context of w's call.
func (w *waiter) cancel() {
	if w.ended || w.cancelled {
		return
	}
	w.queue.client.log("client %d: the context of waiter %d ends", w.queue.client.number, w.number)
	w.cancelled = true
	w.leave()
}

// leave gives up, unless w turns out to have a round.
func (w *waiter) leave() {
	q := w.queue
	q.do(func(now time.Time) quorum.Actions {
		if w.ended || w.lock != nil { // dismissed meanwhile, or it has the lock
			return quorum.Actions{}
		}
		if w.round != nil {
			w.round.stop()
			return quorum.Actions{}
		}
		w.end("gives up")
		return q.machine.Leave(now, w)
	})
}

func (w *waiter) end(how string) {
	c := w.queue.client
	c.check(!w.ended, "a wait ends once", "client %d: waiter %d %s, and had ended", c.number, w.number, how)
	c.log("client %d: waiter %d %s", c.number, w.number, how)
	w.ended = true
	w.queue.waiters = slices.DeleteFunc(w.queue.waiters, func(o *waiter) bool { return o == w })
	c.served++
}

// apply does what the machine asks for, except rounds.
func (q *queue) apply(m quorum.Actions) {
	c := q.client
	q.spend(len(m.Observe))
	for _, i := range m.Observe {
		c.lines[i].ask(form.Observe(q.key), receiver(func(r wire.Reply) { q.observed(i, r) }), wire.Tag{})
	}
	for _, k := range m.Heal {
		c.check(k.Token != "", "only what can be a lock is healed", "client %d: %s on node %d", c.number, q.key, k.Node)
		c.lines[k.Node].ask(form.Heal(q.key, k.Token), receiver(func(r wire.Reply) {
			q.do(func(now time.Time) quorum.Actions { return q.machine.Healed(now, k.Node, r.Answer == quorum.Yes) })
		}), wire.Tag{})
	}
	if a := m.Announce; a != nil {
		c.lines[a.Node].publish(&note{a.To, waits, q.key, []string{c.self}})
	}
	if t := m.PassTurn; t != nil {
		c.log("client %d passes the turn for %s to %s", c.number, q.key, t.To)
		for _, l := range c.lines {
			l.publish(&note{t.To, yours, q.key, t.Peers})
		}
	}
}

// observed takes the answer to an observation.
func (q *queue) observed(node int, r wire.Reply) {
	s := lock.KeyState(q.client.form, r)
	if q.client.trace != nil {
		what := r.Answer.String()
		if s.Held && !s.Foreign {
			what = fmt.Sprintf("%s for %v", s.Token, s.TTL)
		}
		if s.Tracked {
			what += ", tracked"
		}
		q.client.log("client %d observes %s on node %d: %s", q.client.number, q.key, node, what)
	}
	q.do(func(now time.Time) quorum.Actions { return q.machine.Observed(now, node, s) })
}
