package lock

import "time"

// Clients of other libraries do not wait in a queue and take no turns. If they poll without a pause, one of them takes the lock
// the moment it is free, and a waiter that is woken by the release comes a round trip too late each time. Against such clients a
// waiter polls as well. See docs/adr/0006-waiting.md.
const (
	// manyTurns is how many times, on each node on average, they have taken the lock in turn before a waiter polls as well.
	manyTurns = 4
	// calmAfter is how long after the last of these times they are thought to be gone.
	calmAfter = 30 * time.Second
	// maxRounds is how many rounds follow each other at once. Then there is a pause, which doubles each time, and an observation.
	maxRounds = 32
)

// strangers is what is known of clients of other libraries that want the same lock.
type strangers struct {
	turns  int       // times that a node was observed in the hands of another of them than before
	last   time.Time // the last of these times
	rounds int       // of ours that have followed each other at once
}

// tookTurn records that one of them holds a node that another one held before.
func (s *strangers) tookTurn(now time.Time) {
	if s.calm(now) {
		s.turns = 0
	}
	s.turns, s.last = s.turns+1, now
}

func (s *strangers) calm(now time.Time) bool { return now.Sub(s.last) > calmAfter }

// contended reports whether they leave a call that waits no other way than to poll as well.
func (v *view) contended(now time.Time) bool {
	return v.strangers.turns >= manyTurns*len(v.nodes) && !v.strangers.calm(now)
}

// insists reports whether a round that was lost is followed by another one at once.
func (v *view) insists(now time.Time) bool {
	if !v.contended(now) || v.strangers.rounds == maxRounds-1 {
		v.strangers.rounds = 0
		return false
	}
	v.strangers.rounds++
	return true
}
