package clock

import (
	"sync/atomic"
	"time"
)

// stopwatch measures the time since it was made, suspend included. It is safe for concurrent use.
type stopwatch struct {
	sinceBoot  func() (time.Duration, bool)      // counts suspend; false if it cannot be read
	sinceStart func() (mono, wall time.Duration) // since the stopwatch was made; wall may be set, mono may miss suspend
	boot       time.Duration                     // sinceBoot when the stopwatch was made
	refused    atomic.Bool                       // sinceBoot has failed once and is not asked again
	highest    atomic.Int64                      // highest reading by sinceBoot
	ahead      atomic.Int64                      // most that any other clock was ahead of mono since sinceBoot failed
}

func newStopwatch(sinceBoot func() (time.Duration, bool), sinceStart func() (mono, wall time.Duration)) *stopwatch {
	s := &stopwatch{sinceBoot: sinceBoot, sinceStart: sinceStart}
	boot, ok := sinceBoot()
	s.boot = boot
	s.refused.Store(!ok)
	return s
}

// elapsed returns the time since s was made, never less than it has returned before.
//
// Without sinceBoot that is mono plus the most that wall was ever ahead of it. It equals the larger of the two until wall
// is set back; from then on it runs with mono, where holding the highest reading would stand still until wall has
// caught up and keep leases alive that are over.
func (s *stopwatch) elapsed() time.Duration {
	if !s.refused.Load() {
		if boot, ok := s.sinceBoot(); ok {
			return raise(&s.highest, boot-s.boot)
		}
		s.refused.Store(true)
	}
	mono, wall := s.sinceStart()
	return mono + raise(&s.ahead, max(wall, time.Duration(s.highest.Load()))-mono)
}

// raise sets v to d unless it is higher already, and returns what it then holds.
func raise(v *atomic.Int64, d time.Duration) time.Duration {
	for {
		old := v.Load()
		if old >= int64(d) {
			return time.Duration(old)
		}
		if v.CompareAndSwap(old, int64(d)) {
			return d
		}
	}
}
