package otelredlock

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/quorumlock/quorumlock/internal/outcome"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// Keys of attribute sets.
type (
	lockKey    struct{ kind, name string }
	acquireKey struct {
		result, call string
		lock         lockKey
	}
	waitKey struct {
		result string
		lock   lockKey
	}
	roundKey struct {
		operation event.Op
		result    string
	}
	answerKey struct {
		addr      string
		operation event.Op
		answer    protocol.Answer
	}
	endKey struct {
		end  string
		lock lockKey
	}
	extendKey struct {
		result  string
		renewal bool
	}
)

// metrics are the instruments, and the attributes that they are used with.
type metrics struct {
	named bool

	acquireDuration, acquireWait, roundDuration, nodeDuration, holdDuration metric.Float64Histogram
	extendDuration, validityLeft, renewalMargin, unlockDuration             metric.Float64Histogram
	acquireRounds                                                           metric.Int64Histogram
	held                                                                    metric.Int64UpDownCounter
	splitVotes, disconnects, connectFailures, losses, handoffs              metric.Int64Counter
	turns, fenceRaises, stuck, healed, forced, dropped                      metric.Int64Counter
	up, quarantined                                                         metric.Int64ObservableGauge

	acquires *sets[acquireKey]
	waits    *sets[waitKey]
	rounds   *sets[roundKey]
	answers  *sets[answerKey]
	ends     *sets[endKey]
	extends  *sets[extendKey]
	lefts    *sets[bool]
	outcomes *sets[string]
	locks    *sets[lockKey]
	ways     *sets[string] // by direction of a turn
	nodes    *sets[string] // by address
}

// maker makes instruments, and keeps what that failed with.
type maker struct {
	meter metric.Meter
	err   error
}

func (m *maker) note(err error) { m.err = errors.Join(m.err, err) }

func (m *maker) histogram(name, unit, help string, bounds []float64) metric.Float64Histogram {
	h, err := m.meter.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(help), metric.WithExplicitBucketBoundaries(bounds...))
	m.note(err)
	return h
}

func (m *maker) counter(name, unit, help string) metric.Int64Counter {
	c, err := m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(help))
	m.note(err)
	return c
}

func (m *maker) gauge(name, help string) metric.Int64ObservableGauge {
	g, err := m.meter.Int64ObservableGauge(name, metric.WithDescription(help))
	m.note(err)
	return g
}

