package otelredlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/otelredlock"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// contend lets one Locker wait for a lock that another holds on all nodes, which have said no, and returns the spans' callers.
func contend(m *telemetry, servers []*testredis.Process) (holder, waiter trace.SpanContext) {
	m.t.Helper()
	first, second := m.locker(servers, patient), m.locker(servers, patient)
	holds, holder := m.caller("holder")
	held, err := first.Lock(holds, "invoice-4711")
	require.NoError(m.t, err)
	taken := waitFor(m, func(e event.Acquire) bool { return true })
	for i := range servers {
		waitFor(m, func(e protocol.Vote) bool { return e.Call == taken.Call && e.Node == i })
	}

	waits, waiter := m.caller("waiter")
	acquired := make(chan error, 1)
	go func() {
		lock, err := second.Lock(waits, "invoice-4711")
		if err == nil {
			err = lock.Unlock(waits)
		}
		acquired <- err
	}()
	refused := waitFor(m, func(e protocol.Round) bool { return errors.Is(e.Err, redlock.ErrTaken) })
	for i := range servers {
		waitFor(m, func(e protocol.Vote) bool { return e.Call == refused.Call && e.Node == i })
	}
	require.NoError(m.t, held.Unlock(holds))
	require.NoError(m.t, <-acquired)
	return holder, waiter
}

// of returns the only span of a name below a parent.
func of(m *telemetry, parent trace.SpanContext, name string) (found tracetest.SpanStub) {
	m.t.Helper()
	var all []tracetest.SpanStub
	require.Eventually(m.t, func() bool {
		all = nil
		for _, s := range m.named(name) {
			if s.Parent.SpanID() == parent.SpanID() {
				all = append(all, s)
			}
		}
		return len(all) > 0
	}, time.Minute, time.Millisecond, "a span %q below %s", name, parent.SpanID())
	require.Len(m.t, all, 1)
	require.Equal(m.t, parent.TraceID(), all[0].SpanContext.TraceID())
	return all[0]
}

func TestTrace_OfAWaiterHasTheWaitItsRoundsAndTheAnswersOfTheNodes(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t)
	servers := testredis.Real(t, 3)
	_, waiter := contend(m, servers)

	acquire := of(m, waiter, "redlock acquire")
	require.Equal(t, trace.SpanKindInternal, acquire.SpanKind)
	require.Equal(t, codes.Unset, acquire.Status.Code)
	attrs := attributes(acquire.Attributes)
	require.Equal(t, "acquire", attrs["redlock.operation"])
	require.Equal(t, "lock", attrs["redlock.call"])
	require.Equal(t, "exclusive", attrs["redlock.kind"])
	require.Equal(t, "acquired", attrs["redlock.outcome"])
	require.Greater(t, attrs["redlock.validity"], 0.0)
	rounds := eventsOf(acquire, "redlock.round")
	require.GreaterOrEqual(t, len(rounds), 2)
	require.EqualValues(t, len(rounds), attrs["redlock.rounds"])
	require.Equal(t, "taken", rounds[0]["redlock.outcome"])
	require.Equal(t, "done", rounds[len(rounds)-1]["redlock.outcome"])

	refusals := map[string]bool{}
	for _, command := range m.commands(acquire) {
		answer := attributes(command.Attributes)
		if answer["redlock.answer"] == "no" {
			require.Equal(t, codes.Unset, command.Status.Code)
			require.NotContains(t, answer, "error.type")
			require.NotEmpty(t, answer["redlock.error"])
			refusals[fmt.Sprintf("%s:%d", answer["server.address"], answer["server.port"])] = true
		}
	}
	for _, s := range servers {
		require.Contains(t, refusals, s.Addr())
	}

	wait := of(m, acquire.SpanContext, "redlock wait")
	require.Equal(t, acquire.StartTime, wait.StartTime)
	require.True(t, wait.EndTime.Before(acquire.EndTime))
	require.False(t, acquire.Events[0].Time.After(wait.EndTime), "the first round is part of it")

	hold := of(m, waiter, "redlock hold")
	require.Equal(t, "released", attributes(hold.Attributes)["redlock.end"])
	require.Len(t, hold.Links, 1)
	require.Equal(t, acquire.SpanContext.SpanID(), hold.Links[0].SpanContext.SpanID())
	require.False(t, hold.StartTime.Before(acquire.StartTime))
	require.True(t, hold.EndTime.After(acquire.EndTime))

	unlock := of(m, waiter, "redlock unlock")
	require.Equal(t, acquire.SpanContext.SpanID(), unlock.Links[0].SpanContext.SpanID())
	require.Equal(t, "released", attributes(unlock.Attributes)["redlock.outcome"])
	require.NotEmpty(t, m.commands(unlock))
}

