package bench_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/internal/subject"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

var waiting = subject.Named("quorumlock", "redsync", "redsync-failfast", "redsync-goredis")

// BenchmarkK_WakeUp is one who waits for a lock that another client holds: how long it takes from the beginning of the
// release until the waiter has it (p50-µs, p99-µs), and that over how long the release takes, which is one round trip at
// the same moment (round-trips). Most of ns/op is the time for which the lock is held.
func BenchmarkK_WakeUp(b *testing.B) {
	each(b, waiting, 5, func(b *testing.B, s subject.Subject, servers []*testredis.Process) {
		holder := open(b, s, servers, 1, ampleTimeout).Caller(hotName)
		waiter, ok := open(b, s, servers, 1, ampleTimeout).Caller(hotName).(subject.Waiter)
		require.True(b, ok, "it can wait")
		warm(b, holder, 100)
		releases, wakes := newLatencies(), newLatencies()
		for b.Loop() {
			released, woken := wake(b, holder, waiter)
			releases, wakes = append(releases, released), append(wakes, woken)
		}
		wakes.report(b)
		b.ReportMetric(wakes.percentile(50)/releases.percentile(50), "round-trips")
	})
}

// wake has the waiter wait for the holder. It returns how long the release takes, and how long it
// takes from its beginning until the waiter has the lock.
func wake(b *testing.B, holder subject.Caller, waiter subject.Waiter) (released, woken time.Duration) {
	require.NoError(b, holder.Acquire(ctx))
	has := make(chan time.Time)
	go func() {
		assert.NoError(b, waiter.Wait(ctx))
		has <- time.Now()
	}()
	<-time.After(20*time.Millisecond + rand.N(20*time.Millisecond)) // by then it waits
	begin := time.Now()
	require.NoError(b, holder.Release(ctx))
	released = time.Since(begin)
	woken = (<-has).Sub(begin)
	require.NoError(b, waiter.Release(ctx))
	return released, woken
}
