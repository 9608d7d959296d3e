package clock

import "time"

// NewStopwatch returns the elapsed method of a stopwatch that reads the given clocks.
func NewStopwatch(sinceBoot func() (time.Duration, bool), sinceStart func() (mono, wall time.Duration)) func() time.Duration {
	return newStopwatch(sinceBoot, sinceStart).elapsed
}