func TestTrace_OfALockThatIsSharedSaysWhichKindItIs(t *testing.T) {
	t.Parallel()
	for kind, acquire := range map[string]func(context.Context, *redlock.Locker) (*redlock.Lock, error){
		"shared": func(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error) {
			return l.Lock(ctx, "invoice", redlock.Shared())
		},
		"slot": func(ctx context.Context, l *redlock.Locker) (*redlock.Lock, error) {
			return l.Lock(ctx, "invoice", redlock.Slots(2))
		},
	} {
		m := newTelemetry(t)
		ctx, caller := m.caller("caller")
		lock, err := acquire(ctx, m.locker(testredis.Real(t, 3), patient))
		require.NoError(t, err)
		require.NoError(t, lock.Extend(ctx, time.Minute))
		require.NoError(t, lock.Unlock(ctx))
		m.eventually("redlock.lock.hold.duration", "end=released kind="+kind, 1)
		m.eventually("redlock.unlock.duration", "outcome=released", 1)
		for _, name := range []string{"redlock acquire", "redlock extend", "redlock hold", "redlock unlock"} {
			require.Equal(t, kind, attributes(of(m, caller, name).Attributes)["redlock.kind"], name)
		}
		require.EqualValues(t, 1, m.values("redlock.acquire.duration")["call=lock kind="+kind+" outcome=acquired"])
		require.Equal(t, map[string]int64{"kind=exclusive": 0, "kind=shared": 0, "kind=slot": 0}, m.values("redlock.lock.held"))
	}
}

