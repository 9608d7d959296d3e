package promredlock_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

// compare checks all series of the metrics that are named. It ignores histograms without an observation.
func compare(t *testing.T, c prometheus.Collector, want string, metrics ...string) {
	t.Helper()
	for i := range metrics {
		metrics[i] = "redlock_" + metrics[i]
	}
	var lines []string
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, "redlock_"+line)
		}
	}
	var got []string
	for _, sample := range samples(t, c) {
		name, _, _ := strings.Cut(sample, "{")
		name, _, _ = strings.Cut(name, " ")
		for _, metric := range metrics {
			if name == metric || name == metric+"_sum" || name == metric+"_count" {
				got = append(got, sample)
			}
		}
	}
	slices.Sort(lines)
	slices.Sort(got)
	require.Equal(t, strings.Join(lines, "\n"), strings.Join(got, "\n"))
}

// samples returns the series with their values as text, of histograms only sums and counts.
func samples(t *testing.T, c prometheus.Collector) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	var all []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var pairs []string
			for _, pair := range metric.GetLabel() {
				pairs = append(pairs, fmt.Sprintf("%s=%q", pair.GetName(), pair.GetValue()))
			}
			of := ""
			if len(pairs) > 0 {
				of = "{" + strings.Join(pairs, ",") + "}"
			}
			add := func(suffix string, value float64) {
				all = append(all, fmt.Sprintf("%s%s%s %.6g", family.GetName(), suffix, of, value))
			}
			switch family.GetType() {
			case dto.MetricType_HISTOGRAM:
				if metric.GetHistogram().GetSampleCount() == 0 {
					continue
				}
				add("_sum", metric.GetHistogram().GetSampleSum())
				add("_count", float64(metric.GetHistogram().GetSampleCount()))
			case dto.MetricType_COUNTER:
				add("", metric.GetCounter().GetValue())
			default:
				add("", metric.GetGauge().GetValue())
			}
		}
	}
	return all
}
