package load

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/quorumlock/quorumlock/internal/benchreport"
)

// latencyNames are the latencies of a result.
var latencyNames = []string{benchreport.Acquire, benchreport.Release, benchreport.Cycle, benchreport.Service, benchreport.Queueing, benchreport.Refusal}

// newResult returns what was recorded.
func newResult(p *phase, elapsed time.Duration) *benchreport.Result {
	r := &benchreport.Result{
		Elapsed: elapsed.Seconds(), Asked: p.Rate, Corrected: p.Rate > 0,
		Failures: []benchreport.Failure{}, Throughput: []benchreport.Bucket{},
	}
	due := int64(math.Ceil(elapsed.Seconds() * p.Rate))
	r.NotBegun = max(0, due-p.begun.Load())
	for _, name := range latencyNames {
		r.Latency = append(r.Latency, summary(name, p.latencies[name]))
	}
	for _, f := range p.failures {
		r.Failures = append(r.Failures, *f)
	}
	slices.SortFunc(r.Failures, func(a, b benchreport.Failure) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Kind, b.Kind))
	})
	for i := range parts {
		from := time.Duration(i) * p.length / parts
		if width := min(p.length/parts, elapsed-from).Seconds(); width > 0 {
			r.Throughput = append(r.Throughput, benchreport.Bucket{
				From: from.Seconds(), Length: width,
				CyclesPer: float64(p.done[i]) / width, FailedPer: float64(p.failed[i]) / width,
			})
		}
	}
	r.Cycles = r.Of(benchreport.Cycle).Count
	r.CyclesPer = float64(r.Cycles) / max(r.Elapsed, time.Nanosecond.Seconds())
	if p.Votes != nil {
		p.Votes.addTo(r)
	}
	return r
}

// longest is the longest latency that is kept. Longer ones count as this.
const longest = 10 * time.Minute

// newHistogram returns one that counts from 1 µs on, with an error below 1 %.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(time.Microsecond), int64(longest), 2)
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(int64(min(max(d, 0), longest))) // fails only for values that are out of range
}

// perNine is how many points of a curve lie between two nines.
const perNine = 10

// summary returns the percentiles of a histogram.
func summary(what string, h *hdrhistogram.Histogram) benchreport.Latency {
	l := benchreport.Latency{What: what, Count: h.TotalCount(), Curve: []benchreport.Point{}}
	if l.Count == 0 {
		return l
	}
	at := func(percentile float64) float64 { return micros(h.ValueAtPercentile(percentile)) }
	l.P50, l.P90, l.P99, l.P999 = at(50), at(90), at(99), at(99.9)
	l.Mean, l.Max = h.Mean()/1e3, micros(h.Max())
	for i := 0; float64(i)/perNine <= math.Log10(float64(l.Count)); i++ {
		percentile := 100 - math.Pow(10, 2-float64(i)/perNine)
		l.Curve = append(l.Curve, benchreport.Point{Percentile: percentile, Micros: at(percentile)})
	}
	return l
}

func micros(ns int64) float64 { return float64(ns) / 1e3 }
