package quorum

import (
	"slices"
	"time"
)

const (
	// maxStreak is how many times in a row a lock goes from hand to hand in one process
	// before other processes get their turn: those that are known to wait, and after maxAlone times
	// also those that are not.
	maxStreak = 6
	maxAlone  = 48
	// maxRivals bounds how many others are remembered: who is not among them waits for the
	// lock to look free.
	maxRivals = 256
)

// Queue is those who wait for one name in one process, in the order in which they came.
// The one at the head contends for the lock; the others wait for their turn, which they
// get when the one before them has had it or gives up.
//
// A lock that is released in this process goes to the one at the head: its round follows
// the release on the same connections. After some times in a row the turn is passed on to
// another process: to that which has waited for the longest, if some have announced
// themselves.
type Queue[W comparable] struct {
	wait
	self    string // the owner part of this process's tokens
	waiters []W
	streak  int       // how many times in a row this process has had the lock
	held    time.Time // until then it has it, as far as is known here; the others here have nothing to do but wait
	freed   time.Time // when it was released here
	rest    time.Time // until then it is for others to take it

	rivals    []string // other processes that wait, the first is next
	announced string   // the token whose holder was told that we wait: that may have been missed, so the next tells again
	told      []bool   // told[i]: node i has said that it is our turn
	again     bool     // that, or a release of our own, came when the round under way had begun: another follows at once
}

// NewQueue makes a queue of nobody, for a key on n nodes. self is the owner part of the
// tokens that are made here.
func NewQueue[W comparable](n int, self string, pace Pace) *Queue[W] {
	return &Queue[W]{
		wait: wait{pace: pace, sights: make([]sight, n), rtt: pace.First},
		self: self, told: make([]bool, n),
	}
}

// Head returns who contends.
func (q *Queue[W]) Head() (w W, ok bool) {
	if len(q.waiters) == 0 {
		return w, false
	}
	return q.waiters[0], true
}

// Empty says that nobody waits.
func (q *Queue[W]) Empty() bool { return len(q.waiters) == 0 }

// Idle says that there is nothing to remember: nobody waits, nobody here holds what he got in
// this queue, and others have had the time to take it.
func (q *Queue[W]) Idle(now time.Time) bool {
	return len(q.waiters) == 0 && q.held.IsZero() && !now.Before(q.rest)
}

// Deserted says that a release now would end this process's turn before its time: others wait elsewhere, and
// nobody here.
func (q *Queue[W]) Deserted() bool {
	return len(q.waiters) == 0 && len(q.rivals) > 0 && q.streak < maxStreak
}

// Seen returns what is known of a node.
func (q *Queue[W]) Seen(node int) Sight { return q.sights[node].Sight }

// Join lets w wait behind all others.
func (q *Queue[W]) Join(now time.Time, w W) Moves {
	q.waiters = append(q.waiters, w)
	switch {
	case len(q.waiters) > 1 || q.trying:
		return Moves{Listen: true}
	case now.Before(q.held) || now.Before(q.rest):
		return q.look(now, 0, false)
	case now.After(q.freed.Add(q.grace())): // else the streak goes on
		q.streak = 0
	}
	q.forget()
	return q.try()
}

// Leave takes w out, who gives up. The turn goes on to the next, and the round with it if
// one was under way: w's has been stopped, and the next follows its release.
func (q *Queue[W]) Leave(now time.Time, w W) Moves {
	i := slices.Index(q.waiters, w)
	if i < 0 {
		return Moves{}
	}
	q.waiters = slices.Delete(q.waiters, i, i+1)
	switch {
	case len(q.waiters) == 0:
		q.trying, q.again = false, false
		if now.Before(q.held) {
			return Moves{}
		}
		return q.pass()
	case i == 0 && q.trying:
		q.trying = false
		return q.try()
	case i == 0:
		return q.look(now, 0, false)
	}
	return Moves{}
}

// Won tells that the round at the head has been won: its waiter has left.
func (q *Queue[W]) Won(now time.Time, grant Grant) Moves {
	q.waiters = slices.Delete(q.waiters, 0, 1)
	q.rtt += (min(now.Sub(grant.Start), q.pace.Most) - q.rtt) / 8
	q.forget()
	for i := range q.sights {
		q.sights[i].since = time.Time{} // what changes while we hold it is not seen
	}
	q.streak++
	q.trying, q.again, q.announced = false, false, ""
	q.held, q.rest = grant.end(), time.Time{}
	clear(q.told)
	return q.look(now, 0, false)
}

// Lost tells that the round at the head has been lost.
func (q *Queue[W]) Lost(now time.Time) Moves {
	q.held = time.Time{}
	clear(q.told)
	if q.again {
		return q.try()
	}
	return q.lose(now)
}

