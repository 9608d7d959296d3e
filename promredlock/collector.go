package promredlock

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorumlock/quorumlock/internal/outcome"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// Collector makes metrics of the events of Lockers. It is an [event.Observer] and a [prometheus.Collector]. All methods
// may be called from any goroutine. Make one with [New].
type Collector struct {
	names func(string) string // nil means no names
	now   func() time.Time

	mu    sync.Mutex // guards the children of all families, and nodes
	nodes map[string]*node

	acquireDuration, acquireWait, acquireRounds *family[prometheus.Observer]
	roundDuration                               *family[prometheus.Observer]
	nodeDuration                                *family[prometheus.Observer]
	holdDuration                                *family[prometheus.Observer]
	extendDuration, validityLeft                *family[prometheus.Observer]
	unlockDuration                              *family[prometheus.Observer]
	renewalMargin                               prometheus.Histogram

	held                                                    *family[prometheus.Gauge]
	losses, turns                                           *family[prometheus.Counter]
	disconnects, connectFailures, fenceRaises               *family[prometheus.Counter]
	splitVotes, handoffs, stuck, healed, forced, eventDrops prometheus.Counter

	up, quarantined *prometheus.Desc
	collectors      []prometheus.Collector
}

// New returns a Collector. Register it, and pass it to redlock.WithObserver. Several Lockers may share it: their figures
// add up. A nil option is ignored. If the metrics conflict with others, the registration says so.
func New(opts ...Option) *Collector {
	o := options{durations: outcome.Durations}
	for _, opt := range opts {
		if opt != nil {
			opt.apply(&o)
		}
	}
	c := &Collector{names: o.names, now: time.Now, nodes: map[string]*node{}}
	var name []string // the last label of metrics about locks
	if o.names != nil {
		name = []string{"name"}
	}

	c.acquireDuration = c.histograms(o, "acquire_duration_seconds", o.durations,
		"Duration of calls that take a lock, by what they came to.", append([]string{"outcome", "call", "kind"}, name...)...)
	c.acquireWait = c.histograms(o, "acquire_wait_seconds", o.durations,
		"Time that calls which may wait did so before the round that acquired the lock, or in vain.", append([]string{"outcome", "kind"}, name...)...)
	c.acquireRounds = c.histograms(o, "acquire_rounds", outcome.Rounds,
		"Rounds that calls which may wait took.", append([]string{"outcome", "kind"}, name...)...)
	c.roundDuration = c.histograms(o, "round_duration_seconds", o.durations,
		"Duration of rounds: the same command to every node, until the outcome is certain.", "operation", "outcome")
	c.splitVotes = c.counter("round_split_votes_total", "Acquires that were refused although some nodes had said yes.")
	c.nodeDuration = c.histograms(o, "node_duration_seconds", o.durations,
		"Time from the beginning of a round to the answer of a node.", "node", "operation", "answer")
	c.disconnects = c.counters("node_disconnects_total", "Connections to a node that broke.", "node")
	c.connectFailures = c.counters("node_connect_failures_total", "Attempts to connect to a node that failed.", "node")
	c.held = c.gauges("lock_held", "Locks that are held.", append([]string{"kind"}, name...)...)
	c.holdDuration = c.histograms(o, "lock_hold_duration_seconds", outcome.Holds,
		"Time that locks were held, by how they ended.", append([]string{"end", "kind"}, name...)...)
	c.losses = c.counters("lock_losses_total", "Locks that ended under their holders.", append([]string{"end", "kind"}, name...)...)
	c.extendDuration = c.histograms(o, "extend_duration_seconds", o.durations,
		"Duration of extensions.", "outcome", "renewal")
	c.validityLeft = c.histograms(o, "extend_validity_left_seconds", outcome.Validities,
		"Validity that a lock had left when an extension took effect, or failed.", "renewal")
	c.renewalMargin = c.histogram(o, "renewal_margin", outcome.Margins,
		"Part of the validity that was left when a renewal took effect: normally 2/3 or more; 0 is a loss.")
	c.unlockDuration = c.histograms(o, "unlock_duration_seconds", o.durations, "Duration of calls of Unlock.", "outcome")
	c.turns = c.counters("turns_total", "Turns that were passed to, or received from, other processes.", "direction")
	c.handoffs = c.counter("handoffs_total", "Locks that were handed off to a waiter of the same Locker.")
	c.fenceRaises = c.counters("fence_raises_total", "Answers of a node whose fence counter was behind.", "node")
	c.stuck = c.counter("stuck_keys_total", "Keys without a TTL that were waited for and stayed unchanged.")
	c.healed = c.counter("healed_keys_total", "Keys without a TTL that were deleted on a node.")
	c.forced = c.counter("forced_unlocks_total", "Locks that an operator removed.")
	c.eventDrops = c.counter("observer_dropped_total", "Events that these metrics have missed.")
	c.up = prometheus.NewDesc(namespace+"node_up", "Whether there is a connection to the node.", []string{"node"}, nil)
	c.quarantined = prometheus.NewDesc(namespace+"node_quarantined", "Whether a restart guard keeps the node from voting.", []string{"node"}, nil)
	c.begin()
	return c
}

