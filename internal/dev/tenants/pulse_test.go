package tenants_test

import (
	"runtime"
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

const (
	slackHeap      = 64 << 20 // what buffers for messages and values may take
	slackGoroutine = 64
	mostSystem     = 768 << 20 // the most that was ever asked of the system
)

// sample is what the process holds after an episode.
type sample struct {
	goroutines   int
	heap, system uint64
}

// sample compares what the process holds with what it held after the first episodes.
func (w *world) sample() {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s := sample{runtime.NumGoroutine(), m.HeapAlloc, m.Sys}
	w.samples = append(w.samples, s)
	first := w.samples[min(2, len(w.samples)-1)]
	if s.heap > first.heap+first.heap/2+slackHeap || s.goroutines > first.goroutines+slackGoroutine || s.system > mostSystem {
		w.failed("after %s: %d goroutines, heap of %d MiB, %d MiB of the system; at first %d, %d MiB",
			time.Since(w.began).Round(time.Second), s.goroutines, s.heap>>20, s.system>>20, first.goroutines, first.heap>>20)
	}
}
