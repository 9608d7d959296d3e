package web

import (
	"fmt"
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
	text := fmt.Sprintf("%d keys", report.Keys)
	switch {
	case report.Keys == 1:
		text = "1 key"
	case report.Keys == 0 && report.Err != nil:
		return ""
	}
	if report.Err != nil {
		return "at least " + text
	}
	return text
}

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