func newMetrics(meter metric.Meter, named bool) (*metrics, error) {
	mk, m := &maker{meter: meter}, &metrics{named: named}
	m.acquireDuration = mk.histogram("redlock.acquire.duration", "s", "Duration of calls that take a lock, by what they came to.", outcome.Durations)
	m.acquireWait = mk.histogram("redlock.acquire.wait", "s",
		"Time that calls which may wait did so before the round that acquired the lock, or in vain.", outcome.Durations)
	m.roundDuration = mk.histogram("redlock.round.duration", "s",
		"Duration of rounds: the same command to every node, until the outcome is certain.", outcome.Durations)
	m.nodeDuration = mk.histogram("redlock.node.duration", "s", "Time from the beginning of a round to the answer of a node.", outcome.Durations)
	m.holdDuration = mk.histogram("redlock.lock.hold.duration", "s", "Time that locks were held, by how they ended.", outcome.Holds)
	m.extendDuration = mk.histogram("redlock.extend.duration", "s", "Duration of extensions.", outcome.Durations)
	m.validityLeft = mk.histogram("redlock.extend.validity_left", "s",
		"Validity that a lock had left when an extension took effect, or failed.", outcome.Validities)
	m.renewalMargin = mk.histogram("redlock.renewal.margin", "",
		"Part of the validity that was left when a renewal took effect: normally 2/3 or more; 0 is a loss.", outcome.Margins)
	m.unlockDuration = mk.histogram("redlock.unlock.duration", "s", "Duration of calls of Unlock.", outcome.Durations)
	var err error
	m.acquireRounds, err = meter.Int64Histogram("redlock.acquire.rounds", metric.WithUnit("{round}"),
		metric.WithDescription("Rounds that calls which may wait took."), metric.WithExplicitBucketBoundaries(outcome.Rounds...))
	mk.note(err)
	m.held, err = meter.Int64UpDownCounter("redlock.lock.held", metric.WithUnit("{lock}"), metric.WithDescription("Locks that are held."))
	mk.note(err)
	m.splitVotes = mk.counter("redlock.round.split_votes", "{round}", "Acquires that were refused although some nodes had said yes.")
	m.disconnects = mk.counter("redlock.node.disconnects", "{connection}", "Connections to a node that broke.")
	m.connectFailures = mk.counter("redlock.node.connect_failures", "{attempt}", "Attempts to connect to a node that failed.")
	m.losses = mk.counter("redlock.lock.losses", "{lock}", "Locks that ended under their holders.")
	m.turns = mk.counter("redlock.turns", "{turn}", "Turns that were passed to, or received from, other processes.")
	m.handoffs = mk.counter("redlock.handoffs", "{lock}", "Locks that were handed off to a waiter of the same Locker.")
	m.fenceRaises = mk.counter("redlock.fence.raises", "{answer}", "Answers of a node whose fence counter was behind.")
	m.stuck = mk.counter("redlock.stuck_keys", "{key}", "Keys without a TTL that were waited for and stayed unchanged.")
	m.healed = mk.counter("redlock.healed_keys", "{key}", "Keys without a TTL that were deleted on a node.")
	m.forced = mk.counter("redlock.forced_unlocks", "{lock}", "Locks that an operator removed.")
	m.dropped = mk.counter("redlock.observer.dropped", "{event}", "Events that these metrics have missed.")
	m.up = mk.gauge("redlock.node.up", "Whether there is a connection to the node.")
	m.quarantined = mk.gauge("redlock.node.quarantined", "Whether a restart guard keeps the node from voting.")
	m.makeSets()
	if mk.err != nil {
		return nil, mk.err
	}
	m.begin()
	return m, nil
}

func (m *metrics) makeSets() {
	m.acquires = newSets(func(k acquireKey) []attribute.KeyValue {
		return m.of(k.lock, keyOutcome.String(k.result), keyCall.String(k.call))
	})
	m.waits = newSets(func(k waitKey) []attribute.KeyValue { return m.of(k.lock, keyOutcome.String(k.result)) })
	m.rounds = newSets(func(k roundKey) []attribute.KeyValue {
		return []attribute.KeyValue{keyOperation.String(string(k.operation)), keyOutcome.String(k.result)}
	})
	m.answers = newSets(func(k answerKey) []attribute.KeyValue {
		return append(server(k.addr), keyOperation.String(string(k.operation)), keyAnswer.String(k.answer.String()))
	})
	m.ends = newSets(func(k endKey) []attribute.KeyValue { return m.of(k.lock, keyEnd.String(k.end)) })
	m.extends = newSets(func(k extendKey) []attribute.KeyValue {
		return []attribute.KeyValue{keyOutcome.String(k.result), keyRenewal.Bool(k.renewal)}
	})
	m.lefts = newSets(func(renewal bool) []attribute.KeyValue { return []attribute.KeyValue{keyRenewal.Bool(renewal)} })
	m.outcomes = newSets(func(result string) []attribute.KeyValue { return []attribute.KeyValue{keyOutcome.String(result)} })
	m.locks = newSets(func(k lockKey) []attribute.KeyValue { return m.of(k) })
	m.ways = newSets(func(direction string) []attribute.KeyValue {
		return []attribute.KeyValue{keyDirection.String(direction)}
	})
	m.nodes = newSets(server)
}

