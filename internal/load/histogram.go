package load

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are kept from 1 µs to 10 minutes, with an error below 1 %. What is longer
// counts as 10 minutes.
const (
	shortest = time.Microsecond
	longest  = 10 * time.Minute
	digits   = 2
)

// histogram is one of latencies. It must not be used by two goroutines at once.
type histogram struct{ hdr *hdrhistogram.Histogram }

func newHistogram() *histogram {
	return &histogram{hdrhistogram.New(int64(shortest), int64(longest), digits)}
}

func (h *histogram) record(d time.Duration) {
	_ = h.hdr.RecordValue(int64(min(max(d, 0), longest))) // fails only for what is out of range
}

func (h *histogram) merge(from *histogram) {
	if from != nil {
		h.hdr.Merge(from.hdr)
	}
}

// perNine is how many points of a curve lie between two nines.
const perNine = 10

// latency sums the histogram up.
func (h *histogram) latency(what string) Latency {
	l := Latency{What: what, Count: h.hdr.TotalCount(), Curve: []Point{}}
	if l.Count == 0 {
		return l
	}
	at := h.hdr.ValueAtPercentilesSlice([]float64{50, 90, 99, 99.9})
	l.P50, l.P90, l.P99, l.P999 = micros(at[0]), micros(at[1]), micros(at[2]), micros(at[3])
	l.Mean, l.Max = h.hdr.Mean()/float64(time.Microsecond), micros(h.hdr.Max())
	for i := 0; float64(i)/perNine <= math.Log10(float64(l.Count)); i++ {
		percentile := 100 - math.Pow(10, 2-float64(i)/perNine)
		l.Curve = append(l.Curve, Point{percentile, micros(h.hdr.ValueAtPercentile(percentile))})
	}
	return l
}

func micros(ns int64) float64 { return float64(ns) / float64(time.Microsecond) }

// series counts events over time.
type series struct {
	width  time.Duration // of one bucket
	counts []int64
}

// mostBuckets is into how many a measurement is divided at the most.
const mostBuckets = 60

func newSeries(length time.Duration) series {
	width := bucketWidth(length)
	return series{width, make([]int64, (length+width-1)/width)}
}

// bucketWidth is 1, 2 or 5 times a power of ten of milliseconds, from 10 ms.
func bucketWidth(length time.Duration) time.Duration {
	for power := 10 * time.Millisecond; ; power *= 10 {
		for _, factor := range []time.Duration{1, 2, 5} {
			if width := factor * power; length <= mostBuckets*width {
				return width
			}
		}
	}
}

// add counts an event, unless it comes after the end.
func (s *series) add(at time.Duration) {
	if i := int(at / s.width); i < len(s.counts) {
		s.counts[i]++
	}
}
