package nodes

import (
	"cmp"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/cluster"
	"github.com/quorumlock/quorumlock/internal/invalid"
	"github.com/quorumlock/quorumlock/pool"
)

// Cluster is a Redis Cluster, of which some nodes are made.
type Cluster struct {
	Addresses []string // of some of its servers
	Nodes     int      // how many
}

// OpenCluster makes the nodes of the Cluster of s. They have the tags, stamps and names of those that package pool makes of a
// URL with the same addresses. The errors call s options.
func OpenCluster(s *Server, opts []pool.Option) ([]*pool.Node, error) {
	if err := checkOptions(opts); err != nil {
		return nil, err
	}
	if n := s.Cluster.Nodes; n < 1 || n > cluster.MaxNodes {
		return nil, invalid.Errorf("%d nodes of a cluster: must be from 1 to %d, the same number in all programs", n, cluster.MaxNodes)
	}
	url, err := s.Cluster.url(s.TLS != nil)
	if err != nil {
		return nil, invalid.Errorf("options: %w", err)
	}
	return pool.Open([]string{url}, s.options(opts)...)
}

// url returns a URL of the cluster. It has no password.
func (c *Cluster) url(encrypts bool) (string, error) {
	hosts, err := hostsOf("address", c.Addresses)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s+cluster://%s/?nodes=%d", map[bool]string{false: "redis", true: "rediss"}[encrypts], hosts, c.Nodes), nil
}

// name returns the name of the i-th node, which is that of a node of a URL.
func (c *Cluster) name(i int) string {
	first, _ := hostPort(c.Addresses[0])
	return cluster.New(nil).Node(i, c.Nodes).Name() + "@" + cmp.Or(first, c.Addresses[0])
}
