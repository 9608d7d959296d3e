package stack_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// plan is what happens in a run: who calls what when, and what goes wrong on which server.
type plan struct {
	nodes     int
	names     int
	ttl       time.Duration
	latency   time.Duration // of a message, at most
	room      int           // bytes on their way in one direction of a connection
	forgetful bool          // a restart forgets the keys: then two may hold one lock
	permits   bool          // CLIENT KILL is permitted: else what a dead connection left may be read late
	abrupt    time.Duration // when everything is closed, whatever goes on; 0 means when all is done and well again
	clients   []clientPlan
	faults    []fault
}

// clientPlan is a program with nodes and a Locker of its own.
type clientPlan struct {
	wrapped    bool // over redigo pools of its own
	timeout    time.Duration
	dial       time.Duration
	maxOverdue time.Duration
	handoff    time.Duration // for how long a lock goes from hand to hand; 0 means that it does not
	workers    [][]step      // one list for each of its goroutines
}

// step is one call. If it does not apply (an unlock of a client that never held a lock, for example), nothing happens.
type step struct {
	pause time.Duration // before it
	kind  stepKind
	of    redlock.Kind // that is taken
	which int          // which name, node or lock
	ttl   time.Duration
	limit time.Duration // of the call's context
	watch bool          // the lock's Done is watched
}

type stepKind uint8

const (
	tryLock stepKind = iota
	unlock
	lock
	extend
	tryLockCancelled // its context ends under way
	extendCancelled
	unlockTwice   // at the same time
	extendUnlock  // at the same time
	lockCancelled // before it is called
	detach        // and another client takes it up, and unlocks it
	do            // its function takes as long as the limit
	tryLockAll
	lockAll
	closeLocker
	closeNode
	closeClient  // the Locker, and at once the nodes
	tryLockClose // TryLock, cancelled, and at once the same
	numSteps
)

var stepNames = [numSteps]string{
	"TryLock", "Unlock", "Lock", "Extend", "TryLock, cancelled", "Extend, cancelled", "Unlock twice", "Extend and Unlock",
	"Lock with a context that is over", "Detach", "Do", "TryLockAll", "LockAll", "Locker.Close", "Node.Close", "Locker.Close, Node.Close",
	"TryLock, cancelled, Locker.Close, Node.Close",
}

func (k stepKind) String() string { return stepNames[k] }

// calm reports whether nothing but latency is in the way of any message. Scripts may be forgotten.
func (p *plan) calm() bool {
	disturbs := func(f fault) bool { return f.kind != flushScripts }
	return p.room > 4096 && !slices.ContainsFunc(p.faults, disturbs)
}

const (
	long = time.Hour // a TTL that no run sees the end of
	unit = time.Millisecond
)

// newPlan makes a plan of some size: how many things each goroutine does, about.
func newPlan(d dice, size int) *plan {
	p := &plan{
		nodes:     pick(d, 3, 1, 3, 5),
		names:     1 + d.roll(2),
		ttl:       pick(d, long, 100*unit, long, 200*unit),
		latency:   pick(d, 0, unit, 2*unit),
		room:      pick(d, 1<<16, 300, 1<<16, 100),
		forgetful: oneIn(d, 8),
		permits:   !oneIn(d, 6),
	}
	if oneIn(d, 6) {
		p.abrupt = upTo(d, 100, 5*unit)
	}
	for range 2 + d.roll(3) {
		p.clients = append(p.clients, newClientPlan(d, p, size))
	}
	flushes := oneIn(d, 6) // and nothing else
	for range d.roll(2 * size) {
		f := newFault(d, p)
		if flushes {
			f.kind = flushScripts
		}
		p.faults = append(p.faults, f)
	}
	return p
}

func newClientPlan(d dice, p *plan, size int) clientPlan {
	c := clientPlan{
		wrapped:    d.roll(3) == 1,
		timeout:    pick(d, 40*unit, 20*unit, 60*unit),
		dial:       pick(d, 100*unit, 50*unit, 300*unit),
		maxOverdue: pick(d, 100*unit, 30*unit, 400*unit),
		handoff:    pick(d, 0, 0, 20*unit, 2*time.Second),
	}
	for range 1 + d.roll(3) {
		steps := make([]step, 1+d.roll(size))
		clings := oneIn(d, 3) // to one lock
		for i := range steps {
			steps[i] = newStep(d, p)
			if clings && i > 0 {
				steps[i].kind, steps[i].which = pick(d, extend, extend, extendCancelled, tryLock), 0
			}
		}
		c.workers = append(c.workers, steps)
	}
	return c
}

func newStep(d dice, p *plan) step {
	s := step{
		pause: upTo(d, 10, 5*unit),
		kind: pick(d, tryLock, tryLock, tryLock, unlock, unlock, unlock, lock, lock, extend, extend,
			tryLockCancelled, tryLockCancelled, extendCancelled, unlockTwice, extendUnlock, lockCancelled, detach, do, do, tryLockAll, lockAll),
		which: d.roll(16),
		ttl:   p.ttl,
		limit: upTo(d, 20, unit),
		watch: d.roll(2) == 0,
	}
	if oneIn(d, 4) {
		s.kind, s.of = pick(d, tryLock, lock, lock, do), pick(d, redlock.KindShared, redlock.KindSlot)
	}
	if s.kind == lock || s.kind == lockAll || s.kind == do && oneIn(d, 3) {
		s.limit *= 20
	}
	if oneIn(d, 60) {
		s.kind = pick(d, tryLockClose, closeClient, closeLocker, closeNode)
	}
	if (s.kind == extend || s.kind == extendUnlock) && oneIn(d, 2) {
		s.ttl = long
	}
	return s
}

func (p *plan) String() string {
	text := fmt.Sprintf("%d nodes, %d names, TTL %v, latency %v, room %d, forgetful %v, CLIENT KILL %v, abrupt %v",
		p.nodes, p.names, p.ttl, p.latency, p.room, p.forgetful, p.permits, p.abrupt)
	for i, c := range p.clients {
		text += fmt.Sprintf("\n  client %d: wrapped %v, timeout %v, dial %v, overdue %v, handoff %v, %d goroutines", i, c.wrapped, c.timeout, c.dial, c.maxOverdue, c.handoff, len(c.workers))
	}
	return text
}

// dice make the choices of a plan.
type dice interface {
	// roll returns a number from 0 to below n, which is at most 256.
	roll(n int) int
}

// seeded are dice that fall the same way for the same seed.
type seeded struct{ *rand.Rand }

func newSeeded(seed uint64) seeded { return seeded{rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))} }

func (s seeded) roll(n int) int { return s.IntN(n) }

// tape are dice that fall as the bytes determine, and on 0 when there are none left.
type tape struct{ bytes []byte }

func (t *tape) roll(n int) int {
	if len(t.bytes) == 0 {
		return 0
	}
	b := int(t.bytes[0])
	t.bytes = t.bytes[1:]
	return b % n
}

// oneIn is true for one roll of n, the highest: dice that have run out make nothing special.
func oneIn(d dice, n int) bool { return d.roll(n) == n-1 }

func pick[T any](d dice, from ...T) T { return from[d.roll(len(from))] }

// upTo returns a duration in steps, from none to n of them. Few different ones make that
// things happen at the same instant, which is when things go wrong.
func upTo(d dice, n int, step time.Duration) time.Duration { return time.Duration(d.roll(n+1)) * step }
