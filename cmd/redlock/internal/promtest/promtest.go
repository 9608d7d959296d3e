// Package promtest reads metrics in tests, as Prometheus does.
package promtest

import (
	"bytes"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Promtool returns the path of promtool, and skips the test if it is not installed.
func Promtool(tb testing.TB) string {
	tb.Helper()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		tb.Skip("promtool is not installed (make setup)")
	}
	return promtool
}

// Check has promtool read metrics, which must have no complaint.
func Check(tb testing.TB, text string) {
	tb.Helper()
	check := exec.Command(Promtool(tb), "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		tb.Fatalf("promtool: %v\n%s\n%s", err, out, text)
	}
}

// Samples returns the samples of a text, by their names and labels.
func Samples(tb testing.TB, text string) map[string]float64 {
	tb.Helper()
	found := map[string]float64{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		if at < 0 {
			tb.Fatalf("no sample: %q", line)
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if _, twice := found[line[:at]]; err != nil || twice {
			tb.Fatalf("no sample, or one that was there before: %q", line)
		}
		found[line[:at]] = value
	}
	return found
}
