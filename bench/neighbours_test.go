package bench_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/internal/relay"
	"github.com/quorumlock/quorumlock/bench/internal/subject"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	// mixedHold is for how long each process of Y9 has the lock.
	mixedHold = 10 * time.Millisecond
	// nearProcesses of Y10 are near the nodes, and one is so far away.
	nearProcesses = 2
	farWay        = 5 * time.Millisecond
	distanceHold  = 2 * time.Millisecond
)

// BenchmarkY9_BesideRedsync is a process with redsync that wants a lock beside one or three Lockers. Each has it for
// 10 ms and pauses after that: how often the Lockers get it together (lockers/s), and redsync (redsync/s).
func BenchmarkY9_BesideRedsync(b *testing.B) {
	servers := testredis.Real(b, 5)
	for _, n := range []int{1, 3} {
		for _, gap := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond} {
			b.Run(fmt.Sprintf("subject=quorumlock/nodes=5/lockers=%d/pause=%s", n, gap), func(b *testing.B) {
				addrs := empty(b, servers)
				ours := repeat(n, func(int) *worker { return locking(openLockers(b, addrs, 1)[0], hotName, mixedHold) })
				waiter, ok := openAt(b, subject.Named("redsync")[0], addrs, 1, ampleTimeout).Caller(hotName).(subject.Waiter)
				require.True(b, ok, "it can wait")
				theirs := group{{hold: mixedHold, take: func() (unlocker, error) { return released{waiter}, waiter.Wait(ctx) }}}
				all := slices.Concat(ours, theirs)
				for _, w := range all {
					w.pause = gap
				}
				work(b, all...)
				ours.perSecond(b, "lockers/s")
				theirs.perSecond(b, "redsync/s")
			})
		}
	}
}

// released is a Caller that gives back its lock.
type released struct{ subject.Caller }

func (r released) Unlock(ctx context.Context) error { return r.Release(ctx) }

// BenchmarkY10_Distance is two processes near the nodes and one from which everything takes 5 ms to them, and as long
// back. Each wants the same lock all the time, and has it for 2 ms: how often one of the near ones gets it on average
// (near/s), and the far one (far/s).
func BenchmarkY10_Distance(b *testing.B) {
	servers := testredis.Real(b, 5)
	b.Run(fmt.Sprintf("subject=quorumlock/nodes=5/oneway=%s", farWay), func(b *testing.B) {
		addrs := empty(b, servers)
		between, err := relay.Launch(ctx, addrs, farWay)
		require.NoError(b, err)
		b.Cleanup(func() { assert.NoError(b, between.Close()) }) // after the Lockers
		callers := func(lockers []*redlock.Locker) group {
			return repeat(len(lockers), func(i int) *worker { return locking(lockers[i], hotName, distanceHold) })
		}
		near, far := callers(openLockers(b, addrs, nearProcesses)), callers(openLockers(b, between.Addrs(), 1))
		work(b, slices.Concat(near, far)...)
		b.ReportMetric(float64(near.turns())/nearProcesses/b.Elapsed().Seconds(), "near/s")
		far.perSecond(b, "far/s")
	})
}
