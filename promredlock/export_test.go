package promredlock

import "time"

// SetClock sets the clock for quarantines.
func (c *Collector) SetClock(now func() time.Time) { c.now = now }
