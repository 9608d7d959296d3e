package client

import (
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// jumpingClock is the clock of leases on a machine that was suspended: when it goes on, time has passed of which timers know nothing.
type jumpingClock struct {
	system clock.Clock
	ahead  atomic.Int64
}

func (c *jumpingClock) Now() time.Time { return c.system.Now().Add(time.Duration(c.ahead.Load())) }

func (c *jumpingClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return c.system.AfterFunc(d, f)
}

func (c *jumpingClock) jump(by time.Duration) { c.ahead.Add(int64(by)) }
