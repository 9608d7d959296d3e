package otelredlock_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/otelredlock"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

const (
	patient = time.Minute      // a node timeout for nodes that answer, however busy the machine is
	brief   = 2 * time.Second  // and for some that do not
	long    = 10 * time.Minute // a TTL that does not end during a test
)

// telemetry is an SDK that keeps what it is given, and the observer that it is given by.
type telemetry struct {
	t        *testing.T
	spans    *tracetest.InMemoryExporter
	tracers  *sdktrace.TracerProvider
	reader   *metric.ManualReader
	meters   *metric.MeterProvider
	observer *otelredlock.Observer
	events   *events
}

func newTelemetry(t *testing.T, opts ...otelredlock.Option) *telemetry {
	t.Helper()
	spans, reader := tracetest.NewInMemoryExporter(), metric.NewManualReader()
	m := &telemetry{
		t: t, spans: spans, reader: reader, events: &events{},
		tracers: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)), meters: metric.NewMeterProvider(metric.WithReader(reader)),
	}
	m.observer = m.newObserver(opts...)
	return m
}

func (m *telemetry) newObserver(opts ...otelredlock.Option) *otelredlock.Observer {
	m.t.Helper()
	opts = append([]otelredlock.Option{otelredlock.WithTracerProvider(m.tracers), otelredlock.WithMeterProvider(m.meters)}, opts...)
	observer, err := otelredlock.New(opts...)
	require.NoError(m.t, err)
	return observer
}

// events are those that an observer has had.
type events struct {
	mu  sync.Mutex
	all []event.Event
}

func (s *events) after(o event.Observer) event.Observer {
	return event.ObserverFunc(func(e event.Event) {
		o.Observe(e)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, e)
	})
}

// waitFor waits for an event of a kind.
func waitFor[E event.Event](m *telemetry, is func(E) bool) (found E) {
	m.t.Helper()
	require.Eventually(m.t, func() bool {
		m.events.mu.Lock()
		defer m.events.mu.Unlock()
		for _, e := range m.events.all {
			if e, ok := e.(E); ok && is(e) {
				found = e
				return true
			}
		}
		return false
	}, time.Minute, time.Millisecond, "an event of type %T", found)
	return found
}

// locker opens a Locker that the observer observes, on servers that it is connected to.
func (m *telemetry) locker(servers []*testredis.Process, timeout time.Duration, opts ...redlock.Option) *redlock.Locker {
	m.t.Helper()
	locker, err := redlock.Open(testredis.URLs(servers), append([]redlock.Option{
		pool.WithTimeout(timeout), redlock.TTL(long), redlock.WithObserver(m.events.after(m.observer), m.observer.Groups()...),
	}, opts...)...)
	require.NoError(m.t, err)
	m.t.Cleanup(func() { require.NoError(m.t, locker.Close()) })
	require.Eventually(m.t, func() bool { // which connects
		state, err := locker.Inspect(context.Background(), "nothing")
		return err == nil && !slices.ContainsFunc(state.Nodes, func(n redlock.NodeState) bool { return n.Err != nil })
	}, time.Minute, time.Millisecond)
	return locker
}

// named returns the spans of a name so far, in the order of their ends.
func (m *telemetry) named(name string) []tracetest.SpanStub {
	return slices.DeleteFunc(m.spans.GetSpans(), func(s tracetest.SpanStub) bool { return s.Name != name })
}

// span waits for the only span of a name.
func (m *telemetry) span(name string) tracetest.SpanStub {
	m.t.Helper()
	require.Eventually(m.t, func() bool { return len(m.named(name)) > 0 }, time.Minute, time.Millisecond, "a span %q", name)
	spans := m.named(name)
	require.Len(m.t, spans, 1)
	return spans[0]
}

// caller returns a context with a span, as that of a program, and the span's context.
func (m *telemetry) caller(name string) (context.Context, trace.SpanContext) {
	ctx, span := m.tracers.Tracer("program").Start(m.t.Context(), name)
	m.t.Cleanup(func() { span.End() })
	return ctx, span.SpanContext()
}

// attributes returns attributes by key.
func attributes(all []attribute.KeyValue) map[string]any {
	values := map[string]any{}
	for _, kv := range all {
		values[string(kv.Key)] = kv.Value.AsInterface()
	}
	return values
}

// eventsOf returns the attributes of a span's events of a name.
func eventsOf(s tracetest.SpanStub, name string) (all []map[string]any) {
	for _, e := range s.Events {
		if e.Name == name {
			all = append(all, attributes(e.Attributes))
		}
	}
	return all
}

// values returns each series of a metric by its attributes, as "a=1 b=2": its value, or the count of a histogram.
func (m *telemetry) values(name string) map[string]int64 {
	m.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(m.t, m.reader.Collect(context.Background(), &all))
	values := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, found := range scope.Metrics {
			if found.Name != name {
				continue
			}
			switch data := found.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					values[series(p.Attributes)] = p.Value
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					values[series(p.Attributes)] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					values[series(p.Attributes)] = int64(p.Count)
				}
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					values[series(p.Attributes)] = int64(p.Count)
				}
			}
		}
	}
	return values
}

func series(set attribute.Set) string {
	var parts []string
	for _, kv := range set.ToSlice() {
		key := strings.TrimPrefix(string(kv.Key), "redlock.")
		parts = append(parts, key+"="+kv.Value.String())
	}
	return strings.Join(parts, " ")
}

// eventually waits until a metric has a value.
func (m *telemetry) eventually(name, series string, value int64) {
	m.t.Helper()
	require.Eventually(m.t, func() bool { return m.values(name)[series] == value }, time.Minute, 5*time.Millisecond,
		"%s{%s} = %d", name, series, value)
}
