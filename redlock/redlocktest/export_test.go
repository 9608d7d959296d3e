package redlocktest

// Set sets a key without a TTL on every node.
func (c *Cluster) Set(key, value string) {
	for _, n := range c.nodes {
		_ = n.db.Set(key, value) // fails only for keys of other types
	}
}