// Unlocked tells that a release of this process's lock has been sent to the nodes: what is
// sent now comes behind it.
func (q *Queue[W]) Unlocked(now time.Time) Moves {
	q.held, q.freed = time.Time{}, now
	switch {
	case q.trying:
		q.again = true
		return Moves{}
	case len(q.waiters) > 0 && (q.streak < maxStreak || q.streak < maxAlone && len(q.rivals) == 0):
		return q.try()
	case len(q.waiters)+len(q.rivals) == 0:
		return Moves{Listen: q.streak >= maxStreak} // somebody may have no other way to get it
	}
	pass := q.pass()
	q.forget()
	q.streak = 0
	for i := range q.sights {
		q.sights[i].becomes(sight{changed: true, ends: now.Add(relook)})
	}
	q.rest = now.Add(q.grace())
	q.notBefore, q.probeAt, q.pollAt = q.rest, q.rest, q.rest
	q.relookAt = now.Add(relook)
	if pass.Pass != nil {
		q.alarms, q.polite = 1, true // a look first: it is another's turn
	}
	m := q.look(now, 0, false)
	m.Pass, m.Listen = pass.Pass, true
	return m
}

// forget drops what is known of the nodes.
func (q *Queue[W]) forget() {
	q.splits, q.polls, q.alarms = 0, 0, 0
	q.woken, q.polite = false, false
	q.notBefore = time.Time{}
	for i := range q.sights {
		q.sights[i].unknown()
	}
}

func (q *Queue[W]) try() Moves {
	q.trying, q.woken, q.again = true, false, false
	return Moves{Try: true}
}

// Saw tells what a look at a node has shown.
func (q *Queue[W]) Saw(now time.Time, node int, seen Sight) Moves {
	if q.trying || !q.held.IsZero() {
		q.sights[node].looking, q.sights[node].stale = false, false
		return Moves{}
	}
	q.saw(now, node, seen)
	if seen.Owner != q.self && seen.Held && seen.Token == q.holder() {
		q.streak = 0
	}
	if len(q.waiters) == 0 {
		return Moves{}
	}
	m := q.judge(now)
	if seen.Owner != "" && seen.Owner != q.self && seen.Token != q.announced {
		q.announced = seen.Token
		m.Announce = &Announce{node, seen.Owner}
	}
	return m
}

// Healed tells that the deletion of a key without a TTL has been answered, or has failed.
func (q *Queue[W]) Healed(now time.Time, node int, done bool) Moves {
	q.sights[node].becomes(sight{Sight: Sight{Answered: done}})
	return q.look(now, node, !done && !q.sights[node].looking)
}

// Changed tells that the key has changed on a node, as far as it was looked at there.
func (q *Queue[W]) Changed(now time.Time, node int) Moves {
	if !q.held.IsZero() {
		return Moves{}
	}
	s := &q.sights[node]
	s.Watched = false
	s.since = time.Time{}
	if s.looking {
		s.stale = true
		return Moves{}
	}
	s.changed = true
	if q.alarms == 0 {
		q.probeAt = now.Add(q.grace()) // so that the others can tell it too
	}
	return q.look(now, node, false)
}

// Hearing tells that changes on a node are told from now on: what was seen there is void.
func (q *Queue[W]) Hearing(now time.Time, node int) Moves {
	if !q.held.IsZero() {
		return Moves{}
	}
	s := &q.sights[node]
	s.stale = s.stale || s.looking
	return q.look(now, node, !s.looking)
}

// Deaf tells that changes on a node may be missed.
func (q *Queue[W]) Deaf(now time.Time, node int) Moves {
	if !q.held.IsZero() {
		return Moves{}
	}
	s := &q.sights[node]
	s.Watched, s.stale = false, s.stale || s.looking
	if at := q.pause(now, 0); q.pollAt.Before(at) {
		q.pollAt = at
	}
	return q.look(now, node, false)
}

// Tick tells that time has gone by.
func (q *Queue[W]) Tick(now time.Time) Moves { return q.look(now, 0, false) }

// look judges, and looks at a node if need be.
func (q *Queue[W]) look(now time.Time, node int, need bool) Moves {
	switch {
	case q.trying || len(q.waiters) == 0:
		return Moves{}
	case now.Before(q.held):
		return Moves{At: q.held}
	case !q.held.IsZero(): // it is over, or was extended
		q.held = time.Time{}
		return q.try()
	}
	if need {
		q.sights[node].looking = true
	}
	m := q.judge(now)
	switch {
	case need && m.Try:
		q.sights[node].looking = false // no look goes out: the round will tell
	case need:
		m.Look = append(m.Look, node)
	}
	return m
}
