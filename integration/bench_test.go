package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	benchCallers = 64
	benchTTL     = 10 * time.Second
)

// acquire takes the lock of a name and returns what gives it back.
type acquire func(ctx context.Context, name string) (release func(context.Context) error, err error)

// eachClient runs a benchmark with both clients, one after the other on the same five servers.
func eachClient(b *testing.B, run func(*testing.B, acquire)) {
	servers := redistest.Real(b, size)
	addrs := make([]string, size)
	for i, s := range servers {
		addrs[i] = s.Addr()
	}
	b.Run("quorumlock", func(b *testing.B) {
		locker := newClient(b, addrs, ampleTimeout, redlock.WithTTL(benchTTL))
		run(b, func(ctx context.Context, name string) (func(context.Context) error, error) {
			lock, err := locker.TryLock(ctx, name)
			if err != nil {
				return nil, err
			}
			return lock.Unlock, nil
		})
	})
	b.Run("redsync", func(b *testing.B) {
		client := newRedsync(b, addrs)
		run(b, func(ctx context.Context, name string) (func(context.Context) error, error) {
			mutex := client.NewMutex(name, redsync.WithExpiry(benchTTL))
			if err := mutex.TryLockContext(ctx); err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				_, err := mutex.UnlockContext(ctx)
				return err
			}, nil
		})
	})
}

// BenchmarkAcquire is one caller: how long it waits for a lock in the middle of cases (p50-µs). ns/op includes the release.
func BenchmarkAcquire(b *testing.B) {
	eachClient(b, func(b *testing.B, lock acquire) {
		ctx := context.Background()
		release, err := lock(ctx, "bench") // connects
		require.NoError(b, err)
		require.NoError(b, release(ctx))

		var waits []time.Duration
		for b.Loop() {
			begin := time.Now()
			release, err := lock(ctx, "bench")
			waits = append(waits, time.Since(begin))
			if err == nil {
				err = release(ctx)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		slices.Sort(waits)
		b.ReportMetric(float64(waits[len(waits)/2])/float64(time.Microsecond), "p50-µs")
	})
}

// BenchmarkCycles64 is 64 callers, each with a name of its own: how many locks they take and give back together (cycles/s).
func BenchmarkCycles64(b *testing.B) {
	eachClient(b, func(b *testing.B, lock acquire) {
		require.NoError(b, cycle(lock, 10*benchCallers)) // connects
		b.ResetTimer()
		require.NoError(b, cycle(lock, int64(b.N)))
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cycles/s")
	})
}

// cycle takes and gives back n locks, by all callers together.
func cycle(lock acquire, n int64) error {
	ctx := context.Background()
	var taken atomic.Int64
	failures := make(chan error, benchCallers)
	for i := range benchCallers {
		name := fmt.Sprintf("bench-%d", i)
		go func() {
			var failure error
			for failure == nil && taken.Add(1) <= n {
				release, err := lock(ctx, name)
				if err == nil {
					err = release(ctx)
				}
				failure = err
			}
			failures <- failure
		}()
	}
	var all []error
	for range benchCallers {
		all = append(all, <-failures)
	}
	return errors.Join(all...)
}
