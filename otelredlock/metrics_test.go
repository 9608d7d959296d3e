package otelredlock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	promclient "github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/otelredlock"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

func TestMetrics_OfARealWorkload(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t)
	servers := testredis.Real(t, 3)
	contend(m, servers)
	m.eventually("redlock.lock.hold.duration", "end=released kind=exclusive", 2)
	m.eventually("redlock.unlock.duration", "outcome=released", 2)
	require.EqualValues(t, 2, m.values("redlock.acquire.duration")["call=lock kind=exclusive outcome=acquired"])
	require.EqualValues(t, 2, m.values("redlock.acquire.wait")["kind=exclusive outcome=acquired"])
	require.EqualValues(t, 2, m.values("redlock.acquire.rounds")["kind=exclusive outcome=acquired"])
	require.EqualValues(t, 2, m.values("redlock.round.duration")["operation=acquire outcome=done"])
	require.Positive(t, m.values("redlock.round.duration")["operation=acquire outcome=taken"])
	require.Zero(t, m.values("redlock.lock.held")["kind=exclusive"])
	require.Len(t, m.values("redlock.node.up"), 3)
	require.Len(t, m.values("redlock.node.disconnects"), 3)

	servers[0].Stop()
	require.Eventually(t, func() bool { // both Lockers have noticed
		up := int64(0)
		for _, value := range m.values("redlock.node.up") {
			up += value
		}
		return up == 2
	}, time.Minute, 5*time.Millisecond)
}

func TestMetrics_OfEveryEvent(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t)
	ctx, now := context.Background(), time.Now()
	m.observe(
		protocol.Round{Op: event.OpAcquire, Late: true, Err: redlock.ErrTaken, Split: true},
		protocol.Vote{Op: event.OpUnlock, Late: true, Addr: "/run/redis.sock", Answer: protocol.AnswerRefused},
		protocol.Raise{Addr: "a:1"},
		protocol.Turn{Received: true},
		event.Stuck{}, event.Heal{}, event.Heal{}, event.ForceUnlock{},
		event.Extend{Context: ctx, Err: redlock.ErrGone},
		event.Extend{Kind: "exclusive", Context: ctx, Lock: 1, Renewal: true, Left: time.Second, Validity: 2 * time.Second},
		event.Unlock{Context: ctx, Err: context.Canceled}, event.Unlock{Context: ctx, Handoff: true, Err: context.Canceled},
		event.Acquire{Kind: "exclusive", Context: ctx, Op: event.OpAttach, Err: redlock.ErrNotHeld},
		event.Acquire{Kind: "exclusive", Context: ctx, Op: event.OpAcquire, Err: redlock.ErrDeadlock, Try: true},
		event.Acquire{Kind: "exclusive", Context: ctx, Op: event.OpAcquire, Reentered: true},
		event.NodeUp{Addr: "a:1", At: now, Quarantined: true, Left: time.Hour},
		event.NodeUp{Addr: "b:1", At: now.Add(-2 * time.Hour), Quarantined: true, Left: time.Hour},
		event.Quarantine{Addr: "b:1", At: now, Quarantined: true, Left: time.Hour},
		event.NodeUp{Addr: "c:1", At: now, Quarantined: true},
		event.Quarantine{Addr: "nobody's:1", At: now, Quarantined: true},
		event.NodeUp{Addr: "d:1", At: now}, event.NodeDown{Addr: "d:1", Err: nodeerr.ErrBroken}, event.NodeDown{Addr: "d:1", Failed: 1},
		event.NodeUp{Addr: "e:1", At: now}, event.NodeDown{Addr: "e:1", Err: nodeerr.ErrClosed},
	)
	for name, want := range map[string]map[string]int64{
		"redlock.round.split_votes":     {"": 1},
		"redlock.round.duration":        {"operation=acquire outcome=taken": 1},
		"redlock.node.duration":         {"answer=refused operation=unlock server.address=/run/redis.sock": 1},
		"redlock.turns":                 {"direction=received": 1, "direction=sent": 0},
		"redlock.handoffs":              {"": 1},
		"redlock.stuck_keys":            {"": 1},
		"redlock.healed_keys":           {"": 2},
		"redlock.forced_unlocks":        {"": 1},
		"redlock.extend.duration":       {"outcome=gone renewal=false": 1, "outcome=done renewal=true": 1},
		"redlock.extend.validity_left":  {"renewal=false": 1, "renewal=true": 1},
		"redlock.renewal.margin":        {"": 1},
		"redlock.unlock.duration":       {"outcome=canceled": 2},
		"redlock.acquire.duration":      {"call=attach kind=exclusive outcome=not_held": 1, "call=try_lock kind=exclusive outcome=deadlock": 1, "call=lock kind=exclusive outcome=acquired": 1},
		"redlock.acquire.wait":          {},
		"redlock.lock.held":             {"kind=exclusive": 1, "kind=shared": 0, "kind=slot": 0}, // the one that is renewed
		"redlock.node.up":               nodes(1, 1, 1, 0),
		"redlock.node.quarantined":      nodes(1, 1, 1, 0),
		"redlock.node.disconnects":      nodes(0, 0, 0, 1, 0),
		"redlock.node.connect_failures": nodes(0, 0, 0, 1, 0),
		"redlock.fence.raises":          nodes(1, 0, 0, 0, 0),
	} {
		require.Equal(t, want, m.values(name), name)
	}
}

