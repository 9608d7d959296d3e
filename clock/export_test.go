package clock

import "time"

// NewSystem returns the elapsed method of a clock that reads the given ones.
func NewSystem(sinceBoot func() (time.Duration, bool), sinceStart func() (mono, wall time.Duration)) func() time.Duration {
	return newSystem(time.Time{}, 10*time.Millisecond, sinceBoot, sinceStart).elapsed
}
