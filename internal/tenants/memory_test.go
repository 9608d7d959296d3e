package tenants_test

import (
	"runtime"
	"time"
)

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
