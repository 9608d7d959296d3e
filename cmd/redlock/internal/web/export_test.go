package web

import "time"

// For the tests of texts and of the sparkline.
var (
	Remaining = remaining
	Latency   = latency
)

// Spark draws latencies.
func Spark(latencies []time.Duration) (lines []string, misses []int, label string) {
	s := spark(latencies)
	return s.Lines, s.Misses, s.Label
}

// The bounds.
const (
	MaxEvents  = maxEvents
	MaxPasts   = maxPasts
	MaxRows    = maxRows
	MaxStreams = maxStreams
	MaxBody    = maxBody
	MaxLines   = maxLines
)