// of returns the attributes of a lock: its kind, and its name if names are wanted.
func (m *metrics) of(lock lockKey, attrs ...attribute.KeyValue) []attribute.KeyValue {
	attrs = append(attrs, keyKind.String(lock.kind))
	if m.named {
		attrs = append(attrs, keyName.String(lock.name))
	}
	return attrs
}

// begin starts at 0 the counters whose first increase matters.
func (m *metrics) begin() {
	ctx := context.Background()
	for _, c := range []metric.Int64Counter{m.splitVotes, m.handoffs, m.stuck, m.healed, m.forced, m.dropped} {
		c.Add(ctx, 0)
	}
	for _, direction := range []string{outcome.Sent, outcome.Received} {
		m.turns.Add(ctx, 0, m.ways.of(direction).add...)
	}
	if !m.named {
		for _, kind := range outcome.Kinds {
			m.beginLock(ctx, lockKey{kind: kind})
		}
	}
}

func (m *metrics) beginLock(ctx context.Context, lock lockKey) {
	m.held.Add(ctx, 0, m.locks.of(lock).add...)
	for _, end := range []string{outcome.Gone, outcome.Expired} {
		m.losses.Add(ctx, 0, m.ends.of(endKey{end, lock}).add...)
	}
}

func (m *metrics) beginNode(ctx context.Context, addr string) {
	for _, c := range []metric.Int64Counter{m.disconnects, m.connectFailures, m.fenceRaises} {
		c.Add(ctx, 0, m.nodes.of(addr).add...)
	}
}

func (m *metrics) voted(e protocol.Vote) {
	m.nodeDuration.Record(context.Background(), e.Took.Seconds(), m.answers.of(answerKey{e.Addr, e.Op, e.Answer}).record...)
}

func (m *metrics) decided(e protocol.Round) {
	ctx := context.Background()
	m.roundDuration.Record(ctx, e.Took.Seconds(), m.rounds.of(roundKey{e.Op, outcome.Round(e.Err)}).record...)
	if e.Split {
		m.splitVotes.Add(ctx, 1)
	}
}

// The ctx of these is that of the call's span, for exemplars.

func (m *metrics) acquired(ctx context.Context, e event.Acquire, result, name string) {
	call, lock := outcome.Call(e), lockKey{e.Kind, name}
	m.acquireDuration.Record(ctx, e.Took.Seconds(), m.acquires.of(acquireKey{result, call, lock}).record...)
	if call == outcome.Lock && !e.Reentered {
		wait := e.Wait
		if e.Err != nil {
			wait = e.Took
		}
		record := m.waits.of(waitKey{result, lock}).record
		m.acquireWait.Record(ctx, wait.Seconds(), record...)
		m.acquireRounds.Record(ctx, int64(e.Rounds), record...)
	}
}

func (m *metrics) extended(ctx context.Context, e event.Extend, result string) {
	m.extendDuration.Record(ctx, e.Took.Seconds(), m.extends.of(extendKey{result, e.Renewal}).record...)
	m.validityLeft.Record(ctx, e.Left.Seconds(), m.lefts.of(e.Renewal).record...)
	if e.Renewal && e.Err == nil && e.Validity > 0 {
		m.renewalMargin.Record(ctx, float64(e.Left)/float64(e.Validity))
	}
}

func (m *metrics) unlocked(ctx context.Context, e event.Unlock, result string) {
	m.unlockDuration.Record(ctx, e.Took.Seconds(), m.outcomes.of(result).record...)
	if e.Handoff {
		m.handoffs.Add(ctx, 1)
	}
}

func (m *metrics) ended(ctx context.Context, e event.End, end, name string) {
	s := m.ends.of(endKey{end, lockKey{e.Kind, name}})
	m.holdDuration.Record(ctx, e.Held.Seconds(), s.record...)
	if end == outcome.Gone || end == outcome.Expired {
		m.losses.Add(ctx, 1, s.add...)
	}
}
