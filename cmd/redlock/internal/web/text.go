package web

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	maxText  = 300 // characters of a name, a text or an error that are shown
	maxToken = 20  // characters of a token in a table
)

// errorText returns the text of an error without the names of packages.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return display.Clipped(display.Error(err), maxText)
}

// keys returns how many keys a node has listed.
func keys(report *survey.NodeReport) string {
	text := display.Counted(report.Keys, "key")
	switch {
	case report.Err == nil:
		return text
	case report.Keys == 0:
		return ""
	}
	return "at least " + text
}

// piece is a part of a text.
type piece struct {
	Text  string
	Whole bool // it is not broken over lines
}

// stamp is a time as the metadata of redlock run has it, with what may stand behind it.
var stamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)?[,;.)]?`)

// pieces cuts the times out of a text.
func pieces(text string) (all []piece) {
	from := 0
	for _, at := range stamp.FindAllStringIndex(text, -1) {
		all = append(all, piece{text[from:at[0]], false}, piece{text[at[0]:at[1]], true})
		from = at[1]
	}
	return append(all, piece{text[from:], false})
}

// steps cuts a name behind each slash, where it may be broken over lines.
func steps(name string) []string { return strings.SplitAfter(name, "/") }

// clock formats a time of day.
func clock(at time.Time) string { return at.Format("15:04:05") }

// remaining formats a TTL, in whole seconds.
func remaining(ttl time.Duration) string {
	switch {
	case ttl == redlock.NoLimit:
		return "never expires"
	case ttl <= 0:
		return "over"
	case ttl < time.Second:
		return "under 1 s"
	}
	return span(ttl)
}

// span formats a time of a second or more by its two largest units.
func span(d time.Duration) string {
	seconds := int64(d / time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", seconds)
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", seconds/60, seconds%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %02d min", seconds/3600, seconds/60%60)
	}
	return fmt.Sprintf("%d d %02d h", seconds/86400, seconds/3600%24)
}

// latency formats the time of an answer with about three digits.
func latency(d time.Duration) string {
	ms := d.Seconds() * 1e3
	switch {
	case d < 0:
		return "no answer"
	case ms < 10:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 100:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}

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
