package web

import (
	"fmt"
	"strings"
	"time"
)

// The size of a sparkline, in its own units: two for each latency.
const (
	sparkWidth  = 2 * maxLatencies
	sparkHeight = 28
)

// sparkline is the latencies of a node as a line, the newest at its right end.
type sparkline struct {
	Lines  []string // the points of polylines
	Misses []int    // where there was no answer
	Peak   string   // the longest
	Label  string
}

// scale returns what the height of all sparklines stands for: the longest latency of any node, and a millisecond at least.
func scale(nodes []health) time.Duration {
	most := time.Millisecond
	for i := range nodes {
		for _, l := range nodes[i].Latencies {
			most = max(most, l)
		}
	}
	return most
}

// spark draws latencies. The height stands for full.
func spark(latencies []time.Duration, full time.Duration) (s sparkline) {
	least, most, misses := noAnswer, time.Duration(0), 0
	for _, l := range latencies {
		switch {
		case l == noAnswer:
			misses++
		case least == noAnswer || l < least:
			least = l
		}
		most = max(most, l)
	}
	var points []string
	end := func() {
		if len(points) == 1 { // a line has two ends
			points = append(points, points[0])
		}
		if points != nil {
			s.Lines = append(s.Lines, strings.Join(points, " "))
		}
		points = nil
	}
	for i, l := range latencies {
		x := sparkWidth - 2*(len(latencies)-i) + 1
		if l == noAnswer {
			s.Misses = append(s.Misses, x)
			end()
			continue
		}
		y := float64(sparkHeight-2) * (1 - float64(l)/float64(full))
		points = append(points, fmt.Sprintf("%d,%.1f", x, y+1))
	}
	end()
	s.Label = fmt.Sprintf("No answer in the last %d tries.", len(latencies))
	if least != noAnswer {
		s.Peak = latency(most)
		s.Label = fmt.Sprintf("Latencies of the last %d tries: from %s to %s, %d without an answer.", len(latencies), latency(least), latency(most), misses)
	}
	return s
}
