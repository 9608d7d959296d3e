package otelredlock_test

import (
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// commands returns the spans of the commands of a call, in the order in which they ended.
func (m *telemetry) commands(call tracetest.SpanStub) (all []tracetest.SpanStub) {
	for _, s := range m.spans.GetSpans() {
		if s.Parent.SpanID() == call.SpanContext.SpanID() && s.SpanKind == trace.SpanKindClient {
			all = append(all, s)
		}
	}
	return all
}

// The conventions for databases: https://opentelemetry.io/docs/specs/semconv/db/redis/
func TestTrace_NamesTheCommandsOfTheNodesAsTheConventionsDo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options []redlock.Option
		acquire string
	}{
		"plain": {nil, "SET"}, "fenced": {[]redlock.Option{redlock.WithFencing()}, "EVALSHA"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newTelemetry(t)
			servers := testredis.Real(t, 1)
			locker := m.locker(servers, patient, test.options...)
			for range 3 { // the first two teach the server the scripts
				m.spans.Reset()
				lock, err := locker.TryLock(t.Context(), "name")
				require.NoError(t, err)
				require.NoError(t, lock.Extend(t.Context(), 2*long))
				require.NoError(t, lock.Unlock(t.Context()))
				m.span("redlock unlock")
			}
			for call, command := range map[string]string{"acquire": test.acquire, "extend": "EVALSHA", "unlock": "EVALSHA"} {
				parent := m.span("redlock " + call)
				require.Equal(t, trace.SpanKindInternal, parent.SpanKind)
				require.NotContains(t, attributes(parent.Attributes), "db.system.name", "it is no command")
				spans := m.commands(parent)
				require.Len(t, spans, 1)
				s := spans[0]
				require.Equal(t, command+" "+servers[0].Addr(), s.Name)
				require.Equal(t, codes.Unset, s.Status.Code)
				require.False(t, s.StartTime.Before(parent.StartTime))
				require.False(t, s.EndTime.After(parent.EndTime))
				attrs := attributes(s.Attributes)
				host, port, err := net.SplitHostPort(servers[0].Addr())
				require.NoError(t, err)
				number, err := strconv.ParseInt(port, 10, 64)
				require.NoError(t, err)
				require.Equal(t, map[string]any{
					"db.system.name": "redis", "db.operation.name": command, "server.address": host, "server.port": number,
					"redlock.operation": call, "redlock.node": int64(0), "redlock.answer": "yes",
				}, attrs)
			}
		})
	}
}

func TestTrace_SaysWhichErrorAServerReturned(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t)
	servers := testredis.Real(t, 1)
	locker := m.locker(servers, patient)
	lock, err := locker.TryLock(t.Context(), "name")
	require.NoError(t, err)
	_, err = servers[0].Do("CONFIG", "SET", "min-replicas-to-write", 1)
	require.NoError(t, err)
	require.Error(t, lock.Extend(t.Context(), 2*long))
	extend := m.span("redlock extend")
	require.Len(t, m.commands(extend), 1)
	s := m.commands(extend)[0]
	require.Equal(t, codes.Error, s.Status.Code)
	attrs := attributes(s.Attributes)
	require.Equal(t, "refused", attrs["redlock.answer"])
	require.Equal(t, "NOREPLICAS", attrs["db.response.status_code"])
	require.Equal(t, "NOREPLICAS", attrs["error.type"])
}

// Nothing is sent to a node that is not connected: that is no command.
func TestTrace_HasNoCommandThatWasNotSent(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t)
	servers := testredis.Real(t, 1)
	locker := m.locker(servers, patient)
	servers[0].Stop()
	waitFor(m, func(e event.NodeDown) bool { return e.Failed > 0 })
	_, err := locker.TryLock(t.Context(), "name")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	acquire := m.span("redlock acquire")
	require.Empty(t, m.commands(acquire))
	answers := eventsOf(acquire, "redlock.answer")
	require.Len(t, answers, 1)
	require.Equal(t, "unsent", answers[0]["redlock.answer"])
	require.Equal(t, "not_connected", answers[0]["error.type"])
}

func TestTrace_ACommandIsAnErrorIfTheNodeDidNotAnswerIt(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t)
	at := time.Now()
	start := at.Add(-time.Second)
	votes := []protocol.Vote{
		{Answer: protocol.AnswerYes},
		{Answer: protocol.AnswerNo, Err: nodeerr.ErrHeld},
		{Answer: protocol.AnswerNo, Err: fmt.Errorf("%w: %w", nodeerr.ErrHeld, nodeerr.ErrNoExpiry)},
		{Answer: protocol.AnswerNo, Err: nodeerr.ErrAbsent},
		{Answer: protocol.AnswerRecreated, Err: nodeerr.ErrRecreated},
		{Answer: protocol.AnswerUnknown, Err: nodeerr.ErrTimeout},
		{Answer: protocol.AnswerUnknown, Err: fmt.Errorf("%w: %w", nodeerr.ErrBroken, net.ErrClosed)},
		{Answer: protocol.AnswerRefused, Err: &nodeerr.ServerError{Code: "READONLY", Message: "READONLY You can't write"}},
	}
	want := []struct {
		status codes.Code
		kind   any
		code   any
	}{
		{codes.Unset, nil, nil}, {codes.Unset, nil, nil}, {codes.Unset, nil, nil}, {codes.Unset, nil, nil}, {codes.Unset, nil, nil},
		{codes.Error, "timeout", nil}, {codes.Error, "broken", nil}, {codes.Error, "READONLY", "READONLY"},
	}
	for i, v := range votes {
		v.At, v.Took, v.Call, v.Op, v.Addr, v.Node, v.Command = at, time.Second, 1, event.OpExtend, "/run/redis.sock", i, "EVALSHA"
		m.observe(v)
	}
	m.observe(event.Extend{Context: t.Context(), Call: 1, Start: start, Took: time.Second})
	spans := m.commands(m.span("redlock extend"))
	require.Len(t, spans, len(votes))
	for i, s := range spans {
		attrs := attributes(s.Attributes)
		require.Equal(t, "EVALSHA /run/redis.sock", s.Name)
		require.Equal(t, "/run/redis.sock", attrs["server.address"])
		require.NotContains(t, attrs, "server.port")
		require.Equal(t, want[i].status, s.Status.Code, "%+v", votes[i])
		require.Equal(t, want[i].kind, attrs["error.type"], "%+v", votes[i])
		require.Equal(t, want[i].code, attrs["db.response.status_code"], "%+v", votes[i])
		require.True(t, s.StartTime.Equal(start) && s.EndTime.Equal(at))
		if votes[i].Err != nil {
			require.NotEmpty(t, attrs["redlock.error"])
		}
	}
}
