package otelredlock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/otelredlock"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// observe passes events on.
func (m *telemetry) observe(events ...event.Event) {
	for _, e := range events {
		m.observer.Observe(e)
	}
}

func TestObserver_ForgetsWhatItHasMissedTheEndOf(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t)
	ctx, _ := m.caller("caller")
	m.spans.Reset()
	start := time.Now()
	m.observe(
		event.Acquire{Kind: "exclusive", Context: ctx, Call: 1, Op: event.OpAcquire, Start: start},
		event.Acquire{Kind: "exclusive", Context: ctx, Call: 2, Op: event.OpAcquire, Start: start},
		protocol.Vote{Call: 3, Op: event.OpAcquire, Addr: "a:1"},
	)
	require.EqualValues(t, 2, m.values("redlock.lock.held")["kind=exclusive"])
	m.observe(event.Drop{Count: 7})
	calls, held, _ := m.observer.Kept()
	require.Zero(t, calls+held)
	require.Zero(t, m.values("redlock.lock.held")["kind=exclusive"])
	require.EqualValues(t, 7, m.values("redlock.observer.dropped")[""])

	m.observe(event.Extend{Kind: "exclusive", Context: context.Background(), Call: 4, Lock: 2, Renewal: true, Validity: time.Second})
	require.EqualValues(t, 1, m.values("redlock.lock.held")["kind=exclusive"], "the lock is still held")
	m.observe(
		event.End{Kind: "exclusive", Context: ctx, Call: 1, Start: start, Err: redlock.ErrReleased}, // it had been forgotten
		event.End{Kind: "exclusive", Context: ctx, Call: 2, Start: start, Err: redlock.ErrReleased},
		event.Extend{Kind: "exclusive", Context: context.Background(), Call: 5, Lock: 2, Renewal: true, Err: redlock.ErrReleased},
		event.Acquire{Kind: "exclusive", Context: ctx, Call: 3, Op: event.OpAcquire, Start: start, Err: redlock.ErrNoQuorum},
		event.Acquire{Kind: "exclusive", Context: ctx, Call: 6, Op: event.OpAcquire, Start: time.Now().Add(time.Second), Err: redlock.ErrNoQuorum},
	)
	require.Zero(t, m.values("redlock.lock.held")["kind=exclusive"])
	calls, held, _ = m.observer.Kept()
	require.Zero(t, calls+held)

	spans := m.spans.GetSpans()
	require.Len(t, spans, 6)
	for i, incomplete := range []any{nil, nil, true, true, true, nil} {
		require.Equal(t, incomplete, attributes(spans[i].Attributes)["redlock.incomplete"], "span %d", i)
	}
	require.Empty(t, spans[4].Events, "the vote has been forgotten")
}

func TestObserver_KeepsLittleOfManyCalls(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t, otelredlock.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.TraceIDRatioBased(0.05)))))
	ctx := t.Context()
	most := 0
	for i := range uint64(100_000) {
		call := i + 1
		m.observe(
			protocol.Vote{Call: call, Op: event.OpAcquire, Addr: "a:1", Answer: protocol.AnswerYes},
			protocol.Round{Call: call, Op: event.OpAcquire},
		)
		if i%3 != 0 { // otherwise it is dropped
			m.observe(event.Acquire{Kind: "exclusive", Context: ctx, Call: call, Op: event.OpAcquire})
		}
		m.observe(protocol.Vote{Call: call, Late: true, Op: event.OpAcquire, Addr: "b:1", Answer: protocol.AnswerYes})
		if i%5 != 0 {
			m.observe(event.End{Kind: "exclusive", Context: ctx, Call: call, Err: redlock.ErrReleased})
		}
		if i%100 == 0 {
			m.observe(event.Drop{Count: 50})
		}
		if i%20 == 19 {
			calls, held, ended := m.observer.Kept()
			most = max(most, calls+held+ended)
		}
	}
	require.LessOrEqual(t, most, 100+256)
	m.observe(event.Drop{Count: 1})
	calls, held, _ := m.observer.Kept()
	require.Zero(t, calls+held)
	require.Zero(t, m.values("redlock.lock.held")["kind=exclusive"])
}

