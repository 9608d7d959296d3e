package tenants_test

import (
	"sync"
	"sync/atomic"
	"time"
)

// stall is how long a PING may take, or a goroutine may not run, before the machine is to blame for what fails.
const stall = timeout / 5

// pulse watches whether the machine keeps up, with a client of its own for each server.
type pulse struct {
	last    [size]atomic.Pointer[time.Time] // when a server, or this process, was late last
	beating sync.WaitGroup
}

// beat pings server i again and again until the end. It does not blame a server that is in trouble.
func (w *world) beat(i int) {
	c := w.newTenant()
	began := time.Now()
	w.pulse.last[i].Store(&began)
	w.pulse.beating.Go(func() {
		for last := time.Now(); w.ctx.Err() == nil; {
			if w.weather.Load().spared(i) {
				_, _ = c.do(i, "PING")
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-w.ctx.Done():
			}
			now := time.Now()
			if now.Sub(last) > stall {
				w.stalls.Add(1)
				w.pulse.last[i].Store(&now)
			}
			last = now
		}
	})
}

// stalled reports whether the machine did not keep up at some time since.
func (w *world) stalled(since time.Time) bool {
	for i := range size {
		if w.pulse.last[i].Load().After(since.Add(-stall)) {
			return true
		}
	}
	return false
}
