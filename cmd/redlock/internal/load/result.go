package load

import (
	"cmp"
	"math"
	"slices"
	"time"

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
