package otelredlock

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/quorumlock/internal/outcome"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// Names of spans, and of span events.
const (
	spanAcquire = "redlock acquire"
	spanAttach  = "redlock attach"
	spanExtend  = "redlock extend"
	spanUnlock  = "redlock unlock"
	spanWait    = "redlock wait"
	spanHold    = "redlock hold"

	eventAnswer  = "redlock.answer"
	eventRound   = "redlock.round"
	eventFence   = "redlock.fence_raise"
	eventRenewal = "redlock.renewal"
)

// minWait is the shortest wait that has a span, if one round was enough: it takes some time to begin a round.
const minWait = time.Millisecond

// start starts a span, of which nothing but its beginning is known yet.
func (o *Observer) start(ctx context.Context, name string, kind trace.SpanKind, at time.Time, of trace.SpanContext,
	attrs ...attribute.KeyValue,
) (context.Context, trace.Span) {
	options := []trace.SpanStartOption{trace.WithTimestamp(at), trace.WithSpanKind(kind), trace.WithAttributes(attrs...)}
	if of.IsSampled() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: of}))
	}
	return o.tracer.Start(ctx, name, options...)
}

// call is what calls of all kinds have.
type call struct {
	span     string
	op       event.Op
	of       trace.SpanContext // the acquire of the lock, unless the call is it
	start    time.Time
	err      error
	result   string
	lock     string // its name
	name     string // the value of redlock.name
	kind     string // that of the lock
	rounds   *kept[event.Event]
	expected bool // err is no failure
}

// trace starts the span of a call, which has ended, and returns it with its context. Unless the span records nothing, the caller
// ends it.
func (o *Observer) trace(ctx context.Context, c call, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	attrs = append(attrs, keyOperation.String(string(c.op)), keyKind.String(c.kind))
	if o.names != nil {
		attrs = append(attrs, keyName.String(c.name))
	}
	ctx, span := o.start(ctx, c.span, trace.SpanKindInternal, c.start, c.of, attrs...)
	if !span.IsRecording() {
		return ctx, span
	}
	span.SetAttributes(keyOutcome.String(c.result))
	if c.rounds != nil {
		c.rounds.each(func(e event.Event) {
			if vote, ok := e.(protocol.Vote); ok && vote.Command != "" {
				o.commandSpan(ctx, vote)
				return
			}
			addEvent(span, e)
		})
		o.leftOut(span, c.rounds.leftOut())
	}
	if o.state.incomplete(c.start) {
		span.SetAttributes(keyIncomplete.Bool(true))
	}
	if c.err != nil && !c.expected {
		fail(span, c.result, outcome.GaveUp(c.err), describe(c.err, c.lock))
	}
	return ctx, span
}

// fail sets the status of a span. A caller whose context was cancelled has changed its mind: that is no failure, other than a
// deadline that has passed.
func fail(span trace.Span, result string, gaveUp error, description string) {
	kind := semconv.ErrorTypeKey.String(result)
	switch {
	case result == outcome.Canceled && errors.Is(gaveUp, context.Canceled):
		return
	case result == outcome.Canceled:
		kind = semconv.ErrorTypeKey.String("timeout")
	case result == outcome.Error:
		kind = semconv.ErrorTypeOther
	}
	span.SetAttributes(kind)
	span.SetStatus(codes.Error, description)
}

func (o *Observer) leftOut(span trace.Span, n int) {
	if n > 0 {
		span.SetAttributes(keyLeftOut.Int(n))
	}
}

// acquireSpan returns the span context of the call, to which others link.
func (o *Observer) acquireSpan(e event.Acquire, result, name string, rounds *kept[event.Event]) (context.Context, trace.SpanContext) {
	if o.tracer == nil {
		return e.Context, trace.SpanContext{}
	}
	span := spanAcquire
	if e.Op == event.OpAttach {
		span = spanAttach
	}
	ctx, s := o.trace(e.Context, call{
		span: span, op: e.Op, start: e.Start, err: e.Err, result: result, lock: e.Name, name: name, kind: e.Kind, rounds: rounds,
		expected: result == outcome.Taken,
	}, keyCall.String(outcome.Call(e)))
	if !s.IsRecording() {
		return ctx, s.SpanContext()
	}
	end := e.Start.Add(e.Took)
	if e.Op == event.OpAcquire {
		s.SetAttributes(keyRounds.Int(e.Rounds))
	}
	if e.Err == nil {
		s.SetAttributes(keyValidity.Float64(e.Validity.Seconds()))
	}
	if e.Reentered {
		s.SetAttributes(keyReentered.Bool(true))
	}
	if e.Handoff {
		s.SetAttributes(keyHandoff.Bool(true))
	}
	if e.Fence > 0 {
		s.SetAttributes(keyFence.Int64(int64(e.Fence))) //nolint:gosec // it is below 2^53
	}
	if until, waited := waitOf(e, end); waited {
		_, wait := o.start(ctx, spanWait, trace.SpanKindInternal, e.Start, trace.SpanContext{})
		wait.End(trace.WithTimestamp(until))
	}
	s.End(trace.WithTimestamp(end))
	return ctx, s.SpanContext()
}

