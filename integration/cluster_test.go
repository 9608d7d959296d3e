package integration_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ory/dockertest/v3"
	dc "github.com/ory/dockertest/v3/docker"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

const (
	size     = 5 // nodes
	majority = size/2 + 1

	settleBound = 30 * time.Second // for what is promised to happen without a date
	settleLook  = 20 * time.Millisecond
)

// cluster is five Redis containers on a Docker network of their own, node i at a fixed address in it.
//
// Fixed addresses make a container the same node again after a restart or a time away from the network, and packets to
// them vanish while it is away. Mapped ports would not do: while the container is off the network they refuse connections
// at once, which is no partition, and Docker gives it another port when it is back or started again.
type cluster struct {
	docker  *dockertest.Pool
	network *dockertest.Network
	nodes   []*node
}

// shared is the cluster of all tests. They take turns: none of them is parallel.
var shared = sync.OnceValues(newCluster)

// five returns the cluster with all its nodes up, connected and empty.
func five(t *testing.T) *cluster {
	t.Helper()
	if leftOut != "" {
		t.Skip("left out: " + leftOut)
	}
	c, err := shared()
	require.NoError(t, err)
	t.Cleanup(func() { c.heal(t) })
	c.heal(t)
	for _, n := range c.nodes {
		_, err := n.do("FLUSHALL")
		require.NoError(t, err)
	}
	return c
}

func newCluster() (*cluster, error) {
	docker, err := dockertest.NewPool("")
	if err != nil {
		return nil, err
	}
	if err := removeLeftovers(docker); err != nil {
		return nil, err
	}
	c := &cluster{docker: docker, nodes: make([]*node, size)}
	subnet, err := c.createNetwork()
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	ip := subnet.Masked().Addr()
	for range 10 { // the first addresses are the gateway's, and Docker's own choice
		ip = ip.Next()
	}
	for i := range c.nodes {
		ip = ip.Next()
		c.nodes[i] = &node{cluster: c, name: fmt.Sprintf("quorumlock-%d-%d", os.Getpid(), i), ip: ip.String()}
	}
	return c, each(c.nodes, (*node).create)
}

// createNetwork creates the network on a subnet that is written down: only there does Docker allow fixed addresses.
// Docker itself chooses one that is free, for a network that is removed again.
func (c *cluster) createNetwork() (subnet netip.Prefix, err error) {
	name := "quorumlock-" + strconv.Itoa(os.Getpid())
	labelled := func(o *dc.CreateNetworkOptions) { o.Labels = labels() }
	for range 5 { // somebody else may be given the subnet meanwhile
		draft, failure := c.docker.CreateNetwork(name, labelled)
		if failure != nil {
			return subnet, failure
		}
		info, failure := c.docker.Client.NetworkInfo(draft.Network.ID)
		if err := errors.Join(failure, draft.Close()); err != nil {
			return subnet, err
		}
		if len(info.IPAM.Config) == 0 {
			return subnet, fmt.Errorf("no subnet in %+v", info.IPAM)
		}
		if subnet, err = netip.ParsePrefix(info.IPAM.Config[0].Subnet); err != nil {
			return subnet, err
		}
		c.network, err = c.docker.CreateNetwork(name, labelled, func(o *dc.CreateNetworkOptions) {
			o.IPAM = &dc.IPAMOptions{Config: []dc.IPAMConfig{{Subnet: subnet.String()}}}
		})
		if err == nil {
			return subnet, nil
		}
	}
	return subnet, err
}

// heal brings every node back from whatever was done to it.
func (c *cluster) heal(t *testing.T) {
	t.Helper()
	require.NoError(t, each(c.nodes, (*node).heal))
}

// each calls do for all nodes side by side.
func each(nodes []*node, do func(*node) error) error {
	failures := make([]error, len(nodes))
	var doing sync.WaitGroup
	for i, n := range nodes {
		doing.Go(func() { failures[i] = do(n) })
	}
	doing.Wait()
	return errors.Join(failures...)
}

// addrs returns host:port of each node.
func (c *cluster) addrs() []string {
	addrs := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addrs[i] = n.addr()
	}
	return addrs
}

// requireNoKey waits until no node holds any key, and nothing is on its way that could still make one. The tests' TTLs are
// so long, unless they say otherwise, that no key goes by itself in this time.
func (c *cluster) requireNoKey(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return c.undelivered(t) == 0 }, settleBound, settleLook,
		"what was sent over connections that are given up does not arrive")
	left := make([][]string, len(c.nodes))
	require.Eventually(t, func() bool {
		none := true
		for i, n := range c.nodes {
			left[i] = n.keys(t)
			none = none && len(left[i]) == 0
		}
		return none
	}, settleBound, settleLook, "keys of ours stay on the nodes: %v", &left)
}

// requireOnAll waits until every node holds key with the value token.
func (c *cluster) requireOnAll(t *testing.T, key string, token redlock.Token) {
	t.Helper()
	require.Eventually(t, func() bool { return c.holding(key, token) == len(c.nodes) }, settleBound, settleLook,
		"a node does not hold %s", key)
}

// holding counts the nodes that hold key with the value token.
func (c *cluster) holding(key string, token redlock.Token) (count int) {
	for _, n := range c.nodes {
		if value, err := n.get(key); err == nil && value == string(token) {
			count++
		}
	}
	return count
}
