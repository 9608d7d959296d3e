// Package clustertest tests what makes nodes of a Redis Cluster from the options of a client.
package clustertest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/cluster"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	// Password is that of the servers.
	Password = "secret"
	// ClientName is the name that the options give to connections.
	ClientName = "biller"

	// bound is how long a test waits for what has to happen: far above what it takes.
	bound = 30 * time.Second
	tick  = 2 * time.Millisecond
	// quarantine is the restart guard, which each new master waits for.
	quarantine = 3 * time.Second
)

// Open makes three nodes of a cluster of options that have these addresses, the Password and the ClientName.
type Open func(addresses []string, opts ...pool.Option) ([]*pool.Node, error)

// Run tests that a program with options and one with the URL have the same nodes, so that they exclude each other, also when
// a master has died.
func Run(t *testing.T, open Open) {
	t.Helper()
	c := testredis.NewCluster(t, "--requirepass", Password, "--masterauth", Password, "--cluster-require-full-coverage", "no")
	seeds := c.Addrs()[:2]
	ours := opened(t, open, seeds)
	theirs := opened(t, func(addresses []string, opts ...pool.Option) ([]*pool.Node, error) {
		return pool.Open([]string{fmt.Sprintf("redis+cluster://:%s@%s/?nodes=3", Password, strings.Join(addresses, ","))}, opts...)
	}, seeds)
	requireSame(t, ours, theirs)

	a, b := over(t, ours), over(t, theirs)
	requireContention(t, a, b)
	requireExcluded(t, a, b)
	requireExcluded(t, b, a)
	for i := range ours {
		require.True(t, named(t, c.Owner(slot(i))), "node %d", i)
	}

	lock, err := a.Lock(within(t), "held", redlock.RenewFor(redlock.NoLimit))
	require.NoError(t, err)
	c.Kill(slot(0)) // also the first of the seeds
	require.Eventually(t, func() bool { return named(t, c.Owner(slot(0))) }, bound, tick, "the node has moved")
	require.NoError(t, lock.Err())
	_, err = b.TryLock(t.Context(), "held")
	require.ErrorIs(t, err, redlock.ErrTaken)
	require.NoError(t, lock.Unlock(t.Context()))
	requireExcluded(t, b, a)
}

// Join makes a cluster of one or two servers, which are masters. When it returns they are ready.
func Join(t *testing.T, servers ...*testredis.Process) {
	t.Helper()
	for i, s := range servers {
		slots := []any{"ADDSLOTS"}
		for slot := i; slot < 16384; slot += len(servers) {
			slots = append(slots, slot)
		}
		_, err := s.Do("CLUSTER", slots...)
		require.NoError(t, err)
	}
	host, port, err := net.SplitHostPort(servers[len(servers)-1].Addr())
	require.NoError(t, err)
	_, err = servers[0].Do("CLUSTER", "MEET", host, port)
	require.NoError(t, err)
	for _, s := range servers {
		require.Eventually(t, func() bool {
			info, err := s.Do("CLUSTER", "INFO")
			return err == nil && strings.Contains(string(info.([]byte)), "cluster_state:ok")
		}, bound, tick)
	}
}

// opened makes nodes, which are closed with the test.
func opened(t *testing.T, open Open, addresses []string) []*pool.Node {
	t.Helper()
	nodes, err := open(addresses, pool.WithRestartGuard(quarantine), pool.WithDialTimeout(bound), pool.WithTimeout(bound))
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, n := range nodes {
			assert.NoError(t, n.Close())
		}
	})
	return nodes
}

// over makes a Locker, which is closed with the test.
func over(t *testing.T, nodes []*pool.Node) *redlock.Locker {
	t.Helper()
	locker, err := redlock.New(nodes, redlock.TTL(quarantine))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, locker.Close()) })
	return locker
}

// requireSame tests that nodes have the tags and stamps that programs agree on, and the same names.
func requireSame(t *testing.T, ours, theirs []*pool.Node) {
	t.Helper()
	require.Len(t, ours, 3)
	require.Len(t, theirs, 3)
	for i := range ours {
		one, other := (*node.Node)(ours[i]).Config(), (*node.Node)(theirs[i]).Config()
		require.Equal(t, cluster.New(nil).Node(i, 3).Tag(), one.Server.Tag)
		require.Equal(t, other.Server.Tag, one.Server.Tag)
		require.Equal(t, other.Server.StampName(), one.Server.StampName())
		require.Equal(t, theirs[i].Addr(), ours[i].Addr())
	}
}

// requireExcluded tests that one program denies another a lock.
func requireExcluded(t *testing.T, holder, contender *redlock.Locker) {
	t.Helper()
	lock, err := holder.Lock(within(t), "name", redlock.RenewFor(redlock.NoLimit))
	require.NoError(t, err)
	_, err = contender.TryLock(t.Context(), "name")
	require.ErrorIs(t, err, redlock.ErrTaken)
	require.NoError(t, lock.Unlock(t.Context()))
}

// requireContention has two programs take turns.
func requireContention(t *testing.T, a, b *redlock.Locker) {
	t.Helper()
	var inside atomic.Int32
	var all sync.WaitGroup
	for _, locker := range []*redlock.Locker{a, b} {
		all.Go(func() {
			for range 10 {
				err := locker.Do(within(t), "contended", func(ctx context.Context, _ *redlock.Lock) error {
					assert.EqualValues(t, 1, inside.Add(1))
					defer inside.Add(-1)
					state, err := locker.Inspect(ctx, "contended")
					if err == nil {
						assert.Equal(t, redlock.VerdictHeld, state.Verdict)
					}
					return err
				})
				if !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	all.Wait()
}

// slot returns the slot of a node.
func slot(i int) int { return cluster.New(nil).Node(i, 3).Slot() }

// named reports whether a server has a connection of the options.
func named(t *testing.T, p *testredis.Process) bool {
	t.Helper()
	clients, err := p.Do("CLIENT", "LIST")
	require.NoError(t, err)
	return strings.Contains(string(clients.([]byte)), " name="+ClientName+" ")
}

// within returns a context that ends only if what is waited for does not happen.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	t.Cleanup(cancel)
	return ctx
}
