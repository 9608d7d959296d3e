package promredlock_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/promredlock"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

func TestWithNames_LabelsMetricsOfLocks(t *testing.T) {
	c := promredlock.New(promredlock.WithNameLabel(func(name string) string {
		kind, _, _ := strings.Cut(name, "-")
		return kind
	}))
	for _, name := range []string{"invoice-1", "invoice-2", "report-1"} {
		c.Observe(event.Acquire{Kind: "exclusive", Op: event.OpAcquire, Name: name, Rounds: 1})
	}
	c.Observe(event.End{Kind: "exclusive", Name: "invoice-2", Err: redlock.ErrGone})
	compare(t, c, `
		acquire_duration_seconds_sum{call="lock",kind="exclusive",name="invoice",outcome="acquired"} 0
		acquire_duration_seconds_count{call="lock",kind="exclusive",name="invoice",outcome="acquired"} 2
		acquire_duration_seconds_sum{call="lock",kind="exclusive",name="report",outcome="acquired"} 0
		acquire_duration_seconds_count{call="lock",kind="exclusive",name="report",outcome="acquired"} 1
		acquire_wait_seconds_sum{kind="exclusive",name="invoice",outcome="acquired"} 0
		acquire_wait_seconds_count{kind="exclusive",name="invoice",outcome="acquired"} 2
		acquire_wait_seconds_sum{kind="exclusive",name="report",outcome="acquired"} 0
		acquire_wait_seconds_count{kind="exclusive",name="report",outcome="acquired"} 1
		acquire_rounds_sum{kind="exclusive",name="invoice",outcome="acquired"} 2
		acquire_rounds_count{kind="exclusive",name="invoice",outcome="acquired"} 2
		acquire_rounds_sum{kind="exclusive",name="report",outcome="acquired"} 1
		acquire_rounds_count{kind="exclusive",name="report",outcome="acquired"} 1
		lock_held{kind="exclusive",name="invoice"} 1
		lock_held{kind="exclusive",name="report"} 1
		lock_hold_duration_seconds_sum{end="gone",kind="exclusive",name="invoice"} 0
		lock_hold_duration_seconds_count{end="gone",kind="exclusive",name="invoice"} 1
		lock_losses_total{end="gone",kind="exclusive",name="invoice"} 1
		lock_losses_total{end="expired",kind="exclusive",name="invoice"} 0
		lock_losses_total{end="gone",kind="exclusive",name="report"} 0
		lock_losses_total{end="expired",kind="exclusive",name="report"} 0
	`, "acquire_duration_seconds", "acquire_wait_seconds", "acquire_rounds", "lock_held", "lock_hold_duration_seconds", "lock_losses_total")
}

func TestWithBuckets_SetsTheBucketsOfDurations(t *testing.T) {
	c := promredlock.New(promredlock.WithBuckets(1, 0.5, 1))
	c.Observe(event.Unlock{Took: 600 * time.Millisecond})
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
		# HELP redlock_unlock_duration_seconds Duration of calls of Unlock.
		# TYPE redlock_unlock_duration_seconds histogram
		redlock_unlock_duration_seconds_bucket{outcome="released",le="0.5"} 0
		redlock_unlock_duration_seconds_bucket{outcome="released",le="1"} 1
		redlock_unlock_duration_seconds_bucket{outcome="released",le="+Inf"} 1
		redlock_unlock_duration_seconds_sum{outcome="released"} 0.6
		redlock_unlock_duration_seconds_count{outcome="released"} 1
	`), "redlock_unlock_duration_seconds"))
}

func TestWithNativeHistograms_AddsNativeHistograms(t *testing.T) {
	for factor, want := range map[float64]bool{0: false, 1: false, 1.1: true} {
		c := promredlock.New(promredlock.WithNativeHistograms(factor))
		c.Observe(event.Unlock{Took: time.Second})
		registry := prometheus.NewRegistry()
		registry.MustRegister(c)
		families, err := registry.Gather()
		require.NoError(t, err)
		i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "redlock_unlock_duration_seconds" })
		h := families[i].GetMetric()[0].GetHistogram()
		require.Len(t, h.GetBucket(), 19)
		require.Equal(t, want, len(h.GetPositiveSpan()) > 0)
	}
}

// A name may come from a request, and an address is a path on some machines.
func TestWithNames_WhatIsNotUTF8IsReplaced(t *testing.T) {
	c := promredlock.New(promredlock.WithNameLabel(func(lock string) string { return lock }))
	c.Observe(event.Acquire{Kind: "exclusive", Op: event.OpAttach, Name: "a\xff", Took: time.Second})
	c.Observe(event.NodeUp{Addr: "/b\xff"})
	compare(t, c, "lock_held{kind=\"exclusive\",name=\"a\uFFFD\"} 1", "lock_held")
	compare(t, c, "node_up{node=\"/b\uFFFD\"} 1", "node_up")
}

func TestNew_IgnoresANilOption(t *testing.T) {
	c := promredlock.New(nil, promredlock.WithNameLabel(func(string) string { return "all" }), nil)
	c.Observe(event.Acquire{Kind: "exclusive", Op: event.OpAttach, Name: "a"})
	compare(t, c, `lock_held{kind="exclusive",name="all"} 1`, "lock_held")
}
