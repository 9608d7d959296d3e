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

// Two of three services fail over without the latest lock, and a program connects afterwards. That is the second holder whom the restart
// guard is against: a former replica has been up for long.
func TestRestartGuard_AFailoverThatLosesTheLockGivesNoSecondHolder(t *testing.T) {
	t.Parallel()
	inTurn(t, map[string]bool{"with the guard": true, "without": false}, func(t *testing.T, guarded bool) {
		ttl := time.Minute
		if guarded {
			ttl = 3 * time.Second
		}
		services := map[string]*testredis.Service{}
		urls := []string{"redis://a:6379", "redis://b:6379", "redis://c:6379"}
		for _, name := range []string{"a:6379", "b:6379", "c:6379"} {
			services[name] = testredis.NewService(t)
			testredis.InUse(t, services[name].Primary(), name, time.Hour)
			eventually(t, func() bool {
				left, _ := services[name].Replica().Do("PTTL", testredis.Stamps+name)
				return left.(int64) > 0
			}, "the stamp is replicated as well")
		}
		program := func() *redlock.Locker {
			opts := []pool.Option{pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				return services[address].Dial(ctx, network, address)
			})}
			if guarded {
				opts = append(opts, pool.WithRestartGuard(ttl))
			}
			return lockerOver(t, open(t, urls, opts...), redlock.TTL(ttl))
		}
		for _, s := range services {
			s.Lag()
		}
		first := take(t, program(), "name")
		services["a:6379"].FailOverLate()
		services["b:6379"].FailOverLate()
		requireSecondHolder(t, first, program(), !guarded)
	})
}
