// Package cluster makes nodes of a Redis Cluster. The keys of a node have a hash tag of their own, so all of them are in
// one hash slot. The server of the node is the master that has this slot.
//
// The files:
//   - cluster.go: a cluster, its nodes, and the search for the server of a node
//   - slots.go: what a server of the cluster says
//   - tag.go: the tags of the nodes
package cluster

import (
	"context"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/internal/inquiry"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/wire"
)

const (
	// MaxNodes is how many nodes can be made of a cluster, at most.
	MaxNodes = 16
	// maxMasters bounds how many servers are remembered beside the servers that the program has named.
	maxMasters = 16
)

var kind = inquiry.Kind{Name: "cluster node", IsNot: "it is not in cluster mode"}

// Cluster is a Redis Cluster. It is safe for concurrent use.
type Cluster struct {
	servers []node.Server // that the program has named
	search  inquiry.Search

	mu      sync.Mutex
	masters []string // the addresses of some, from the latest answer
}

// New returns the cluster to which these servers belong.
func New(servers []node.Server) *Cluster { return &Cluster{servers: servers} }

// Servers returns how to reach the servers that the program has named.
func (c *Cluster) Servers() []node.Server { return c.servers }

// Node is the [node.Finder] of one node of a cluster.
type Node struct {
	*Cluster
	tag  string
	slot int
}

// Node returns the i-th of n nodes.
func (c *Cluster) Node(i, n int) *Node {
	tag, slot := tagOf(i, n)
	return &Node{Cluster: c, tag: tag, slot: slot}
}

// Name returns the tag without its braces.
func (n *Node) Name() string { return n.tag }

// Tag returns what all keys of the node begin with.
func (n *Node) Tag() string { return "{" + n.tag + "}" }

// Slot returns the hash slot of the tag.
func (n *Node) Slot() int { return n.slot }

// Find asks the servers for the address of the master that has the slot of the node. A server that has lost contact with
// the cluster, or has not heard of the last change, is believed only if no other one answers.
func (n *Node) Find(ctx context.Context) (address string, err error) {
	known := n.known()
	return n.search.Find(ctx, len(known), func(ctx context.Context, i int) inquiry.Answer { return n.Ask(ctx, known[i]) })
}

// Follow waits until ctx ends. A server that has lost a slot says so when it is asked for a key.
func (n *Node) Follow(ctx context.Context, _ func(to string)) { <-ctx.Done() }

// known returns the servers that can be asked.
func (c *Cluster) known() []node.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := slices.Clone(c.servers)
	for _, address := range c.masters {
		s := c.servers[0]
		s.Address = address
		if !slices.ContainsFunc(c.servers, func(named node.Server) bool { return named.Address == address }) {
			known = append(known, s)
		}
	}
	return known
}

// learn remembers some of the masters.
func (c *Cluster) learn(masters []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.masters = masters
}

// Ask asks one server for the master that has the slot. The Epoch is 0 if the server has lost contact with the cluster.
func (n *Node) Ask(ctx context.Context, s node.Server) (a inquiry.Answer) {
	ctx, cancel := context.WithTimeout(ctx, inquiry.Patience)
	defer cancel()
	t, err := inquiry.Begin(ctx, kind, s)
	if err != nil {
		return inquiry.Answer{Err: err}
	}
	defer t.End()
	var masters []string
	a.Err = t.Ask([][]string{{"CLUSTER", "SLOTS"}, {"CLUSTER", "INFO"}}, func(i int, v *wire.Value) (err error) {
		if i == 0 {
			a.Address, masters, err = owner(v, n.slot, s.Address)
			return err
		}
		a.Epoch, err = epochIn(v)
		return err
	})
	if a.Err == nil {
		n.learn(masters)
	}
	return a
}
