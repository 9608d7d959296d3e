package lock

import "time"

// Clients of other libraries do not wait in a queue and take no turns. A client that polls without a pause takes the
// lock the moment it is free. A waiter that the release wakes comes a round trip too late each time. Against such
// clients a waiter polls as well. See docs/adr/0006-waiting.md.
const (
	// manyTurns is how many changes from one such client to another are observed, on average per node, before a waiter
	// polls as well.
	manyTurns = 4
	// calmAfter is how long after the last such change these clients are thought to be gone.
	calmAfter = 30 * time.Second
	// maxRounds is how many rounds follow each other at once. Then there is a pause, and an observation. The pause doubles
	// each time.
	maxRounds = 32
)

// strangers is the record of clients of other libraries that want the same lock.
type strangers struct {
	turns  int       // how many times a node was observed to change from one of these clients to another
	last   time.Time // when the last such change was observed
	rounds int       // how many rounds of this process have followed a lost one at once
}

// tookTurn records that a node has changed from one of these clients to another.
func (s *strangers) tookTurn(now time.Time) {
	if s.calm(now) {
		s.turns = 0
	}
	s.turns, s.last = s.turns+1, now
}

func (s *strangers) calm(now time.Time) bool { return now.Sub(s.last) > calmAfter }

// contended reports whether these clients contend for the lock, so that a call that waits has to poll as well.
func (v *view) contended(now time.Time) bool {
	return v.strangers.turns >= manyTurns*len(v.nodes) && !v.strangers.calm(now)
}

// insists reports whether another round follows a lost one at once. It counts these rounds.
func (v *view) insists(now time.Time) bool {
	if !v.contended(now) || v.strangers.rounds == maxRounds-1 {
		v.strangers.rounds = 0
		return false
	}
	v.strangers.rounds++
	return true
}