// begin makes the series whose first increase matters, at 0.
func (c *Collector) begin() {
	for _, sent := range []string{outcome.Sent, outcome.Received} {
		c.turns.of(labels{sent})
	}
	for op, outcomes := range roundOutcomes {
		for _, result := range outcomes {
			c.roundDuration.of(labels{string(op), result})
		}
	}
	if c.names == nil {
		for _, kind := range outcome.Kinds {
			c.lock(kind, "")
		}
	}
}

// lock makes the series of a kind of locks and a name that matter from their first increase on.
func (c *Collector) lock(kind, name string) {
	c.held.of(labels{kind, name})
	for _, end := range []string{outcome.Gone, outcome.Expired} {
		c.losses.of(labels{end, kind, name})
	}
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.up
	descs <- c.quarantined
	for _, collector := range c.collectors {
		collector.Describe(descs)
	}
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	for _, collector := range c.collectors {
		collector.Collect(metrics)
	}
	for _, state := range c.states() {
		metrics <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, truth(state.up), state.addr)
		metrics <- prometheus.MustNewConstMetric(c.quarantined, prometheus.GaugeValue, truth(state.quarantined), state.addr)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Groups returns all groups of events: redlock.WithObserver without groups uses it.
func (*Collector) Groups() []event.Group { return outcome.Groups() }

// Observe implements [event.Observer].
func (c *Collector) Observe(what event.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e := what.(type) {
	case protocol.Vote:
		c.node(e.Addr)
		c.nodeDuration.of(labels{e.Addr, string(e.Op), e.Answer.String()}).Observe(e.Took.Seconds())
	case protocol.Round:
		c.roundDuration.of(labels{string(e.Op), outcome.Round(e.Err)}).Observe(e.Took.Seconds())
		if e.Split {
			c.splitVotes.Inc()
		}
	case event.Acquire:
		c.acquired(e)
	case event.Extend:
		c.extended(e)
	case event.Unlock:
		c.unlockDuration.of(labels{outcome.Unlock(e.Err)}).Observe(e.Took.Seconds())
		if e.Handoff {
			c.handoffs.Inc()
		}
	case event.End:
		c.ended(e)
	case protocol.Raise:
		c.node(e.Addr)
		c.fenceRaises.of(labels{e.Addr}).Inc()
	case protocol.Turn:
		c.turns.of(labels{outcome.Direction(e)}).Inc()
	case event.NodeUp:
		c.node(e.Addr).connected(e)
	case event.Quarantine:
		c.node(e.Addr).quarantine = outcome.QuarantineOf(e.At, e.Quarantined, e.Left)
	case event.NodeDown:
		c.down(e)
	case event.Stuck:
		c.stuck.Inc()
	case event.Heal:
		c.healed.Inc()
	case event.ForceUnlock:
		c.forced.Inc()
	case event.Drop:
		c.eventDrops.Add(float64(e.Count))
	}
}

func (c *Collector) acquired(e event.Acquire) {
	name, result, call := c.name(e.Name), outcome.Acquire(e.Err), outcome.Call(e)
	if !c.acquireDuration.has(labels{result, call, e.Kind, name}) {
		for _, usual := range callOutcomes[call] {
			c.acquireDuration.of(labels{usual, call, e.Kind, name})
		}
	}
	c.acquireDuration.of(labels{result, call, e.Kind, name}).Observe(e.Took.Seconds())
	if call == outcome.Lock && !e.Reentered {
		wait := e.Wait
		if e.Err != nil {
			wait = e.Took
		}
		c.acquireWait.of(labels{result, e.Kind, name}).Observe(wait.Seconds())
		c.acquireRounds.of(labels{result, e.Kind, name}).Observe(float64(e.Rounds))
	}
	if e.Err == nil && !e.Reentered {
		c.lock(e.Kind, name)
		c.held.of(labels{e.Kind, name}).Inc()
	}
}

func (c *Collector) extended(e event.Extend) {
	renewal := "false"
	if e.Renewal {
		renewal = "true"
	}
	c.extendDuration.of(labels{outcome.Extend(e.Err), renewal}).Observe(e.Took.Seconds())
	c.validityLeft.of(labels{renewal}).Observe(e.Left.Seconds())
	if e.Renewal && e.Err == nil && e.Validity > 0 {
		c.renewalMargin.Observe(e.Left.Seconds() / e.Validity.Seconds())
	}
}

func (c *Collector) ended(e event.End) {
	name, end := c.name(e.Name), outcome.End(e)
	c.held.of(labels{e.Kind, name}).Dec()
	c.holdDuration.of(labels{end, e.Kind, name}).Observe(e.Held.Seconds())
	if end == outcome.Gone || end == outcome.Expired {
		c.losses.of(labels{end, e.Kind, name}).Inc()
	}
}

// name returns the value of the label, which is empty if there is no such label.
func (c *Collector) name(lock string) string {
	if c.names == nil {
		return ""
	}
	return c.names(lock)
}
