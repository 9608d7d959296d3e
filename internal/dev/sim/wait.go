package sim

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// healAfter is how long a key is seen without a TTL before it is deleted.
const healAfter = time.Second

// waiter is a call of Lock.
type waiter struct {
	Step
	call      lock.Call
	queue     *name
	number    int
	round     *round // its turn; nil means none
	lock      *held  // that was handed off to it; nil means none
	tried     bool   // it has had a round
	first     bool   // it has had no place in the queue before its round
	cancelled bool
	ended     bool
	onEnded   func()        // nil: nothing follows
	onWon     func(k *held) // nil: it unlocks the lock after a while
	set       *several      // whose place it is; nil means that it waits for one lock
	came      turns         // those of others by then
	before    int           // how many waited here then
	wins      int           // how many had got the lock by then
	at        time.Duration // true time at which it came
}

// wait begins a Lock.
func (c *client) wait(s Step) *waiter {
	n := c.name(key(s.Name))
	c.comers++
	if !s.passing {
		c.waits++
	}
	w := &waiter{Step: s, queue: n, number: c.comers}
	w.call = lock.Call{Want: s.want(), Of: w}
	w.at = c.now
	w.came, w.before, w.wins = n.others(), len(n.waiters), c.wins[n.key]
	c.log("client %d: waiter %d comes for %s", c.number, w.number, n.key)
	n.waiters, n.waited = append(n.waiters, w), true
	n.do(w.join)
	return w
}

func (c *client) atRandom(below time.Duration) time.Duration {
	if below <= 0 {
		return 0
	}
	c.random++
	return time.Duration(c.chance(c.number, c.random, 11) % uint64(below))
}

// join begins with a round, if nobody is before the waiter.
func (w *waiter) join() {
	if w.first = w.queue.lock.First(&w.call); w.first {
		w.begin()
	} else {
		w.queue.act(w.queue.lock.Wait(nil, &w.call))
	}
}

// begin begins a round for the waiter, which is at the head.
func (w *waiter) begin() {
	n, c := w.queue, w.queue.client
	if w.set != nil {
		w.set.offer(w)
		return
	}
	if w.round != nil || w.ended {
		c.check(false, "a round is for somebody who waits for one", "client %d: a round for %s", c.number, n.key)
		return
	}
	c.log("client %d: the turn of waiter %d", c.number, w.number)
	r, acts := n.newAcquire(&w.call, c.newToken())
	w.round, w.tried, r.passing = r, true, w.passing
	r.onEnded = func() { c.soon(func() { n.do(func() { w.take(r) }) }) }
	n.spend(len(c.lines))
	r.begin(acts)
}

// take goes on at the end of w's round.
func (w *waiter) take(r *round) {
	n := w.queue
	w.round = nil
	if w.first && r.outcome != quorum.Done {
		n.lock.WaitOn(&w.call, &w.call)
	}
	w.first = false
	switch {
	case w.lock != nil:
		n.client.check(false, "a wait ends once", "client %d: waiter %d has a round, and the lock", n.client.number, w.number)
	case r.outcome == quorum.Done:
		w.got("has the lock")
		k, acts := n.won(r, &w.call)
		n.act(acts)
		if w.onWon != nil {
			w.onWon(k)
		} else {
			n.client.after(w.For, func() { k.leave(w) })
		}
	case w.cancelled:
		w.leave()
	default:
		n.act(n.lock.Lost(nil, &w.call, r.acquire))
	}
}

// got ends a wait with the lock.
func (w *waiter) got(how string) {
	w.end(how)
	w.queue.checkTurn(w)
	w.checkSlowed()
	w.queue.countPairs(w)
	for _, o := range w.queue.waiters {
		// Those who share it have their rounds side by side, and beside that of a writer that has come later.
		w.queue.client.check(o.number > w.number || o.cancelled || o.kind().Several() && (w.kind().Several() || o.tried),
			"waiters of one client get the lock in the order in which they came",
			"client %d: waiter %d before waiter %d", w.queue.client.number, w.number, o.number)
	}
}

// cancel ends the context of w's call.
func (w *waiter) cancel() {
	if w.ended || w.cancelled {
		return
	}
	if w.set != nil {
		w.set.cancel()
		return
	}
	w.queue.client.log("client %d: the context of waiter %d ends", w.queue.client.number, w.number)
	w.cancelled = true
	w.queue.do(w.leave)
}

// leave gives up, unless w turns out to have a round, or the lock.
func (w *waiter) leave() {
	switch n := w.queue; {
	case w.ended || w.lock != nil:
	case w.round != nil:
		w.round.stop()
	default:
		w.end("gives up")
		n.act(n.lock.Leave(nil, &w.call))
	}
}

// refuse ends a wait, as the lock cannot become free.
func (w *waiter) refuse() {
	n, c := w.queue, w.queue.client
	data := func(s *server) bool { return s.data[n.key] || w.kind().Several() && s.data[wanted(n.key)] }
	c.check(c.occupied(data), "a wait ends only if somebody's data leaves no majority",
		"client %d: that for %s", c.number, n.key)
	w.end("finds somebody's data")
	if w.set != nil {
		w.set.refuse()
	}
}

func (w *waiter) end(how string) {
	c := w.queue.client
	c.check(!w.ended, "a wait ends once", "client %d: waiter %d %s, and had ended", c.number, w.number, how)
	c.log("client %d: waiter %d %s", c.number, w.number, how)
	w.ended = true
	w.queue.waiters = slices.DeleteFunc(w.queue.waiters, func(o *waiter) bool { return o == w })
	c.gone++
	if !w.passing {
		c.served++
	}
	w.queue.ended[w.kind()] = c.now
	if w.onEnded != nil {
		w.onEnded()
	}
}