func TestTrace_HasNoNameAndNoTokenOfALock(t *testing.T) {
	t.Parallel()
	const name = "confidential" // without digits, as the text has many
	m := newTelemetry(t)
	servers := testredis.Real(t, 3)
	locker := m.locker(servers, patient)
	lock, err := locker.TryLock(t.Context(), name)
	require.NoError(t, err)
	_, err = locker.TryLock(t.Context(), name, redlock.Owner("somebody"))
	require.ErrorIs(t, err, redlock.ErrTaken)
	_, err = locker.TryLock(lockContext(t, lock), name)
	require.ErrorIs(t, err, redlock.ErrDeadlock)
	for _, s := range servers {
		_, err := s.Do("DEL", name)
		require.NoError(t, err)
	}
	require.ErrorIs(t, lock.Extend(t.Context(), long+time.Minute), redlock.ErrGone)
	require.ErrorIs(t, lock.Extend(t.Context(), long+time.Minute), redlock.ErrGone)
	require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = locker.Lock(over, name)
	require.ErrorIs(t, err, context.Canceled)
	calls := func() (n int) {
		for _, s := range m.spans.GetSpans() { // the call that has ended waits a millisecond if the machine does
			if s.SpanKind == trace.SpanKindInternal && s.Name != "redlock wait" {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool { return calls() >= 8 }, time.Minute, time.Millisecond)
	require.NoError(t, locker.Close())

	require.Equal(t, 8, calls(), "four acquires, a hold, two extends and an unlock")
	text := fmt.Sprintf("%+v", m.spans.GetSpans())
	require.Contains(t, text, "redlock.outcome", "the text has the attributes")
	require.NotContains(t, text, name)
	require.NotContains(t, text, lock.Token())
}

func lockContext(t *testing.T, lock *redlock.Lock) context.Context {
	ctx, cancel := lock.Context(t.Context())
	t.Cleanup(cancel)
	return ctx
}

func TestTrace_OfTryLockThatIsRefusedIsNoError(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t, otelredlock.WithNameAttribute(func(name string) string { return name[:7] }))
	servers := testredis.Real(t, 3)
	for _, s := range servers {
		_, err := s.Do("SET", "invoice-4711", "theirs")
		require.NoError(t, err)
	}
	ctx, caller := m.caller("caller")
	locker := m.locker(servers, patient)
	_, err := locker.TryLock(ctx, "invoice-4711")
	require.ErrorIs(t, err, redlock.ErrTaken)

	acquire := of(m, caller, "redlock acquire")
	require.Equal(t, codes.Unset, acquire.Status.Code)
	attrs := attributes(acquire.Attributes)
	require.Equal(t, "taken", attrs["redlock.outcome"])
	require.Equal(t, "try_lock", attrs["redlock.call"])
	require.Equal(t, "invoice", attrs["redlock.name"])
	require.NotContains(t, attrs, "error.type")
	require.Empty(t, m.named("redlock wait"))
	m.eventually("redlock.acquire.duration", "call=try_lock kind=exclusive name=invoice outcome=taken", 1)
}

// Nobody ever releases data of another program: that is no answer for a caller who tries again.
func TestTrace_OfANameWithSomebodysDataIsAnError(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t)
	servers := testredis.Real(t, 3)
	for _, s := range servers {
		_, err := s.Do("RPUSH", "name", "data")
		require.NoError(t, err)
	}
	ctx, caller := m.caller("caller")
	_, err := m.locker(servers, patient).TryLock(ctx, "name")
	require.ErrorIs(t, err, redlock.ErrForeign)

	acquire := of(m, caller, "redlock acquire")
	require.Equal(t, codes.Error, acquire.Status.Code)
	attrs := attributes(acquire.Attributes)
	require.Equal(t, "foreign", attrs["redlock.outcome"])
	require.Equal(t, "foreign", attrs["error.type"])
	require.Equal(t, "foreign", eventsOf(acquire, "redlock.round")[0]["redlock.outcome"])
	m.eventually("redlock.acquire.duration", "call=try_lock kind=exclusive outcome=foreign", 1)
	m.eventually("redlock.round.duration", "operation=acquire outcome=foreign", 1)
}

// A busy lock is a normal answer for a caller who has limited the wait.
func TestTrace_OfAWaitThatMaxWaitEndsIsNoError(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t)
	servers := testredis.Real(t, 3)
	locker := m.locker(servers, patient)
	lock, err := locker.TryLock(t.Context(), "name")
	require.NoError(t, err)
	first := make(chan error, 1)
	go func() {
		_, err := locker.Lock(t.Context(), "name") // those behind it ask no node
		first <- err
	}()
	waitFor(m, func(e protocol.Round) bool { return errors.Is(e.Err, redlock.ErrTaken) })

	ctx, caller := m.caller("caller")
	_, err = locker.Lock(ctx, "name", redlock.MaxWait(10*time.Millisecond))
	require.ErrorIs(t, err, redlock.ErrTaken)
	acquire := of(m, caller, "redlock acquire")
	require.Equal(t, codes.Unset, acquire.Status.Code)
	attrs := attributes(acquire.Attributes)
	require.Equal(t, "taken", attrs["redlock.outcome"])
	require.NotContains(t, attrs, "error.type")
	require.Equal(t, acquire.EndTime, of(m, acquire.SpanContext, "redlock wait").EndTime)

	ctx, caller = m.caller("in a hurry")
	hurried, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err = locker.Lock(hurried, "name")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	acquire = of(m, caller, "redlock acquire")
	require.Equal(t, codes.Error, acquire.Status.Code)
	attrs = attributes(acquire.Attributes)
	require.Equal(t, "canceled", attrs["redlock.outcome"])
	require.Equal(t, "timeout", attrs["error.type"])
	require.NoError(t, lock.Unlock(t.Context()))
	require.NoError(t, <-first)
}

