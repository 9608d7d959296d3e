package redlock_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// nodeNames are the addresses of nodes that lead to servers as a test has it.
var nodeNames = []string{"a:6379", "b:6379", "c:6379"}

// openNamed makes nodes of the names. What each leads to dials.
func openNamed[D interface {
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}](t *testing.T, to map[string]D, opts ...pool.Option) []*pool.Node {
	t.Helper()
	var urls []string
	for _, name := range nodeNames {
		urls = append(urls, "redis://"+name)
	}
	return open(t, urls, append(opts, pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		return to[address].Dial(ctx, network, address)
	}))...)
}

// The danger: each service that has failed over is lost to a program until it restarts. After the second its renewed lock is lost, and
// no other can be taken.
func TestLock_OutlivesServicesThatFailOverOneAfterTheOther(t *testing.T) {
	t.Parallel()
	const ttl = time.Minute
	services := map[string]*testredis.Service{}
	for _, name := range nodeNames {
		services[name] = testredis.NewService(t)
	}
	locker, fake, seen := timed(t, openNamed(t, services))
	lock := seen.takeOnAll(t, locker, 3, redlock.TTL(ttl), redlock.RenewFor(redlock.NoLimit))
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
		for _, name := range nodeNames {
			services[name] = testredis.NewService(t)
			testredis.InUse(t, services[name].Primary(), name, time.Hour)
			eventually(t, func() bool {
				left, _ := services[name].Replica().Do("PTTL", testredis.Stamps+name)
				return left.(int64) > 0
			}, "the stamp is replicated as well")
		}
		program := func() *redlock.Locker {
			var opts []pool.Option
			if guarded {
				opts = append(opts, pool.WithRestartGuard(ttl))
			}
			return lockerOver(t, openNamed(t, services, opts...), redlock.TTL(ttl))
		}
		for _, s := range services {
			s.Lag()
		}
		first := take(t, program(), "name")
		services[nodeNames[0]].FailOverLate()
		services[nodeNames[1]].FailOverLate()
		requireSecondHolder(t, first, program(), !guarded)
	})
}

// The names of two of three nodes lead to other servers while the former ones live, and another program connects afterwards. It takes the guard
// and the looks to have no second holder.
func TestRestartGuard_NamesThatMoveWhileTheFormerServersLiveGiveNoSecondHolder(t *testing.T) {
	t.Parallel()
	const ttl, guard, often = time.Second, 3 * time.Second, time.Second
	inParallel(t, map[string]struct {
		guard, look time.Duration
		second      bool
	}{
		"with both":         {guard, often, false},
		"without the looks": {guard, 0, true},
		"without the guard": {0, often, true},
	}, func(t *testing.T, tt struct {
		guard, look time.Duration
		second      bool
	}) {
		servers := testredis.Real(t, 5)
		lead := map[string]*testredis.Name{}
		for i, name := range nodeNames {
			lead[name] = new(testredis.Name)
			lead[name].Lead(servers[i])
			testredis.InUse(t, servers[i], name, time.Hour)
		}
		program := func() *redlock.Locker {
			var opts []pool.Option
			if tt.guard > 0 {
				opts = append(opts, pool.WithRestartGuard(tt.guard))
			}
			nodes := openNamed(t, lead, opts...)
			for i, n := range nodes {
				config := (*node.Node)(n).Config()
				config.LookEvery = tt.look
				nodes[i] = (*pool.Node)(node.New(config))
				t.Cleanup(func() { require.NoError(t, nodes[i].Close()) })
			}
			return lockerOver(t, nodes, redlock.TTL(ttl))
		}
		before := program()
		unlock(t, take(t, before, "name"))
		lead[nodeNames[0]].Lead(servers[3])
		lead[nodeNames[1]].Lead(servers[4])
		require.Equal(t, tt.second, twoHold(t, before, program()))
	})
}

// twoHold has two programs take a lock again and again, until both hold it at once, or each has had it several times on the same servers.
func twoHold(t *testing.T, before, after *redlock.Locker) bool {
	t.Helper()
	var (
		mu      sync.Mutex
		present *redlock.Lock
		two     bool
		turns   int // of the second, and then of the first
	)
	over := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return two || turns == 40
	}
	contend := func(program *redlock.Locker, first bool) {
		for !over() {
			lock, err := program.TryLock(t.Context(), "name")
			if err == nil {
				mu.Lock()
				two = two || present != nil && present.Err() == nil && lock.Err() == nil
				present = lock
				if first == (turns >= 20) && turns < 40 {
					turns++
				}
				mu.Unlock()
			}
			<-time.After(5 * time.Millisecond)
			if err == nil {
				mu.Lock()
				present = nil
				mu.Unlock()
				_ = lock.Unlock(t.Context())
			}
		}
	}
	var programs sync.WaitGroup
	programs.Go(func() { contend(before, true) })
	programs.Go(func() { contend(after, false) })
	programs.Wait()
	return two
}
