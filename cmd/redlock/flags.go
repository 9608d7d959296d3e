package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/pool"
)

// maxTTL bounds how long a lock stays on your nodes after the tool was killed.
const maxTTL = time.Minute

// between checks that the value of a flag is in a range.
func between[T cmp.Ordered](flag string, value, least, most T) error {
	if value >= least && value <= most {
		return nil
	}
	return fmt.Errorf("%s must be between %v and %v, not %v", flag, least, most, value)
}

// checkTimeout checks the flag --timeout.
func checkTimeout(timeout, ttl time.Duration) error {
	if err := between("--timeout", timeout, time.Millisecond, ttl/4); err != nil {
		return fmt.Errorf("%w: at most a quarter of the TTL", err)
	}
	return nil
}

// checkURLs checks the flag --nodes. The error never repeats a password.
func checkURLs(urls []string) error {
	nodes, err := pool.Open(urls)
	if err != nil {
		return fmt.Errorf("--nodes: %w", err)
	}
	for _, node := range nodes {
		_ = node.Close() // nothing was connected
	}
	return nil
}