func TestTrace_OfALostLockSaysHowItEnded(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t)
	servers := testredis.Real(t, 3)
	locker := m.locker(servers, patient)
	ctx, caller := m.caller("caller")
	err := locker.Do(ctx, "name", func(ctx context.Context, _ *redlock.Lock) error {
		waitFor(m, func(e event.Extend) bool { return e.Renewal })
		for _, s := range servers {
			if _, err := s.Do("DEL", "name"); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return nil
	}, redlock.TTL(6*time.Second)) // the first renewal has two thirds of it
	require.ErrorIs(t, err, redlock.ErrGone)

	hold := of(m, caller, "redlock hold")
	require.Equal(t, codes.Error, hold.Status.Code)
	require.Equal(t, "lock is gone", hold.Status.Description)
	attrs := attributes(hold.Attributes)
	require.Equal(t, "gone", attrs["redlock.end"])
	require.Equal(t, "gone", attrs["error.type"])
	renewals := eventsOf(hold, "redlock.renewal")
	require.NotEmpty(t, renewals)
	require.EqualValues(t, len(renewals), attrs["redlock.renewals"])
	require.Equal(t, "done", renewals[0]["redlock.outcome"])
	require.Greater(t, renewals[0]["redlock.validity_left"], 0.0)
	require.Empty(t, m.named("redlock extend"), "renewals have no spans")

	unlock := of(m, caller, "redlock unlock")
	require.Equal(t, codes.Error, unlock.Status.Code)
	require.Equal(t, "not_held", attributes(unlock.Attributes)["error.type"])
	m.eventually("redlock.lock.losses", "end=gone kind=exclusive", 1)
	require.Equal(t, map[string]int64{
		"end=gone kind=exclusive": 1, "end=expired kind=exclusive": 0, "end=gone kind=shared": 0, "end=expired kind=shared": 0,
		"end=gone kind=slot": 0, "end=expired kind=slot": 0,
	}, m.values("redlock.lock.losses"))
	m.eventually("redlock.lock.held", "kind=exclusive", 0)
}

func TestTrace_ShowsTheNodesThatAreFrozen(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t)
	servers := testredis.Real(t, 3)
	locker := m.locker(servers, brief)
	servers[1].Freeze()
	servers[2].Freeze()
	ctx, caller := m.caller("caller")
	_, err := locker.TryLock(ctx, "name")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)

	acquire := of(m, caller, "redlock acquire")
	require.Equal(t, codes.Error, acquire.Status.Code)
	require.Contains(t, acquire.Status.Description, "no quorum of nodes: 1 of 3 nodes said yes, 2 needed")
	require.Contains(t, acquire.Status.Description, servers[1].Addr())
	require.Equal(t, "no_quorum", attributes(acquire.Attributes)["error.type"])
	timeouts := 0
	for _, command := range m.commands(acquire) {
		answer := attributes(command.Attributes)
		if answer["error.type"] == "timeout" {
			require.Equal(t, codes.Error, command.Status.Code)
			require.Equal(t, "unknown", answer["redlock.answer"])
			require.NotEqual(t, int64(0), answer["redlock.node"])
			timeouts++
		}
	}
	require.Positive(t, timeouts)

	servers[1].Thaw()
	servers[2].Thaw()
}

func TestTrace_AnAnswerAfterTheEndOfItsCallIsCountedButNotKept(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t)
	servers := testredis.Real(t, 3)
	locker := m.locker(servers, patient)
	servers[2].Freeze()
	ctx, caller := m.caller("caller")
	lock, err := locker.TryLock(ctx, "name")
	require.NoError(t, err)
	servers[2].Thaw()
	waitFor(m, func(e protocol.Vote) bool { return e.Node == 2 && e.Late })
	require.Len(t, m.commands(of(m, caller, "redlock acquire")), 2)
	calls, _, _ := m.observer.Kept()
	require.Zero(t, calls)
	require.Eventually(t, func() bool {
		answers := int64(0)
		for _, n := range m.values("redlock.node.duration") {
			answers += n
		}
		return answers == 3
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, lock.Unlock(ctx))
}

