package otelredlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/quorumlock/quorumlock/otelredlock"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// unsampled is for tests with so many spans that they must not be kept.
func unsampled() otelredlock.Option {
	return otelredlock.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())))
}

// The danger: WithObserver(observer, protocol.Votes) keeps each call for ever.
func TestObserver_ThatHearsOfNoEndsOfCallsKeepsABoundedNumberOfThem(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t, unsampled())
	for i := range uint64(otelredlock.KeepMost) + 10 {
		m.observe(protocol.Vote{Call: i + 1, Op: event.OpAcquire, Addr: "a:1", Answer: protocol.AnswerYes})
	}
	calls, _, _ := m.observer.Kept()
	require.Equal(t, 10, calls, "the others are forgotten")
	require.Zero(t, m.observer.Events(1))
	require.Equal(t, 1, m.observer.Events(otelredlock.KeepMost+10))
}

// The danger: WithObserver(observer, event.Calls) keeps each lock for ever.
func TestObserver_ThatHearsOfNoEndsOfLocksKeepsABoundedNumberOfThem(t *testing.T) {
	t.Parallel()
	const many = 100_000 // which a program may well hold
	m := newTelemetry(t, unsampled())
	for i := range uint64(otelredlock.KeepMost) + 10 {
		m.observe(event.Acquire{Kind: "exclusive", Context: t.Context(), Call: i + 1, Op: event.OpAcquire})
		if i+1 == many {
			_, held, _ := m.observer.Kept()
			require.Equal(t, many, held)
			require.EqualValues(t, many, m.values("redlock.lock.held")["kind=exclusive"])
		}
	}
	_, held, _ := m.observer.Kept()
	require.Equal(t, 10, held, "the others are forgotten")
	require.EqualValues(t, 10, m.values("redlock.lock.held")["kind=exclusive"])
	m.observe(event.Extend{Kind: "exclusive", Context: context.Background(), Call: 1 << 32, Lock: 1, Renewal: true, Validity: time.Second})
	require.EqualValues(t, 11, m.values("redlock.lock.held")["kind=exclusive"], "one that is renewed is known again")
	m.observe(event.End{Kind: "exclusive", Context: t.Context(), Call: 2, Err: redlock.ErrReleased})
	require.EqualValues(t, 11, m.values("redlock.lock.held")["kind=exclusive"], "one that is forgotten is not subtracted again")
}

// Ends alone have no Acquire that they could be subtracted from.
func TestObserver_ThatHearsOfEndsAloneCountsNoHeldLocks(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t)
	m.observe(event.End{Kind: "exclusive", Context: t.Context(), Call: 1, Err: redlock.ErrReleased})
	require.Zero(t, m.values("redlock.lock.held")["kind=exclusive"])
	require.EqualValues(t, 1, m.values("redlock.lock.hold.duration")["end=released kind=exclusive"])
	require.Len(t, m.named("redlock hold"), 1)
}

func TestNew_RefusesANilOption(t *testing.T) {
	t.Parallel()
	observer, err := otelredlock.New(otelredlock.WithNameAttribute(nil), nil)
	require.EqualError(t, err, "otelredlock: nil option")
	require.Nil(t, observer)
}
