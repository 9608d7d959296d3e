package sim

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// several is a LockAll: it carries out the Steps of its lock.All.
type several struct {
	Step
	all    *lock.All
	client *client
	keys   []string
	want   []*lock.Want
	locks  []*held // that it holds, by name

	place    *waiter       // in the line of the name where it waits; nil: it has none
	offered  bool          // it is its turn there
	turn     *round        // that is lost, and whose turn goes on or is missed
	round    *together     // the last one
	asking   bool          // it is under way
	waiting  bool          // it waits at its place
	number   int           // of its waits
	lost     bool          // it has lost a round
	stopped  bool          // its context has ended
	over     bool          // the call has
	upsets   int           // of the client when it began
	from     time.Duration // true time at which it came to its place, or began to hold something there
	wins     map[string]int
	finished func()
}

// waitAll begins a LockAll.
func (c *client) waitAll(s Step) *several {
	t := &several{Step: s, client: c, keys: s.keys(c.plan.Names), upsets: c.upsets, wins: map[string]int{}, finished: func() {}}
	t.all = c.rules.All(len(t.keys), s.TTL, true)
	t.locks = make([]*held, len(t.keys))
	for _, key := range t.keys {
		want := s.want()
		want.Kept = true
		t.want = append(t.want, want)
		t.wins[key] = c.wins[key]
	}
	c.log("client %d comes for %v", c.number, t.keys)
	c.several = append(c.several, t)
	first := t.all.Begin(t.busy())
	t.checkPasses(first, -1)
	t.next(first)
	return t
}

// busy returns the names where others come first.
func (t *several) busy() (busy lock.Names) {
	for i, key := range t.keys {
		if t.client.name(key).lock.Busy() {
			busy |= lock.Only(i)
		}
	}
	return busy
}

// againAll has a goroutine take several locks again and again.
func (c *client) againAll(s Step) {
	if c.now > warmUp+s.Until {
		return
	}
	t := c.waitAll(s)
	t.finished = func() { c.after(c.atRandom(s.Pause), func() { c.againAll(s) }) }
	if s.Patience > 0 {
		c.after(s.Patience, t.cancel)
	}
}

// next carries out a Step.
func (t *several) next(s lock.Step) {
	t.settleTurn(s, func() {
		if s.GiveBack {
			t.giveBack()
			t.client.check(s.Do != lock.Await || !s.Leave, "a set that gives back its locks keeps its place", "client %d, %v", t.client.number, t.keys)
		}
		if w := t.place; s.Leave && w != nil {
			t.place, t.offered = nil, false
			w.queue.do(func() {
				if !w.ended {
					w.end("leaves")
				}
				w.queue.act(w.queue.lock.Leave(nil, &w.call))
				t.client.soon(func() { t.do(s) })
			})
			return
		}
		t.do(s)
	})
}

// settleTurn says what becomes of a turn whose round is lost.
func (t *several) settleTurn(s lock.Step, then func()) {
	r, w := t.turn, t.place
	if t.turn = nil; r == nil {
		then()
		return
	}
	n := w.queue
	n.do(func() {
		if s.Missed {
			r.missed(&w.call)
		} else {
			r.unwon()
			n.act(n.lock.Again(nil, r.acquire))
		}
		t.client.soon(then)
	})
}

func (t *several) giveBack() {
	for i, k := range t.locks {
		if t.locks[i] = nil; k != nil {
			t.client.log("client %d gives %v back", t.client.number, k)
			k.giveUp()
		}
	}
}

func (t *several) do(s lock.Step) {
	c := t.client
	switch s.Do {
	case lock.AskNames:
		t.ask(s.Names)
	case lock.Await:
		t.await(s.At)
	case lock.Refresh:
		t.refresh()
	case lock.HaveAll:
		t.over = true
		c.log("client %d has %v", c.number, t.keys)
		t.checkHave()
		t.finished()
		locks := slices.Clone(t.locks)
		if !t.Auto {
			for _, k := range locks {
				k.lease.Renewal = nil
			}
		}
		c.after(t.For, func() { giveUp(locks) })
	case lock.GiveUp:
		t.over = true
		c.log("client %d gives %v up", c.number, t.keys)
		t.finished()
	}
}

// ask runs a round over some names.
func (t *several) ask(names lock.Names) {
	c, of := t.client, slices.Collect(names.Each())
	var keys []string
	var calls []*lock.Call
	for _, i := range of {
		want := *t.want[i]
		want.Renewed = want.Renewed || len(of) < len(t.keys)
		call := &lock.Call{Want: &want}
		if i == t.all.At() {
			call = &t.place.call
			call.Want = &want
		}
		keys, calls = append(keys, t.keys[i]), append(calls, call)
	}
	a := c.newTogether(c.newToken(), keys, calls)
	t.round, t.asking = a, true
	a.begins, a.over = func(*round) {}, func() {}
	a.got = func(i int, k *held) { t.locks[of[i]] = k }
	a.then = func(won bool) {
		t.asking = false
		t.checkHeldSince()
		if won {
			if names.Has(t.all.At()) {
				t.place = nil
			}
			t.next(t.all.Won())
			return
		}
		t.lost = true
		var others []int
		for i, r := range a.rounds {
			others = append(others, r.acquire.Others())
			if of[i] == t.all.At() {
				t.turn = r
			}
		}
		took := c.clock.Now().Sub(a.rounds[0].Grant().Start)
		t.next(t.all.Lost(others, took, t.stopped))
	}
	a.join(0)
	if t.stopped {
		c.soon(a.stop)
	}
}

