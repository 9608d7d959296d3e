package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// queue carries what quorum.Queue decides for those who wait for one name, as package
// redlock does.
type queue struct {
	client  *client
	key     string
	machine *quorum.Queue[*waiter]
	waiters []*waiter // that have not ended, in the order in which they came
	busy    bool      // a round asks the nodes: that is under the mutex
	late    []func()  // what waits for the mutex
	floor   uint64    // the highest number that a lost round was granted, since the last that was won
	alarm   time.Time
	second  time.Duration // in which spent is counted
	spent   int           // nodes asked
	ends    int           // waits that had ended before
	free    time.Duration // since when the lock has been free, with all faults gone
	served  int           // how many had been served by then
}

// healAfter is how long a key is seen without a TTL before it is deleted.
const healAfter = time.Second

// waiter is a call of Lock.
type waiter struct {
	queue     *queue
	number    int
	ttl       time.Duration
	hold      time.Duration // how long it keeps what it gets
	auto      bool
	round     *round // its turn; nil: it has none
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

// wait begins a Lock.
func (c *client) wait(s Step) {
	q := c.queue(key(s.Name))
	if q == nil {
		pace := quorum.Pace{First: 2 * time.Millisecond, Most: 200 * time.Millisecond, Heal: healAfter, Random: c.atRandom}
		q = &queue{client: c, key: key(s.Name), machine: quorum.NewQueue[*waiter](len(c.lines), c.self, pace)}
		c.queues = append(c.queues, q)
	}
	c.world.waits++
	w := &waiter{queue: q, number: c.world.waits, ttl: s.TTL, hold: s.For, auto: s.Auto}
	c.world.tell("client %d: waiter %d comes for %s", c.number, w.number, q.key)
	q.waiters = append(q.waiters, w)
	q.do(func(now time.Time) quorum.Moves { return q.machine.Join(now, w) })
}

func (c *client) atRandom(below time.Duration) time.Duration {
	if below <= 0 {
		return 0
	}
	c.random++
	return time.Duration(c.world.chance(c.number, c.random, 11) % uint64(below))
}

// do tells the machine of an event, and does what comes of it.
func (q *queue) do(event func(now time.Time) quorum.Moves) {
	if q.busy {
		q.late = append(q.late, func() { q.do(event) })
		return
	}
	now := q.client.clock.Now()
	m := event(now)
	q.arm(m.At)
	if m.Try {
		q.begin(m)
		return
	}
	q.carry(m)
}

// begin begins a round for the waiter at the head.
func (q *queue) begin(m quorum.Moves) {
	c := q.client
	w, ok := q.machine.Head()
	if !ok || w.round != nil || w.ended {
		c.world.violate("a round is for somebody who waits for one", "client %d: a round for %s", c.number, q.key)
		return
	}
	r := c.newAcquire(q.key, w.ttl, q.floor)
	c.world.tell("client %d: the turn of waiter %d", c.number, w.number)
	w.round = r
	r.ended = func() { c.soon(func() { w.take(r) }) }
	r.sent = func() {
		q.busy = false
		q.carry(m)
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
		k := q.client.won(r, w.auto)
		w.end("has the lock")
		w.checkTurn()
		q.floor = 0
		q.do(func(now time.Time) quorum.Moves { return q.machine.Won(now, r.grant) })
		q.client.after(w.hold, func() { k.unlock() })
	case w.cancelled:
		w.leave()
	default:
		for i := range q.client.lines {
			q.floor = max(q.floor, r.acquire.Number(i))
		}
		q.do(q.machine.Lost)
	}
}

// cancel ends the context of w's call.
func (w *waiter) cancel() {
	if w.ended || w.cancelled {
		return
	}
	w.queue.client.world.tell("client %d: the context of waiter %d ends", w.queue.client.number, w.number)
	w.cancelled = true
	w.leave()
}

// leave gives up, unless w turns out to have a round.
func (w *waiter) leave() {
	q := w.queue
	if w.round != nil {
		w.round.stop()
		return
	}
	q.do(func(now time.Time) quorum.Moves {
		if w.round != nil {
			w.round.stop()
			return quorum.Moves{}
		}
		w.end("gives up")
		return q.machine.Leave(now, w)
	})
}

func (w *waiter) end(how string) {
	c := w.queue.client
	if w.ended {
		c.world.violate("a wait ends once", "client %d: waiter %d %s, and had ended", c.number, w.number, how)
	}
	c.world.tell("client %d: waiter %d %s", c.number, w.number, how)
	w.ended = true
	w.queue.waiters = slices.DeleteFunc(w.queue.waiters, func(o *waiter) bool { return o == w })
	c.world.served++
}

// arm has the machine told when a time has come.
func (q *queue) arm(at time.Time) {
	if at.IsZero() || !q.alarm.IsZero() && !at.Before(q.alarm) {
		return
	}
	q.alarm = at
	q.client.afterClock(&q.client.clock, at, func() {
		if !q.alarm.Equal(at) {
			return
		}
		q.do(func(now time.Time) quorum.Moves {
			q.alarm = time.Time{}
			return q.machine.Tick(now)
		})
	})
}

// carry does what the machine asks for beside rounds.
func (q *queue) carry(m quorum.Moves) {
	c := q.client
	if m.Listen {
		c.listen()
	}
	q.spend(len(m.Look))
	for _, i := range m.Look {
		c.lines[i].send(order{command{verb: look, key: q.key}, q, i})
	}
	for _, i := range m.Heal {
		c.world.tell("client %d takes over %s on node %d", c.number, q.key, i)
		c.lines[i].send(order{command{verb: heal, key: q.key, token: q.machine.Seen(i).Token}, q, i})
	}
	if a := m.Announce; a != nil {
		c.lines[a.Node].publish(a.To, &note{waits, q.key, []string{c.self}})
	}
	if p := m.Pass; p != nil {
		c.world.tell("client %d passes %s on to %s", c.number, q.key, p.To)
		for _, l := range c.lines {
			l.publish(p.To, &note{yours, q.key, p.Rivals})
		}
	}
}

// reply takes the answer to a look, or to the deletion of a key without a TTL.
func (q *queue) reply(node int, v verb, vote quorum.Vote, r reply) {
	if v == heal {
		q.do(func(now time.Time) quorum.Moves { return q.machine.Healed(now, node, vote == quorum.Yes) })
		return
	}
	s := quorum.Sight{Answered: vote == quorum.Yes || vote == quorum.No, Watched: r.watched}
	if vote == quorum.Yes {
		s.Held, s.Token, s.NoTTL, s.TTL = true, r.token, r.ttl == noTTL, time.Duration(r.ttl)*time.Millisecond
		if s.NoTTL {
			s.TTL = noTTL
		} else {
			s.Owner = r.token[:2]
		}
	}
	if c := q.client; c.world.story != nil {
		what := votes[vote]
		if vote == quorum.Yes {
			what = fmt.Sprintf("%s for %v", s.Token, s.TTL)
		}
		if s.Watched {
			what += ", watched"
		}
		c.world.tell("client %d looks at %s on node %d: %s", c.number, q.key, node, what)
	}
	q.do(func(now time.Time) quorum.Moves { return q.machine.Saw(now, node, s) })
}
