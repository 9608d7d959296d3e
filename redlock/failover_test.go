package redlock_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// The danger: each service that has failed over is lost to a program until it restarts. After the second its renewed lock is lost, and
// no other can be taken.
func TestLock_OutlivesServicesThatFailOverOneAfterTheOther(t *testing.T) {
	t.Parallel()
	const ttl = time.Minute
	services := map[string]*testredis.Service{"a:6379": testredis.NewService(t), "b:6379": testredis.NewService(t), "c:6379": testredis.NewService(t)}
	nodes := open(t, []string{"redis://a:6379", "redis://b:6379", "redis://c:6379"},
		pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			return services[address].Dial(ctx, network, address)
		}))
	locker, fake, seen := timed(t, nodes)
	lock := seen.takeOnAll(t, locker, 3, redlock.TTL(ttl), redlock.AutoExtend())
	seen.renewed(t, fake, 0, ttl)
	for _, s := range services {
		s.FailOver()
		seen.renewed(t, fake, seen.renewals(), ttl) // the node of the service says READONLY
		unlock(t, seen.takeOnAll(t, locker, 3))     // and has found its primary
		seen.renewed(t, fake, seen.renewals(), ttl) // which holds the renewed lock
		require.NoError(t, lock.Err())
	}
	unlock(t, lock)
}
