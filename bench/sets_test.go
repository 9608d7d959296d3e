package bench_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	// setTTL is that of the locks in Y1 and Y2, where a job renews one.
	setTTL = time.Second
	// movers work in Y1, among some processes.
	movers         = 8
	moverProcesses = 4
	accounts       = 20
	moveHold       = time.Millisecond
	// oneIn is how many calls there are in Y1 for each that wants the account of the job, for so long.
	oneIn       = 40
	jobPatience = 500 * time.Millisecond
	// busyNames are wanted by all in Y3, in several processes beside that of the sets.
	busyNames     = 8
	busyProcesses = 2
	busyHold      = 2 * time.Millisecond
)

func account(i int) string { return fmt.Sprint("account-", i) }

// BenchmarkY1_Moves is 8 workers of 4 processes that move something between two of 20 accounts: they take the locks
// of both, and have them for 1 ms (moves/s). For each 40 moves the worker's process has a call, beside the worker,
// that wants one of these accounts and another one, which a job may hold. It waits for 500 ms.
func BenchmarkY1_Moves(b *testing.B) {
	servers := testredis.Real(b, 5)
	for _, job := range []string{"no", "yes"} {
		b.Run("subject=quorumlock/nodes=5/job="+job, func(b *testing.B) {
			lockers := openLockers(b, empty(b, servers), moverProcesses+1, redlock.TTL(setTTL))
			if job == "yes" {
				holdForGood(b, lockers[moverProcesses], account(accounts))
			}
			var beside sync.WaitGroup
			moving := repeat(movers, func(i int) *worker {
				locker, calls := lockers[i%moverProcesses], 0
				return &worker{hold: moveHold, take: func() (unlocker, error) {
					if calls++; calls%oneIn == 0 {
						beside.Go(func() { assert.NoError(b, wantJob(locker)) })
					}
					from, to := rand.IntN(accounts), rand.IntN(accounts-1)
					if to >= from {
						to++
					}
					return locker.LockAll(ctx, []string{account(from), account(to)})
				}}
			})
			work(b, moving...)
			moving.perSecond(b, "moves/s")
			beside.Wait()
		})
	}
}

// wantJob is the call for the account of the job.
func wantJob(locker *redlock.Locker) error {
	w := worker{gives: true, hold: moveHold, take: func() (unlocker, error) {
		return locker.LockAll(ctx, []string{account(rand.IntN(accounts)), account(accounts)}, redlock.MaxWait(jobPatience))
	}}
	return w.turn(nil)
}

// BenchmarkY2_BesideASet is a caller that has a lock for 1 ms, and wants it again at once. It may do so beside a call
// of another process that waits for this lock and one more, which a job holds for good: how long the caller waits at
// the longest, in units of the mean time for which it has the lock (p100-holds).
func BenchmarkY2_BesideASet(b *testing.B) {
	servers := testredis.Real(b, 5)
	for _, set := range []string{"no", "yes"} {
		b.Run("subject=quorumlock/nodes=5/set="+set, func(b *testing.B) {
			lockers := openLockers(b, empty(b, servers), 3, redlock.TTL(setTTL))
			holdForGood(b, lockers[0], "b")
			caller := group{locking(lockers[1], "a", moveHold)}
			stop := start(caller...)
			waiting, cancel := context.WithCancel(ctx)
			var beside sync.WaitGroup
			if set == "yes" {
				beside.Go(func() {
					_, err := lockers[2].LockAll(waiting, []string{"a", "b"})
					assert.ErrorIs(b, err, context.Canceled)
				})
			}
			pass(b, contendedTime)
			stop(b)
			cancel()
			beside.Wait()
			hold := caller.meanHold()
			caller.waits().reportIn(b, 50, hold)
			caller.waits().reportIn(b, 100, hold)
			b.ReportMetric(milliseconds(hold), "hold-ms")
			caller.perSecond(b, "locks/s")
		})
	}
}

// BenchmarkY3_BusySets is a call for 2, 4 or 8 of 8 names, each of which two other processes want all the time, and
// have for 2 ms: how long it takes, on average (mean-holds) and at the longest (p100-holds), in units of the mean
// time for which these have a name.
func BenchmarkY3_BusySets(b *testing.B) {
	servers := testredis.Real(b, 5)
	for _, size := range []int{2, 4, 8} {
		b.Run(fmt.Sprintf("subject=quorumlock/nodes=5/names=%d", size), func(b *testing.B) {
			lockers := openLockers(b, empty(b, servers), busyProcesses+1)
			singles := repeat(busyNames*busyProcesses, func(i int) *worker {
				return locking(lockers[i%busyProcesses], account(i/busyProcesses), busyHold)
			})
			set := &worker{hold: busyHold, take: func() (unlocker, error) {
				names := make([]string, size)
				for i, n := range rand.Perm(busyNames)[:size] {
					names[i] = account(n)
				}
				return lockers[busyProcesses].LockAll(ctx, names)
			}}
			stop := start(singles...)
			failure := set.turn(nil) // by then all names are busy
			set.waits = nil
			for b.Loop() {
				failure = errors.Join(failure, set.turn(nil))
			}
			stop(b)
			require.NoError(b, failure)
			hold, sum := singles.meanHold(), time.Duration(0)
			for _, wait := range set.waits {
				sum += wait
			}
			b.ReportMetric(float64(sum)/float64(len(set.waits))/float64(hold), "mean-holds")
			set.waits.reportIn(b, 100, hold)
			b.ReportMetric(milliseconds(hold), "hold-ms")
		})
	}
}