// await waits in the line of a name.
func (t *several) await(i int) {
	c := t.client
	t.number++
	t.from, t.waiting = c.now, true
	if w := t.place; w == nil {
		n := c.name(t.keys[i])
		c.comers++
		c.waits++
		w = &waiter{Step: t.Step, queue: n, number: c.comers, set: t, at: c.now, came: n.others(), before: len(n.waiters)}
		w.call = lock.Call{Want: t.want[i], Of: w, Lost: t.lost}
		c.log("client %d: waiter %d comes for %s, and wants more", c.number, w.number, n.key)
		t.place = w
		n.waiters, n.waited = append(n.waiters, w), true
		n.do(func() { n.act(n.lock.Wait(nil, &w.call)) })
	}
	t.untilImpatient(t.number)
	t.watchPatience(t.number)
	switch {
	case t.stopped:
		t.cancel()
	case t.offered: // before it came here, if it has stayed
		t.takeTurn()
	}
}

// waits reports whether it has waited since, and its turn has not come.
func (t *several) waits(number int) bool { return t.waiting && t.number == number && !t.offered }

// untilImpatient gives back what it holds when it has waited for long enough.
func (t *several) untilImpatient(number int) {
	if !t.waits(number) {
		return
	}
	c := t.client
	switch until := t.all.Until(t.place.queue.lock.Changes()); {
	case until.IsZero():
	case c.clock.Now().Before(until):
		c.afterClock(&c.clock, until, func() { t.untilImpatient(number) })
	default:
		t.checkHeldSince()
		t.goOn(t.all.Impatient())
	}
}

// offer is its turn at a place.
func (t *several) offer(w *waiter) {
	c := t.client
	if t.place != w { // it is about to leave
		return
	}
	if t.offered || t.asking || t.over {
		c.check(false, "a turn is for one that waits for it", "client %d: a turn for %v", c.number, t.keys)
		return
	}
	c.log("client %d: the turn of waiter %d", c.number, w.number)
	t.offered = true
	w.queue.spend(len(c.lines))
	if t.waiting {
		t.takeTurn()
	}
}

// takeTurn goes on with its turn, in a moment.
func (t *several) takeTurn() {
	number := t.number
	t.client.soon(func() {
		if !t.waiting || t.number != number {
			return
		}
		t.checkHeldSince()
		t.offered = false
		at, holds := t.all.At(), t.all.Held() != 0
		s := t.all.Turn(t.stands(), t.busy())
		if !holds {
			t.checkPasses(s, at)
		}
		t.goOn(s)
	})
}

// goOn ends the wait at its place.
func (t *several) goOn(s lock.Step) {
	t.waiting = false
	t.next(s)
}

// stands reports whether none of the locks that it holds was lost.
func (t *several) stands() bool {
	return !slices.ContainsFunc(t.locks, func(k *held) bool { return k != nil && k.lease.At(t.client.clock.Now()) != quorum.NotEnded })
}

// refuse is that somebody's data is in the way at its place.
func (t *several) refuse() {
	t.client.soon(func() {
		if t.waiting {
			t.goOn(t.all.Over())
		}
	})
}

// cancel ends the context of the call.
func (t *several) cancel() {
	c := t.client
	if t.over {
		return
	}
	c.log("client %d: the context ends in which it waits for %v", c.number, t.keys)
	t.stopped = true
	switch {
	case t.asking:
		t.round.stop()
	case t.waits(t.number):
		number := t.number
		c.soon(func() {
			if t.waits(number) {
				t.goOn(t.all.Over())
			}
		})
	}
}

// refresh extends all locks.
func (t *several) refresh() {
	c, left, ok := t.client, len(t.locks), true
	ended := func(done bool) {
		if left, ok = left-1, ok && done; left == 0 {
			c.soon(func() { t.next(t.all.Refreshed(ok && t.stands())) })
		}
	}
	for _, k := range t.locks {
		k.do(func() {
			if len(k.holds) == 0 || k.lease.At(c.clock.Now()) != quorum.NotEnded {
				ended(false)
				return
			}
			hold := k.holds[0]
			r, e := k.newExtend(false)
			r.onEnded = func() { ended(r.outcome == quorum.Done) }
			k.act(k.lease.Extend(nil, e, t.TTL, &hold, r))
		})
	}
}