// nodes returns the series of nodes a, b, c ...
func nodes(values ...int64) map[string]int64 {
	all := map[string]int64{}
	for i, value := range values {
		all["server.address="+string(rune('a'+i))+" server.port=1"] = value
	}
	return all
}

// The names are those that package promredlock has.
func TestMetrics_AreThoseOfPromredlockInPrometheus(t *testing.T) {
	t.Parallel()
	registry := promclient.NewRegistry()
	exporter, err := prometheus.New(prometheus.WithRegisterer(registry))
	require.NoError(t, err)
	observer, err := otelredlock.New(otelredlock.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(exporter))))
	require.NoError(t, err)
	ctx := t.Context()
	for _, e := range []event.Event{
		protocol.Vote{Addr: "a:1", Late: true}, protocol.Round{Late: true}, event.Acquire{Kind: "exclusive", Context: ctx, Op: event.OpAcquire},
		event.Extend{Context: ctx, Renewal: true, Validity: 1}, event.Unlock{Context: ctx}, event.End{Kind: "exclusive", Context: ctx, Err: redlock.ErrGone},
		event.NodeUp{Addr: "a:1"},
	} {
		observer.Observe(e)
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	var got []string
	for _, family := range families {
		if name := family.GetName(); name != "target_info" {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	require.Equal(t, []string{
		"redlock_acquire_duration_seconds", "redlock_acquire_rounds", "redlock_acquire_wait_seconds",
		"redlock_extend_duration_seconds", "redlock_extend_validity_left_seconds",
		"redlock_fence_raises_total", "redlock_forced_unlocks_total", "redlock_handoffs_total", "redlock_healed_keys_total",
		"redlock_lock_held", "redlock_lock_hold_duration_seconds", "redlock_lock_losses_total",
		"redlock_node_connect_failures_total", "redlock_node_disconnects_total", "redlock_node_duration_seconds",
		"redlock_node_quarantined", "redlock_node_up",
		"redlock_observer_dropped_total", "redlock_renewal_margin",
		"redlock_round_duration_seconds", "redlock_round_split_votes_total",
		"redlock_stuck_keys_total", "redlock_turns_total", "redlock_unlock_duration_seconds",
	}, got)
}

// BenchmarkObserver is the events of a call of Do on five nodes: 15 of them.
func BenchmarkObserver(b *testing.B) {
	sampled := sdktrace.NewTracerProvider()
	for _, c := range []struct {
		name string
		opts []otelredlock.Option
	}{
		{"nothing", []otelredlock.Option{
			otelredlock.WithTracerProvider(tracenoop.NewTracerProvider()), otelredlock.WithMeterProvider(noop.NewMeterProvider()),
		}},
		{"metrics", []otelredlock.Option{otelredlock.WithTracerProvider(tracenoop.NewTracerProvider())}},
		{"metrics and unsampled traces", []otelredlock.Option{
			otelredlock.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))),
		}},
		{"metrics and traces", []otelredlock.Option{otelredlock.WithTracerProvider(sampled)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			meters := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
			observer, err := otelredlock.New(append([]otelredlock.Option{otelredlock.WithMeterProvider(meters)}, c.opts...)...)
			require.NoError(b, err)
			ctx, addrs := context.Background(), []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379", "10.0.0.4:6379", "10.0.0.5:6379"}
			b.ReportAllocs()
			for i := range b.N {
				now, acquire, unlock := time.Now(), uint64(2*i+1), uint64(2*i+2)
				for node, addr := range addrs {
					observer.Observe(protocol.Vote{At: now, Call: acquire, Op: event.OpAcquire, Node: node, Addr: addr, Answer: protocol.AnswerYes, Took: 1000})
				}
				observer.Observe(protocol.Round{At: now, Call: acquire, Op: event.OpAcquire, Took: 1000})
				observer.Observe(event.Acquire{Kind: "exclusive", Context: ctx, Call: acquire, Op: event.OpAcquire, Start: now, Took: 1000, Rounds: 1})
				for node, addr := range addrs {
					observer.Observe(protocol.Vote{At: now, Call: unlock, Op: event.OpUnlock, Node: node, Addr: addr, Answer: protocol.AnswerYes, Took: 1000})
				}
				observer.Observe(protocol.Round{At: now, Call: unlock, Op: event.OpUnlock, Took: 1000})
				observer.Observe(event.End{Kind: "exclusive", Context: ctx, Call: acquire, Start: now, Held: 1000, Err: redlock.ErrReleased})
				observer.Observe(event.Unlock{Context: ctx, Call: unlock, Lock: acquire, Start: now, Took: 1000})
			}
		})
	}
}
