package otelredlock

import (
	"context"

	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/quorumlock/quorumlock/internal/outcome"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

const scope = "github.com/quorumlock/quorumlock/otelredlock"

// Observer makes spans and metrics of the events of Lockers. It is an [event.Observer]. Make one with [New]. It needs no
// Close: when its Lockers are closed, the providers keep nothing of it.
//
// Several Lockers may share an Observer, or each may have its own with the same providers: spans and sums are the same.
// Lockers that use the same servers should share it: otherwise redlock.node.up and redlock.node.quarantined show one of
// the Lockers.
type Observer struct {
	names   func(string) string // nil means no names
	tracer  trace.Tracer        // nil means no spans
	metrics *metrics
	nodes   *nodes
	state   *state
}

// New returns an Observer, for [redlock.WithObserver]. It fails if the MeterProvider refuses an instrument, or an option
// is nil.
func New(opts ...Option) (*Observer, error) {
	options, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	meter := options.meters.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))
	m, err := newMetrics(meter, options.names != nil)
	if err != nil {
		return nil, err
	}
	o := &Observer{names: options.names, metrics: m, nodes: newNodes(m, meter), state: newState()}
	if _, none := options.tracers.(noop.TracerProvider); !none {
		o.tracer = options.tracers.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))
	}
	return o, nil
}

// Groups returns all groups of events: redlock.WithObserver without groups uses it.
func (*Observer) Groups() []event.Group { return outcome.Groups() }

// Observe implements [event.Observer].
func (o *Observer) Observe(what event.Event) {
	ctx, m := context.Background(), o.metrics
	switch e := what.(type) {
	case protocol.Vote:
		m.voted(e)
		if o.tracer != nil && !e.Late {
			o.state.add(e.Call, e)
		}
	case protocol.Round:
		m.decided(e)
		if o.tracer != nil && !e.Late {
			o.state.add(e.Call, e)
		}
	case protocol.Raise:
		m.fenceRaises.Add(ctx, 1, m.nodes.of(e.Addr).add...)
		o.state.addToKnown(e.Call, e)
	case event.Acquire:
		o.acquired(e)
	case event.Extend:
		o.extended(e)
	case event.Unlock:
		o.unlocked(e)
	case event.End:
		o.ended(e)
	case protocol.Turn:
		m.turns.Add(ctx, 1, m.ways.of(outcome.Direction(e)).add...)
	case event.NodeUp:
		o.nodes.up(e)
	case event.Quarantine:
		o.nodes.quarantine(e)
	case event.NodeDown:
		o.nodes.down(e)
	case event.Stuck:
		m.stuck.Add(ctx, 1)
	case event.Heal:
		m.healed.Add(ctx, 1)
	case event.ForceUnlock:
		m.forced.Add(ctx, 1)
	case event.Drop:
		m.dropped.Add(ctx, int64(e.Count))
		o.forgotten(o.state.forget())
	}
}

func (o *Observer) acquired(e event.Acquire) {
	name, result := o.name(e.Name), outcome.Acquire(e.Err)
	rounds := o.state.end(e.Call)
	ctx, span := o.acquireSpan(e, result, name, rounds)
	o.metrics.acquired(ctx, e, result, name)
	if e.Err == nil && !e.Reentered {
		o.hold(e.Call, lockKey{e.Kind, name}, span)
	}
}

func (o *Observer) extended(e event.Extend) {
	name, result := o.name(e.Name), outcome.Extend(e.Err)
	rounds := o.state.end(e.Call)
	if e.Validity > 0 && !o.state.holds(e.Lock) { // its Acquire was missed, or what it said is forgotten
		o.hold(e.Lock, lockKey{e.Kind, name}, trace.SpanContext{})
	}
	ctx := e.Context
	if e.Renewal {
		if o.tracer != nil {
			o.state.renewed(e)
		}
	} else {
		ctx = o.extendSpan(e, result, name, rounds)
	}
	o.metrics.extended(ctx, e, result)
}

func (o *Observer) unlocked(e event.Unlock) {
	result := outcome.Unlock(e.Err)
	ctx := o.unlockSpan(e, result, o.name(e.Name), o.state.end(e.Call))
	o.metrics.unlocked(ctx, e, result)
}

func (o *Observer) ended(e event.End) {
	name, end := o.name(e.Name), outcome.End(e)
	h, known := o.state.release(e.Call)
	ctx := o.holdSpan(e, end, name, h)
	o.metrics.ended(ctx, e, end, name)
	if known {
		o.metrics.held.Add(ctx, -1, o.metrics.locks.of(h.lock).add...)
	}
}

// hold notes that a lock is held, of which span is the acquire.
func (o *Observer) hold(call uint64, lock lockKey, span trace.SpanContext) {
	o.forgotten(o.state.hold(call, held{lock: lock, acquire: span}))
	if o.metrics.named {
		o.metrics.beginLock(context.Background(), lock)
	}
	o.metrics.held.Add(context.Background(), 1, o.metrics.locks.of(lock).add...)
}

// forgotten subtracts held locks that are forgotten, of each kind and name so many.
func (o *Observer) forgotten(locks map[lockKey]int) {
	for lock, n := range locks {
		o.metrics.held.Add(context.Background(), int64(-n), o.metrics.locks.of(lock).add...)
	}
}

// name returns the value of redlock.name; it is not used without names.
func (o *Observer) name(lock string) string {
	if o.names == nil {
		return ""
	}
	return valid(o.names(lock))
}
