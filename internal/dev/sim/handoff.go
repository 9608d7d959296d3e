package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// handoffs has the clients of some plans pass locks on from hand to hand.
func (p *Plan) handoffs(r *rand.Rand) {
	waits := slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Kind == Wait })
	if waits && r.IntN(2) == 0 {
		p.Handoff = pick(r, time.Millisecond, 20*time.Millisecond, 200*time.Millisecond, time.Hour)
	}
}

// detaches has some of those that wait leave the lock to another client.
func (p *Plan) detaches(r *rand.Rand) {
	if p.Kept || p.Watched || r.IntN(8) > 0 {
		return
	}
	for i := range p.Steps {
		p.Steps[i].Detach = p.Steps[i].Kind == Wait && r.IntN(2) == 0
	}
}

// pass gives a lock that is given up to the next waiter of the same client, if it may.
func (c *client) pass(k *held, hold *quorum.Hold) bool {
	call, now := k.lock.Next(&k.lease, hold), c.clock.Now()
	if call == nil {
		return false
	}
	w := call.Of.(*waiter)
	c.log("client %d passes %v on to waiter %d", c.number, k, w.number)
	c.check(!k.passed && k.lease.At(now) == quorum.NotEnded, "only a lock that is held is handed off", "client %d: %v", c.number, k)
	c.check(now.Sub(k.of.Grant().Start) < min(c.plan.Handoff, k.of.Grant().TTL/4), "a lock goes from hand to hand for a bounded time",
		"client %d: %v after %v", c.number, k, now.Sub(k.of.Grant().Start))
	c.check(!k.of.detached, "a lock that its holder has left to another is not handed off", "client %d: %v", c.number, k)
	c.check(w.TTL <= k.of.Grant().TTL && k.lease.Longest() <= k.of.Grant().TTL, "a lock that is handed off has the TTL that was asked for",
		"client %d: %v has %v, waiter %d asked for %v", c.number, k, k.lease.Longest(), w.number, w.TTL)
	c.check(w.Grace == k.of.Grant().Grace, "a lock that is handed off has the grace that was asked for", "client %d: %v, waiter %d asked for %v", c.number, k, w.number, w.Grace)
	k.passed, k.at = true, c.now
	c.drop(k)
	next := &held{granted: k.granted, given: true}
	acts, gets := k.lock.HandOff(nil, &k.lease, hold, call.Want)
	next.holds = []quorum.Hold{gets}
	if !w.Auto {
		k.lease.Renewal = nil
	}
	next.number, k.current = k.lease.Fence(), next
	c.locks = append(c.locks, next)
	c.checkPassed(k, *hold)
	c.checkHeld(next, "when it was handed off")
	c.checkHolder(next)
	w.lock = next
	k.act(acts)
	c.soon(func() {
		w.got("is given the lock")
		next.do(func() { next.keep(w) })
	})
	return true
}

// keep goes on with what a waiter was given.
func (k *held) keep(w *waiter) {
	k.renew()
	k.client.after(w.For, func() { k.leave(w) })
}

// leave gives up what a waiter has had.
func (k *held) leave(w *waiter) {
	if w.Detach && !w.kind().Several() {
		k.detach(w.For)
	} else {
		k.giveUp()
	}
}

// turn returns the waiter that would have its turn behind a release; false if that has a round already.
func (k *held) turn() (*waiter, bool) {
	waiting := k.lock.Waiting()
	if len(waiting) == 0 {
		return nil, false
	}
	w := waiting[0].Of.(*waiter)
	return w, w.round == nil
}

// checkTurn holds the release of a lock to what others are promised: the next waiter here had no round before it.
func (k *held) checkTurn(w *waiter) {
	kept := k.client.clock.Now().Sub(k.of.Grant().Start)
	k.client.check(w.round == nil || kept < k.client.plan.Handoff, "a lock that was handed off for long goes to others first",
		"client %d: waiter %d is the next, after %v", k.client.number, w.number, kept)
}

// checkPassed holds the earlier holder's handle to what is left of it.
func (w *world) checkPassed(k *held, hold quorum.Hold) {
	ended := hold.At(k.client.clock.Now()) != quorum.NotEnded && !hold.Current()
	w.check(ended, "who has handed a lock off does not hold it", "client %d: %v", k.client.number, k)
}

// checkHolder holds the fencing token of a holder to those of the holders before.
func (w *world) checkHolder(k *held) {
	if k.fence == 0 || !w.fencing() || k.client != k.of.client || k.of.attached != nil {
		return
	}
	always := w.excludes() && !w.forced && len(k.of.given) == 0
	for _, o := range w.fences {
		switch {
		case o.of != k.of:
			w.checkOrder(o, k.of, k.number, always || o.at < k.of.sent)
		case o.holder != nil && o.holder != k:
			w.check(k.number > o.number, "fencing tokens go up from hand to hand", "client %d: %v has %d, and had %d before",
				k.client.number, k, since(k.number), since(o.number))
		}
	}
	w.fences = append(w.fences, fence{of: k.of, number: k.number, at: w.now, holder: k})
}
