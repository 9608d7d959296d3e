package web

import "time"

// For the tests of texts.
var (
	Remaining = remaining
	Latency   = latency
	Series    = series
)

// Spark draws latencies to a scale.
func Spark(latencies []time.Duration, full time.Duration) (lines []string, misses []int, label string) {
	s := spark(latencies, full)
	return s.Lines, s.Misses, s.Label
}

// The bounds.
const (
	MaxEvents  = maxEvents
	MaxPasts   = maxPasts
	PerPage    = perPage
	MaxBody    = maxBody
	MaxLines   = maxLines
	MaxSharers = maxSharers
)
