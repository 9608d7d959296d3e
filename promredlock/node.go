package promredlock

import (
	"errors"

	"github.com/quorumlock/quorumlock/internal/outcome"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// node is what is known of a node. Events do not say which Locker they are from, so connections are counted.
type node struct {
	known       bool // there is a connection, or an attempt to make one
	connections int
	quarantine  outcome.Quarantine
}

// node returns the node with an address.
func (c *Collector) node(addr string) *node {
	n, ok := c.nodes[text(addr)]
	if !ok {
		n = &node{}
		c.nodes[text(addr)] = n
		c.disconnects.of(labels{addr})
		c.connectFailures.of(labels{addr})
		c.fenceRaises.of(labels{addr})
	}
	return n
}

func (n *node) connected(e event.NodeUp) {
	n.known = true
	n.connections++
	n.quarantine = outcome.QuarantineOf(e.At, e.Quarantined, e.Left)
}

// down notes that a connection broke, or that an attempt to connect failed. A node that is closed is not down: nobody uses it.
func (c *Collector) down(e event.NodeDown) {
	n, closed := c.node(e.Addr), errors.Is(e.Err, nodeerr.ErrClosed)
	if e.Failed == 0 {
		n.connections = max(0, n.connections-1)
	}
	n.known = !closed || n.connections > 0
	switch {
	case closed:
	case e.Failed == 0:
		c.disconnects.of(labels{e.Addr}).Inc()
	default:
		c.connectFailures.of(labels{e.Addr}).Inc()
	}
}

// state is a node at a moment.
type state struct {
	addr            string
	up, quarantined bool
}

// states returns the state of the nodes that are used.
func (c *Collector) states() []state {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	states := make([]state, 0, len(c.nodes))
	for addr, n := range c.nodes {
		if n.known {
			up := n.connections > 0
			states = append(states, state{addr, up, up && n.quarantine.Lasts(now)})
		}
	}
	return states
}
