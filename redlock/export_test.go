package redlock

import "time"

// WithWallClock sets the clock that proposals to counters come from.
func WithWallClock(now func() time.Time) Option {
	return option(func(c *config) { c.wall = now })
}
