package sim

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

const (
	shortPatience = 3 * time.Second
	// longPatience is for when a connection has ended without a sign, which may lose a push, or a key
	// has no TTL: a waiter observes the nodes now and then.
	longPatience = 45 * time.Second
	// startOver is how long connections need when all faults are gone.
	startOver = 5 * time.Second
	// enough is how long a dead client's locks are waited for.
	enough = 90 * time.Second
	// maxSpent is how many commands of each node a client may ask for one name within a second
	// while it waits, for each wait that ends meanwhile and one more.
	maxSpent = 80
	// maxInsisted is the same while others take the lock in turn: 32 rounds at once after each of the pauses that there can be
	// within a second, if chance makes each of them as short as it can be.
	maxInsisted = maxSpent + 33*27
)

// checkSleepers checks that nobody waits for what is free. It returns false when nobody
// waits any more.
func (w *world) checkSleepers() bool {
	waiting := false
	for _, c := range w.clients {
		for _, q := range c.names {
			if !c.dead && len(q.waiters) > 0 {
				waiting = true
				w.checkSleeper(q)
			}
		}
	}
	// A call may still be on its way to a lock that has to be given back.
	return waiting || w.now < w.restAt+startOver
}

func (w *world) checkSleeper(q *name) {
	head := q.waiters[0]
	if calls := q.lock.Waiting(); len(calls) > 0 {
		head = calls[0].Of.(*waiter)
	}
	w.checkOccupied(q, head)
	blocked := w.blocked(q.key, head.want())
	if blocked && w.now > w.restAt+enough {
		for _, o := range slices.Clone(q.waiters) {
			q.client.do(o.cancel)
		}
	}
	races := head.kind().HasSlots() && w.now < w.racing // processes have no turns for slots
	if blocked || races || q.served != w.served || head.passing && head != q.head || w.now < w.restAt+startOver {
		q.free, q.served, q.head = w.now, w.served, head
		return
	}
	w.check(w.now-q.free <= w.patience, "nobody waits for ever", "client %d: waiter %d waits for %s, which is free",
		q.client.number, head.number, q.key)
}

// blocked reports whether somebody, or somebody's data, holds so many nodes that nobody else can win what is wanted.
func (w *world) blocked(key string, want *lock.Want) bool {
	n, shares := 0, want.Kind.Several()
	free := make([]int, want.Slots) // on how many nodes each slot is free
	for _, s := range w.servers {
		e, ok := s.peek(key, s.now())
		if s.counters[key].foreign && !shares { // which grants nothing
			n++
			continue
		}
		switch {
		case isMark(e.token) || shares && !ok:
			if s.keepsOut(key, want.Kind) {
				n++
			} else if want.Kind.HasSlots() {
				s.free(key, free)
			}
		case !ok || e.forever && !e.foreign: // the waiters delete it
			s.free(key, free)
		case w.keeps(e.token, key):
			n++
		default:
			s.free(key, free)
		}
	}
	if want.Kind.HasSlots() {
		return slices.Max(free) < quorum.Majority(len(w.servers))
	}
	return n > len(w.servers)-quorum.Majority(len(w.servers))
}

// spend counts nodes that are asked.
func (q *name) spend(n int) {
	c := q.client
	if second := c.now / time.Second; second != q.second {
		q.second, q.spent, q.ends = second, 0, c.gone
	}
	q.spent += n
	most := maxSpent
	if c.rushed {
		most = maxInsisted
	}
	if q.spent > most*len(c.servers)*(1+c.gone-q.ends) {
		c.check(false, "a waiter sends a bounded number of commands",
			"client %d asked %d times for %s within a second", c.number, q.spent, q.key)
	}
}
