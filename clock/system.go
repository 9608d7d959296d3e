package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// system measures the time since it was made, suspend included.
type system struct {
	start      time.Time                         // wall time, without a monotonic part
	sinceBoot  func() (time.Duration, bool)      // counts suspend; false if it cannot be read
	sinceStart func() (mono, wall time.Duration) // somebody may set wall, and mono may not count suspend
	boot       time.Duration                     // sinceBoot at start
	refused    atomic.Bool                       // sinceBoot has failed once and is not asked again
	carry      time.Duration                     // for how long mono may continue a reading by sinceBoot, see carried

	mu      sync.Mutex
	last    reading
	highest time.Duration // highest reading by sinceBoot, or carried on
	ahead   time.Duration // most that any other clock was ahead of mono since sinceBoot failed
}

// reading is the result of sinceBoot at an instant of mono. The zero value means that there is none.
type reading struct {
	boot, mono time.Duration
	offset     time.Duration // how far wall is ahead of mono
	known      bool
}

// exact is the tolerance of carried, which continues a reading by sinceBoot with mono. A reading is carried on only if
// it took exact at most. Since then, wall must have moved against mono by exact at most.
const exact = 5 * time.Microsecond

// System returns a clock of this machine that counts suspend and never goes backwards.
//
// On Linux it reads CLOCK_BOOTTIME. That takes a system call, so a reading is carried on for some milliseconds. On
// macOS it reads the C library's CLOCK_MONOTONIC, which counts sleep there. On other systems it compares Go's monotonic
// clock with the wall clock, and believes the one by which more time has gone by. It does the same if the operating
// system refuses the reading. So a wall clock that is set forward ends leases early rather than late. Only there may a
// suspend go uncounted, by as much as the wall clock was set back.
//
// Readings start from the wall time of the call, and each call has its own start. They look like wall time, but do not
// follow the wall clock when it is set.
//
// The timers come from Go's runtime. They do not count suspend everywhere and may fire late after a resume. So callers
// look at Now, not only at the timer.
//
// In a testing/synctest bubble the timers use the time of the bubble, but Now does not always use it. A
// Cluster of package redlock/redlocktest has a clock that does.
func System() Clock {
	start := time.Now()
	wallStart := start.Round(0)
	return newSystem(wallStart, carry, sinceBoot, func() (mono, wall time.Duration) {
		now := time.Now()
		return now.Sub(start), now.Round(0).Sub(wallStart)
	})
}

// newSystem makes a system from its sources of time, for System and for tests.
func newSystem(
	start time.Time, carry time.Duration,
	sinceBoot func() (time.Duration, bool), sinceStart func() (mono, wall time.Duration),
) *system {
	boot, ok := sinceBoot()
	s := &system{start: start, sinceBoot: sinceBoot, sinceStart: sinceStart, boot: boot, carry: carry}
	s.refused.Store(!ok)
	return s
}

func (s *system) Now() time.Time { return s.start.Add(s.elapsed()) }

func (s *system) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }

// elapsed returns the time since start, never less than it has returned before.
//
// Without sinceBoot, elapsed returns mono plus the largest lead over mono that it has seen since sinceBoot failed. The
// lead is that of wall, or of the highest reading by sinceBoot. After wall is set back, elapsed goes on at the rate of
// mono. If it held its highest reading instead, it would stand still until wall caught up. Leases that are over would
// then seem alive.
func (s *system) elapsed() time.Duration {
	mono, wall := s.sinceStart()
	if !s.refused.Load() {
		if carried, ok := s.carried(mono, wall); ok {
			return carried
		}
		if boot, ok := s.sinceBoot(); ok {
			after, _ := s.sinceStart()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.last = reading{boot: boot - s.boot, mono: mono, offset: wall - mono, known: after-mono <= exact}
			s.highest = max(s.highest, s.last.boot)
			return s.highest
		}
		s.refused.Store(true)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = max(s.ahead, max(wall, s.highest)-mono)
	return mono + s.ahead
}

// carried returns the last reading by sinceBoot, plus the time that has gone by on mono since then. ok is false if
// there is no such reading, if it is too old, or if a suspend may have come between. Linux adds a suspend to the wall
// clock in the step that adds it to the boot clock. Otherwise all three clocks run at one rate. So a suspend goes
// unnoticed only if the wall clock is set back by the length of the suspend, and both happen within one carry.
func (s *system) carried(mono, wall time.Duration) (boot time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone, moved := mono-s.last.mono, wall-mono-s.last.offset
	if !s.last.known || gone >= s.carry || moved > exact || -moved > exact {
		return 0, false
	}
	s.highest = max(s.highest, s.last.boot+gone)
	return s.highest, true
}