// waitOf returns until when a call waited for other holders: until the round began that acquired the lock, or in vain.
func waitOf(e event.Acquire, end time.Time) (until time.Time, waited bool) {
	switch {
	case e.Op != event.OpAcquire, e.Try:
		return time.Time{}, false
	case e.Err == nil:
		return e.Start.Add(e.Wait), e.Rounds > 1 || e.Wait >= minWait
	}
	switch outcome.Acquire(e.Err) {
	case outcome.Canceled, outcome.Taken, outcome.Unanswered, outcome.NoQuorum: // but for the first by MaxWait
		return end, e.Took >= minWait
	}
	return time.Time{}, false
}

func (o *Observer) extendSpan(e event.Extend, result, name string, rounds *kept[event.Event]) context.Context {
	if o.tracer == nil {
		return e.Context
	}
	ctx, s := o.trace(e.Context, call{
		span: spanExtend, op: event.OpExtend, of: o.state.acquireOf(e.Lock), start: e.Start, err: e.Err, result: result,
		lock: e.Name, name: name, kind: e.Kind, rounds: rounds,
	})
	if s.IsRecording() {
		s.SetAttributes(keyLeft.Float64(e.Left.Seconds()), keyValidity.Float64(e.Validity.Seconds()))
		s.End(trace.WithTimestamp(e.Start.Add(e.Took)))
	}
	return ctx
}

func (o *Observer) unlockSpan(e event.Unlock, result, name string, rounds *kept[event.Event]) context.Context {
	if o.tracer == nil {
		return e.Context
	}
	ctx, s := o.trace(e.Context, call{
		span: spanUnlock, op: event.OpUnlock, of: o.state.acquireOf(e.Lock), start: e.Start, err: e.Err, result: result,
		lock: e.Name, name: name, kind: e.Kind, rounds: rounds,
	})
	if s.IsRecording() {
		s.End(trace.WithTimestamp(e.Start.Add(e.Took)))
	}
	return ctx
}

// holdSpan makes the span of a lock that has ended, beside that of its acquire.
func (o *Observer) holdSpan(e event.End, end, name string, h held) context.Context {
	if o.tracer == nil {
		return e.Context
	}
	attrs := []attribute.KeyValue{keyKind.String(e.Kind)}
	if o.names != nil {
		attrs = append(attrs, keyName.String(name))
	}
	ctx, s := o.start(e.Context, spanHold, trace.SpanKindInternal, e.Start, h.acquire, attrs...)
	if !s.IsRecording() {
		return ctx
	}
	s.SetAttributes(keyEnd.String(end))
	if h.renewals.count > 0 {
		s.SetAttributes(keyRenewals.Int(h.renewals.count), keyFailed.Int(h.failed))
	}
	h.renewals.each(func(r renewal) {
		attrs := []attribute.KeyValue{
			keyOutcome.String(outcome.Extend(r.err)), keyDuration.Float64(r.took.Seconds()),
			keyLeft.Float64(r.left.Seconds()), keyValidity.Float64(r.validity.Seconds()),
		}
		if r.err != nil {
			attrs = append(attrs, keyError.String(describe(r.err, e.Name)))
		}
		s.AddEvent(eventRenewal, trace.WithTimestamp(r.at), trace.WithAttributes(attrs...))
	})
	o.leftOut(s, h.renewals.leftOut())
	if o.state.incomplete(e.Start) {
		s.SetAttributes(keyIncomplete.Bool(true))
	}
	if end == outcome.Gone || end == outcome.Expired {
		fail(s, end, nil, text(e.Err))
	}
	s.End(trace.WithTimestamp(e.Start.Add(e.Held)))
	return ctx
}

// commandSpan makes the span of a command that a node was sent, as the conventions for calls of databases want it:
// https://opentelemetry.io/docs/specs/semconv/db/redis/.
func (o *Observer) commandSpan(call context.Context, e protocol.Vote) {
	attrs := append(server(e.Addr), semconv.DBSystemNameRedis, semconv.DBOperationName(e.Command), keyOperation.String(string(e.Op)))
	name := e.Command + " " + valid(e.Addr)
	_, span := o.start(call, name, trace.SpanKindClient, e.At.Add(-e.Took), trace.SpanContext{}, attrs...)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(answerAttributes(e)...)
	if missing(e.Answer) && e.Err != nil {
		span.SetStatus(codes.Error, text(e.Err))
	}
	span.End(trace.WithTimestamp(e.At))
}

// addEvent adds an event of a round to the span of its call.
func addEvent(span trace.Span, what event.Event) {
	switch e := what.(type) {
	case protocol.Vote:
		attrs := append(server(e.Addr), keyDuration.Float64(e.Took.Seconds()))
		attrs = append(attrs, answerAttributes(e)...)
		span.AddEvent(eventAnswer, trace.WithTimestamp(e.At), trace.WithAttributes(attrs...))
	case protocol.Round:
		attrs := []attribute.KeyValue{keyOutcome.String(outcome.Round(e.Err)), keyDuration.Float64(e.Took.Seconds())}
		if e.Split {
			attrs = append(attrs, keySplit.Bool(true))
		}
		span.AddEvent(eventRound, trace.WithTimestamp(e.At), trace.WithAttributes(attrs...))
	case protocol.Raise:
		attrs := append(server(e.Addr), keyNode.Int(e.Node),
			keyGranted.Int64(int64(e.Granted)), keyFence.Int64(int64(e.Fence))) //nolint:gosec // they are below 2^53
		span.AddEvent(eventFence, trace.WithTimestamp(e.At), trace.WithAttributes(attrs...))
	}
}
