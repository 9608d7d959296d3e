package clock

import "time"

type system struct {
	start time.Time // wall time, without a monotonic part
	watch *stopwatch
}

// System returns a clock of this machine that counts suspend and never goes backwards.
//
// It reads CLOCK_BOOTTIME on Linux and the C library's CLOCK_MONOTONIC on macOS, where that clock counts sleep. On other
// systems, or if the operating system refuses the reading, it goes by whichever of Go's monotonic clock and the wall
// clock says that more time has gone by, so a wall clock that is set forward ends leases early rather than late; only
// there may a suspend go uncounted, as far as the wall clock was set back.
//
// Readings start from the wall time of the call, and each call has its own start: they look like wall time, but do not
// follow the wall clock when it is set.
//
// Timers are those of Go's runtime, which do not count suspend everywhere and may fire late after a resume: callers look
// at Now, not only at the timer.
//
// In a testing/synctest bubble Now keeps real time while timers keep the bubble's; use clocktest there.
func System() Clock {
	start := time.Now()
	wallStart := start.Round(0)
	return &system{
		start: wallStart,
		watch: newStopwatch(sinceBoot, func() (mono, wall time.Duration) {
			now := time.Now()
			return now.Sub(start), now.Round(0).Sub(wallStart)
		}),
	}
}

func (s *system) Now() time.Time { return s.start.Add(s.watch.elapsed()) }

func (s *system) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
