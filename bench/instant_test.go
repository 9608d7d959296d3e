package bench_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

// BenchmarkY7_OneInstant is 5 or 20 processes that try at one instant to get a lock that is free, on three nodes, and
// on five of which one is down: in how many of 1,000 instants none gets it (none/1000). It fails if two get it.
func BenchmarkY7_OneInstant(b *testing.B) {
	for _, nodes := range []int{3, 5} {
		servers := testredis.Real(b, nodes)
		down := (nodes - 3) / 2
		for _, server := range servers[nodes-down:] {
			server.Stop()
		}
		for _, callers := range []int{5, 20} {
			b.Run(fmt.Sprintf("subject=quorumlock/nodes=%d/down=%d/callers=%d", nodes, down, callers), func(b *testing.B) {
				lockers := openLockers(b, append(empty(b, servers[:nodes-down]), addresses(servers[nodes-down:])...), callers)
				instants, none := 0, 0
				for b.Loop() {
					won := tryAtOnce(b, lockers, fmt.Sprint("instant-", instants))
					require.LessOrEqual(b, won, 1)
					instants, none = instants+1, none+1-won
				}
				b.ReportMetric(1000*float64(none)/float64(instants), "none/1000")
			})
		}
	}
}

func addresses(servers []*testredis.Process) (addrs []string) {
	for _, server := range servers {
		addrs = append(addrs, server.Addr())
	}
	return addrs
}

// tryAtOnce returns how many of some Lockers get a lock that all try to take. It is given back when all have tried.
func tryAtOnce(b *testing.B, lockers []*redlock.Locker, name string) (won int) {
	begin, locks := make(chan struct{}), make([]*redlock.Lock, len(lockers))
	var trying sync.WaitGroup
	for i, locker := range lockers {
		trying.Go(func() {
			<-begin
			lock, err := locker.TryLock(ctx, name)
			if err == nil {
				locks[i] = lock
			} else if !errors.Is(err, redlock.ErrTaken) {
				assert.NoError(b, err)
			}
		})
	}
	close(begin)
	trying.Wait()
	for _, lock := range locks {
		if lock != nil {
			won++
			require.NoError(b, lock.Unlock(ctx))
		}
	}
	return won
}
