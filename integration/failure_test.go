package integration_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// failure is a way in which nodes go away. They come back by heal.
type failure struct {
	name  string
	begin func(*node) error
	wipes bool // the node forgets its keys
	long  bool // it goes on until the clients have given up their connections
}

var (
	paused   = failure{name: "paused", begin: (*node).pause}
	killed   = failure{name: "killed", begin: (*node).kill, wipes: true}
	cutOff   = failure{name: "cut off the network", begin: (*node).disconnect}
	failures = []failure{paused, killed, cutOff}
)

// eachFailure runs test for all ways in which gone of the five nodes go away, for a short time and for a long one.
func eachFailure(t *testing.T, gone int, test func(t *testing.T, c *cluster, f failure)) {
	t.Helper()
	for _, f := range failures {
		name := fmt.Sprintf("%d %s", gone, f.name)
		t.Run(name, func(t *testing.T) { test(t, five(t), f) })
		f.long = true
		t.Run(name+" for long", func(t *testing.T) { test(t, five(t), f) })
	}
}

// eachMinority runs test for one and for two nodes that go away.
func eachMinority(t *testing.T, test func(t *testing.T, c *cluster, f failure, gone int)) {
	t.Helper()
	for gone := 1; gone < majority; gone++ {
		eachFailure(t, gone, func(t *testing.T, c *cluster, f failure) { test(t, c, f, gone) })
	}
}

// take takes the first gone nodes away.
func (f failure) take(t *testing.T, c *cluster, gone int) {
	t.Helper()
	require.NoError(t, each(c.nodes[:gone], f.begin))
}

// endure returns at once where the failure is short. Where it is long, it waits until each client has given up its
// connections to the gone nodes: they are half open where the nodes are cut off. No client can get the lock of this name.
func (f failure) endure(t *testing.T, gone int, name string, clients ...*redlock.Locker) {
	t.Helper()
	if !f.long {
		return
	}
	ctx := bounded(t)
	for _, client := range clients {
		var err error
		require.Eventually(t, func() bool {
			_, err = client.TryLock(ctx, name)
			refusal := (*redlock.QuorumError)(nil)
			if !errors.As(err, &refusal) {
				return false
			}
			for _, node := range refusal.Nodes[:gone] {
				if connect := (*nodeerr.ConnectError)(nil); !errors.As(node.Err, &connect) {
					return false
				}
			}
			return true
		}, settleBound, settleLook, "a client keeps connections to nodes that are away: %v", &err)
	}
}
