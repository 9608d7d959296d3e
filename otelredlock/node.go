package otelredlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/quorumlock/quorumlock/internal/outcome"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// nodes are the nodes as they are connected, for the gauges. Events do not say which Locker they are from, so connections are
// counted by address.
type nodes struct {
	metrics *metrics
	meter   metric.Meter

	mu    sync.Mutex
	known map[string]*node // that somebody uses
	begun map[string]bool  // whose counters have begun

	// registering is held while registration changes, and mu is not held then: the SDK holds a mutex of its own during observe.
	registering  sync.Mutex
	registration metric.Registration // of observe, while there are nodes
}

// node is a node that is connected, or to be connected.
type node struct {
	connections int
	quarantine  outcome.Quarantine
}

func newNodes(m *metrics, meter metric.Meter) *nodes {
	return &nodes{metrics: m, meter: meter, known: map[string]*node{}, begun: map[string]bool{}}
}

func (n *nodes) up(e event.NodeUp) {
	n.mu.Lock()
	begins := n.ofLocked(e.Addr)
	one := n.known[e.Addr]
	one.connections++
	one.quarantine = outcome.QuarantineOf(e.At, e.Quarantined, e.Left)
	n.mu.Unlock()
	n.changed(e.Addr, begins)
}

// quarantine notes whether a node that is connected votes.
func (n *nodes) quarantine(e event.Quarantine) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if one := n.known[e.Addr]; one != nil {
		one.quarantine = outcome.QuarantineOf(e.At, e.Quarantined, e.Left)
	}
}

// down notes that a connection broke, or that an attempt to connect failed. A node that was closed is not down: nobody uses it.
func (n *nodes) down(e event.NodeDown) {
	n.mu.Lock()
	begins := n.ofLocked(e.Addr)
	one, closed := n.known[e.Addr], errors.Is(e.Err, nodeerr.ErrClosed)
	if e.Failed == 0 {
		one.connections = max(0, one.connections-1)
	}
	if closed && one.connections == 0 {
		delete(n.known, e.Addr)
	}
	n.mu.Unlock()
	n.changed(e.Addr, begins)
	switch add := n.metrics.nodes.of(e.Addr).add; {
	case closed:
	case e.Failed == 0:
		n.metrics.disconnects.Add(context.Background(), 1, add...)
	default:
		n.metrics.connectFailures.Add(context.Background(), 1, add...)
	}
}

// ofLocked makes a node known. It returns true if its counters have to begin.
func (n *nodes) ofLocked(addr string) (begins bool) {
	if n.known[addr] == nil {
		n.known[addr] = &node{}
	}
	begins = !n.begun[addr]
	n.begun[addr] = true
	return begins
}

// changed begins the counters of a node, and has the gauges observed while there are nodes, so that an Observer of a Locker
// that was closed is not kept by the meter.
func (n *nodes) changed(addr string, begins bool) {
	if begins {
		n.metrics.beginNode(context.Background(), addr)
	}
	n.registering.Lock()
	defer n.registering.Unlock()
	n.mu.Lock()
	wanted := len(n.known) > 0
	n.mu.Unlock()
	var err error
	switch {
	case wanted && n.registration == nil:
		n.registration, err = n.meter.RegisterCallback(n.observe, n.metrics.up, n.metrics.quarantined)
	case !wanted && n.registration != nil:
		err = n.registration.Unregister()
		n.registration = nil
	}
	if err != nil {
		otel.Handle(err)
	}
}

// observe is called when metrics are collected.
func (n *nodes) observe(_ context.Context, o metric.Observer) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	for addr, one := range n.known {
		attributes := metric.WithAttributes(server(addr)...)
		up := one.connections > 0
		o.ObserveInt64(n.metrics.up, number(up), attributes)
		quarantined := up && one.quarantine.Lasts(now)
		o.ObserveInt64(n.metrics.quarantined, number(quarantined), attributes)
	}
	return nil
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
