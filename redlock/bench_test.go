package redlock_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

func newBenchLocker(b *testing.B) *redlock.Locker {
	nodes, err := pool.Open(testredis.URLs(testredis.Real(b, 5)), pool.WithTimeout(time.Second))
	require.NoError(b, err)
	locker, err := redlock.New(nodes)
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, locker.Close())
		for _, n := range nodes {
			require.NoError(b, n.Close())
		}
	})
	return locker
}

// One caller on an idle set of nodes: the latency of a lock and its release.
func BenchmarkAcquireReleaseOneCaller(b *testing.B) {
	locker := newBenchLocker(b)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		lock, err := locker.TryLock(ctx, "bench")
		require.NoError(b, err)
		require.NoError(b, lock.Unlock(ctx))
	}
}

// 64 callers, each with a name of its own: cycles per second.
func BenchmarkAcquireRelease64Callers(b *testing.B) {
	locker := newBenchLocker(b)
	ctx := context.Background()
	b.ReportAllocs()
	b.SetParallelism(32)
	var callers atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		name := fmt.Sprintf("bench-%d", callers.Add(1))
		for pb.Next() {
			lock, err := locker.TryLock(ctx, name)
			if err != nil {
				b.Error(err)
				return
			}
			if err := lock.Unlock(ctx); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
