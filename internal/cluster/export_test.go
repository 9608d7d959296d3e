package cluster

import "github.com/quorumlock/quorumlock/internal/node"

// Known returns the servers that can be asked.
func (c *Cluster) Known() []node.Server { return c.known() }
