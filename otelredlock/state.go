package otelredlock

import (
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/quorumlock/redlock/event"
)

// keepEnded is of how many locks that have ended the acquire is kept, for the links of what comes afterwards: an Unlock ends
// after the lock.
const keepEnded = 256

// keepMost is of how many calls under way, and of how many held locks, something is kept. Only events whose kinds do not go together
// reach it, or more held locks than programs have.
const keepMost = 1 << 17

// state is what is kept of calls under way and of locks that are held. Numbers of calls are those of the program, so that
// Lockers may share it.
//
// An entry for a call is made by an event that is not late, so that the event of the call's end comes, and removes it, or is
// dropped, and then forget removes all. An end of a kind that is not wanted never comes: keepMost is for that.
type state struct {
	mu     sync.Mutex
	calls  map[uint64]*kept[event.Event] // of each its rounds
	held   map[uint64]*held              // by the call that acquired it
	missed time.Time                     // of calls that began before, events may have been missed
	ended  map[uint64]trace.SpanContext  // of locks that have ended, the acquire
	order  []uint64                      // the keys of ended, as a ring
	oldest int                           // of order
}

// held is a lock that is held.
type held struct {
	lock     lockKey
	acquire  trace.SpanContext
	renewals kept[renewal]
	failed   int
}

// renewal is what is kept of a renewal.
type renewal struct {
	at             time.Time // of its end
	took           time.Duration
	left, validity time.Duration
	err            error
}

func newState() *state {
	return &state{calls: map[uint64]*kept[event.Event]{}, held: map[uint64]*held{}, ended: map[uint64]trace.SpanContext{}}
}

// add keeps an event of a call.
func (s *state) add(call uint64, e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.calls[call]
	if k == nil {
		if len(s.calls) == keepMost {
			clear(s.calls)
			s.missed = time.Now()
		}
		k = &kept[event.Event]{}
		s.calls[call] = k
	}
	k.add(e)
}

// addToKnown is add for an event that may be late, behind one that was not.
func (s *state) addToKnown(call uint64, e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.calls[call]; k != nil {
		k.add(e)
	}
}

// end returns the events of a call that has ended; nil means none.
func (s *state) end(call uint64) *kept[event.Event] {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.calls[call]
	delete(s.calls, call)
	return k
}

// hold keeps a lock. If there are too many, the others are forgotten: it returns what forget does.
func (s *state) hold(call uint64, h held) (forgotten map[lockKey]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) == keepMost {
		forgotten = s.forgetLocked()
	}
	s.held[call] = &h
	return forgotten
}

func (s *state) holds(call uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[call] != nil
}

// renewed keeps a renewal of a lock.
func (s *state) renewed(e event.Extend) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[e.Lock]
	if h == nil {
		return
	}
	h.renewals.add(renewal{e.Start.Add(e.Took), e.Took, e.Left, e.Validity, e.Err})
	if e.Err != nil {
		h.failed++
	}
}

// release returns what is known of a lock that has ended.
func (s *state) release(call uint64) (h held, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.held[call]
	if found == nil {
		return held{}, false
	}
	delete(s.held, call)
	if found.acquire.IsSampled() {
		if len(s.order) < keepEnded {
			s.order = append(s.order, call)
		} else {
			delete(s.ended, s.order[s.oldest])
			s.order[s.oldest] = call
			s.oldest = (s.oldest + 1) % keepEnded
		}
		s.ended[call] = found.acquire
	}
	return *found, true
}

// acquireOf returns the span of the acquire of a lock, if it is known.
func (s *state) acquireOf(call uint64) trace.SpanContext {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.held[call]; h != nil {
		return h.acquire
	}
	return s.ended[call]
}

// forget forgets all calls and locks, as their ends may have been missed. It returns how many locks of each kind and name were held.
func (s *state) forget() map[lockKey]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forgetLocked()
}

func (s *state) forgetLocked() map[lockKey]int {
	clear(s.calls)
	forgotten := map[lockKey]int{}
	for _, h := range s.held {
		forgotten[h.lock]++
	}
	clear(s.held)
	s.missed = time.Now()
	return forgotten
}

// incomplete reports whether events of a call may have been missed.
func (s *state) incomplete(began time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return began.Before(s.missed)
}
