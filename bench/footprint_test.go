package bench_test

import (
	"runtime"
	"slices"
	"testing"
	"time"
)

// lookInterval is the time between two footprints.
const lookInterval = 100 * time.Millisecond

// footprint is what the process holds at one moment.
type footprint struct {
	heap       float64 // KB that are still in use right after a collection
	goroutines float64
}

type footprints []footprint

// newFootprints returns a list that need not grow, so that it does not count as growth itself.
func newFootprints() footprints { return make(footprints, 0, 1<<12) }

func (f *footprints) look() {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	*f = append(*f, footprint{heap: float64(m.HeapAlloc) / 1024, goroutines: float64(runtime.NumGoroutine())})
}

// report compares the second quarter with the last. Both are medians: single looks differ with what is under way.
func (f footprints) report(b *testing.B) {
	quarter := len(f) / 4
	early, late := f[quarter:max(2*quarter, quarter+1)], f[3*quarter:]
	heap := func(f footprint) float64 { return f.heap }
	goroutines := func(f footprint) float64 { return f.goroutines }
	b.ReportMetric(late.median(heap), "heap-KB")
	b.ReportMetric(late.median(heap)-early.median(heap), "heap-growth-KB")
	b.ReportMetric(late.median(goroutines), "goroutines")
	b.ReportMetric(late.median(goroutines)-early.median(goroutines), "goroutine-growth")
}

func (f footprints) median(of func(footprint) float64) float64 {
	values := make([]float64, len(f))
	for i := range f {
		values[i] = of(f[i])
	}
	slices.Sort(values)
	return values[len(values)/2]
}