func TestTrace_OfALongCallKeepsTheFirstAndTheLastEvents(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, otelredlock.KeepsAtMost, otelredlock.KeepsAtMost + 1, 10_000} {
		m := newTelemetry(t)
		for i := range n {
			m.observe(protocol.Vote{Call: 1, Op: event.OpAcquire, Addr: "a:1", Node: i})
			require.LessOrEqual(t, m.observer.Events(1), otelredlock.KeepsAtMost)
		}
		m.observe(event.Acquire{Kind: "exclusive", Context: t.Context(), Call: 1, Op: event.OpAcquire, Err: redlock.ErrNoQuorum})
		span := m.span("redlock acquire")
		answers := eventsOf(span, "redlock.answer")
		require.Len(t, answers, min(n, otelredlock.KeepsAtMost))
		require.EqualValues(t, 0, answers[0]["redlock.node"])
		require.EqualValues(t, n-1, answers[len(answers)-1]["redlock.node"])
		for i := 1; i < len(answers); i++ {
			require.Greater(t, answers[i]["redlock.node"], answers[i-1]["redlock.node"], "they are in order")
		}
		left := attributes(span.Attributes)["redlock.events_left_out"]
		if n <= otelredlock.KeepsAtMost {
			require.Nil(t, left)
		} else {
			require.EqualValues(t, n-otelredlock.KeepsAtMost, left)
		}
		require.Zero(t, span.DroppedEvents)
	}
}

func TestTrace_OfALockThatIsHeldForLongKeepsTheFirstAndTheLastRenewals(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t)
	m.observe(event.Acquire{Kind: "exclusive", Context: t.Context(), Call: 1, Op: event.OpAcquire})
	for i := range 1000 {
		e := event.Extend{Kind: "exclusive", Context: context.Background(), Call: uint64(i) + 2, Lock: 1, Renewal: true, Left: time.Duration(i), Validity: time.Minute}
		if i%10 == 9 {
			e.Err = redlock.ErrNoQuorum
		}
		m.observe(e)
	}
	m.observe(event.End{Kind: "exclusive", Context: t.Context(), Call: 1, Err: redlock.ErrExpired})
	hold := m.span("redlock hold")
	require.Len(t, eventsOf(hold, "redlock.renewal"), otelredlock.KeepsAtMost)
	attrs := attributes(hold.Attributes)
	require.EqualValues(t, 1000, attrs["redlock.renewals"])
	require.EqualValues(t, 100, attrs["redlock.renewals.failed"])
	require.EqualValues(t, 1000-otelredlock.KeepsAtMost, attrs["redlock.events_left_out"])
	require.Equal(t, "expired", attrs["error.type"])
}

func TestObserver_MayBeSharedByLockersOrNot(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{true, false} {
		t.Run(fmt.Sprint(shared), func(t *testing.T) {
			t.Parallel()
			m := newTelemetry(t)
			servers := testredis.Real(t, 3)
			var lockers []*redlock.Locker
			for range 3 {
				lockers = append(lockers, m.locker(servers, patient))
				if !shared {
					m.observer = m.newObserver()
				}
			}
			done := make(chan error)
			for i, locker := range lockers {
				go func() {
					var err error
					for n := range 20 {
						name := fmt.Sprintf("%d-%d", i, n)
						ctx, span := m.tracers.Tracer("program").Start(context.Background(), "caller "+name)
						if doing := locker.Do(ctx, name, func(context.Context, *redlock.Lock) error { return nil }); doing != nil {
							err = doing
						}
						span.End()
					}
					done <- err
				}()
			}
			for range lockers {
				require.NoError(t, <-done)
			}
			require.Eventually(t, func() bool { return len(m.values("redlock.node.up")) == 3 }, time.Minute, 5*time.Millisecond)
			up := m.values("redlock.node.up")
			for node, value := range up {
				require.EqualValues(t, 1, value, node)
			}
			require.NoError(t, lockers[0].Close())
			require.Equal(t, up, m.values("redlock.node.up"), "the others are still connected")
			for _, locker := range lockers {
				require.NoError(t, locker.Close())
			}
			require.Eventually(t, func() bool { return len(m.values("redlock.node.up")) == 0 }, time.Minute, 5*time.Millisecond)
			require.EqualValues(t, 60, m.values("redlock.acquire.duration")["call=lock kind=exclusive outcome=acquired"])
			require.Zero(t, m.values("redlock.lock.held")["kind=exclusive"])
			for _, acquire := range m.named("redlock acquire") {
				nodes := map[any]bool{}
				for _, command := range m.commands(acquire) {
					answer := attributes(command.Attributes)
					require.False(t, nodes[answer["redlock.node"]], "two answers of a node in one round")
					nodes[answer["redlock.node"]] = true
				}
				require.GreaterOrEqual(t, len(nodes), 2)
				hold := of(m, acquire.Parent, "redlock hold")
				require.Equal(t, acquire.SpanContext.SpanID(), hold.Links[0].SpanContext.SpanID())
			}
		})
	}
}
