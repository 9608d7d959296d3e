package contest_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/contest"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openLocker(t *testing.T, servers []*testredis.Process, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	opts = append(opts, pool.WithTimeout(10*time.Second), pool.WithDialTimeout(10*time.Second))
	locker, err := redlock.Open(testredis.URLs(servers), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, locker.Close()) })
	return locker
}

// The danger: a cron job that runs on no machine, as each had some of the nodes.
func TestTryLock_OfManyMachinesAtOnceOneGetsTheLock(t *testing.T) {
	t.Parallel()
	servers := testredis.Real(t, 5)
	var lockers []*redlock.Locker
	for range 8 {
		lockers = append(lockers, openLocker(t, servers))
	}
	const ticks = 60
	for range ticks {
		var wins atomic.Int64
		var last atomic.Pointer[redlock.Lock]
		var all sync.WaitGroup
		start := make(chan struct{})
		for _, locker := range lockers {
			all.Go(func() {
				<-start
				lock, err := contest.TryLock(t.Context(), locker, "job", redlock.TTL(time.Minute))
				if err == nil {
					wins.Add(1)
					last.Store(lock)
				}
			})
		}
		close(start)
		all.Wait()
		require.EqualValues(t, 1, wins.Load())
		require.NoError(t, last.Load().Unlock(t.Context()))
	}
}

func TestTryLock_TriesAgainWhileNobodyHasAMajority(t *testing.T) {
	t.Parallel()
	servers := testredis.Real(t, 5)
	locker := openLocker(t, servers)
	lock, err := locker.TryLock(t.Context(), "connects")
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
	for i, s := range servers[:4] {
		_, err := s.Do("SET", "job", []string{"one", "other"}[i/2], "PX", 40)
		require.NoError(t, err)
	}
	lock, err = contest.TryLock(t.Context(), locker, "job")
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
}

// rounds is an Observer that counts.
type rounds struct{ acquires atomic.Int64 }

func (r *rounds) Observe(e event.Event) {
	if _, ok := e.(event.Acquire); ok {
		r.acquires.Add(1)
	}
}

func TestTryLock_DoesNotWaitForAHolder(t *testing.T) {
	t.Parallel()
	servers := testredis.Real(t, 3)
	holder, err := openLocker(t, servers).TryLock(t.Context(), "job")
	require.NoError(t, err)
	seen := &rounds{}
	locker := openLocker(t, servers, redlock.WithObserver(seen))
	for _, s := range servers {
		_, err = s.Do("SET", "setnx", "somebody")
		require.NoError(t, err)
		_, err = s.Do("RPUSH", "data", "somebody's")
		require.NoError(t, err)
	}
	for name, want := range map[string]error{"job": redlock.ErrTaken, "setnx": redlock.ErrTaken, "data": redlock.ErrForeign} {
		_, err := contest.TryLock(t.Context(), locker, name)
		require.ErrorIs(t, err, want, name)
	}
	require.NoError(t, locker.Close())
	require.EqualValues(t, 3, seen.acquires.Load(), "one try for each name")
	require.NoError(t, holder.Unlock(t.Context()))
}