func TestTrace_TheSpansOfDoAndOfItsFunctionAreSiblings(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t)
	locker := m.locker(testredis.Real(t, 3), patient)
	ctx, caller := m.caller("caller")
	require.NoError(t, locker.Do(ctx, "name", func(ctx context.Context, _ *redlock.Lock) error {
		_, span := m.tracers.Tracer("program").Start(ctx, "work")
		span.End()
		return nil
	}))
	acquire, hold, unlock := of(m, caller, "redlock acquire"), of(m, caller, "redlock hold"), of(m, caller, "redlock unlock")
	work := of(m, caller, "work")
	require.False(t, work.StartTime.Before(acquire.StartTime))
	require.False(t, hold.EndTime.Before(work.EndTime))
	require.False(t, unlock.StartTime.Before(work.EndTime))
}

func TestTrace_OfACallThatDidNotWaitHasNoWait(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		event event.Acquire
		waits int
	}{
		{event.Acquire{Kind: "exclusive", Rounds: 1, Wait: time.Millisecond - 1, Took: time.Second}, 0},
		{event.Acquire{Kind: "exclusive", Rounds: 1, Wait: time.Millisecond, Took: time.Second}, 1},
		{event.Acquire{Kind: "exclusive", Rounds: 2, Took: time.Second}, 1},
		{event.Acquire{Kind: "exclusive", Rounds: 2, Took: time.Second, Try: true}, 0},
	} {
		m := newTelemetry(t)
		test.event.Context, test.event.Op = t.Context(), event.OpAcquire
		m.observe(test.event)
		require.Len(t, m.named("redlock wait"), test.waits, "%+v", test.event)
	}
}

func TestTrace_WithoutASampledParentHasNoSpanAndLeavesNothing(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t)
	servers := testredis.Real(t, 3)
	locker := m.locker(servers, patient)
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}})
	ctx := trace.ContextWithSpanContext(t.Context(), parent)
	for range 10 {
		require.NoError(t, locker.Do(ctx, "name", func(context.Context, *redlock.Lock) error { return nil }))
	}
	require.NoError(t, locker.Close())
	m.eventually("redlock.unlock.duration", "outcome=released", 10) // metrics are not sampled
	require.Empty(t, m.spans.GetSpans())
	calls, held, ended := m.observer.Kept()
	require.Zero(t, calls+held+ended)
}

func TestTrace_IsMadeByTheProviderAlone(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t, otelredlock.WithTracerProvider(noop.NewTracerProvider()), otelredlock.WithMeterProvider(nil), otelredlock.WithNameAttribute(nil))
	m.observer.Observe(protocol.Vote{Call: 1})
	calls, _, _ := m.observer.Kept()
	require.Zero(t, calls, "nothing is kept for spans that nobody makes")

	none := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()), sdktrace.WithSyncer(m.spans))
	observer := m.newObserver(otelredlock.WithTracerProvider(none))
	observer.Observe(protocol.Vote{Call: 1})
	observer.Observe(event.Acquire{Kind: "exclusive", Context: t.Context(), Call: 1, Op: event.OpAcquire})
	observer.Observe(event.End{Kind: "exclusive", Context: t.Context(), Call: 1, Err: redlock.ErrReleased})
	calls, held, ended := observer.Kept()
	require.Zero(t, calls+held+ended)
	require.Empty(t, m.spans.GetSpans())
}

// A name may come from a request, and an exporter may drop all spans that it has for one such attribute.
func TestTrace_HasNoTextThatIsNotUTF8(t *testing.T) {
	m := newTelemetry(t, otelredlock.WithNameAttribute(func(lock string) string { return lock }))
	m.observe(event.Acquire{Kind: "exclusive", Context: t.Context(), Call: 1, Op: event.OpAcquire, Name: "a\xff", Err: errors.New("b\xff")})
	acquire := m.span("redlock acquire")
	require.Contains(t, acquire.Attributes, attribute.String("redlock.name", "a\uFFFD"))
	require.Equal(t, "b\uFFFD", acquire.Status.Description)
}
