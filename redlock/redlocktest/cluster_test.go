package redlocktest_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/redlocktest"
)

// long is a TTL that no test outlives, also one in real time.
var long = redlock.TTL(time.Hour)

// bubble runs a test in a bubble of testing/synctest.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Parallel()
	synctest.Test(t, test)
}

// everywhere runs a test in real time and in a bubble.
func everywhere(t *testing.T, test func(t *testing.T)) {
	t.Parallel()
	t.Run("outside", func(t *testing.T) {
		t.Parallel()
		test(t)
	})
	t.Run("in a bubble", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, test)
	})
}

// take takes a lock that is free.
func take(t *testing.T, locker *redlock.Locker, name string, opts ...redlock.LockOption) *redlock.Lock {
	t.Helper()
	lock, err := locker.TryLock(t.Context(), name, opts...)
	require.NoError(t, err)
	return lock
}

// refused tries to take a lock and returns why it could not.
func refused(t *testing.T, locker *redlock.Locker, name string) error {
	t.Helper()
	_, err := locker.TryLock(t.Context(), name)
	require.Error(t, err)
	return err
}

func TestLockers_ExcludeEachOther(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		for _, n := range []int{1, 3, 5} {
			cluster := redlocktest.New(t, redlocktest.WithNodes(n))
			one, two := cluster.Locker(long), cluster.Locker(long)
			lock := take(t, one, "name")
			err := refused(t, two, "name")
			require.ErrorIs(t, err, redlock.ErrTaken)
			var refusal *redlock.QuorumError
			require.ErrorAs(t, err, &refusal)
			require.Len(t, refusal.Nodes, n)
			require.Equal(t, fmt.Sprintf("node-%d", n-1), refusal.Nodes[n-1].Addr)
			require.NoError(t, lock.Unlock(t.Context()))
			take(t, two, "name")
		}
	})
}

func TestLocker_MayBeClosedByTheProgram(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		locker := cluster.Locker(long)
		take(t, locker, "name", redlock.RenewFor(redlock.NoLimit))
		require.NoError(t, locker.Close())
		require.ErrorIs(t, refused(t, locker, "name"), redlock.ErrClosed)
		cluster.Stop(0, 1, 2)
		cluster.Start(0, 1, 2)
		take(t, cluster.Locker(long), "another name")
	})
}

func TestStop_OfAMinorityEndsNoLock(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		locker := cluster.Locker(long)
		lock := take(t, locker, "name")
		cluster.Stop(2)
		cluster.Stop(2)
		require.NoError(t, lock.Extend(t.Context(), 2*time.Hour))
		require.NoError(t, lock.Err())
		take(t, locker, "another name")
		require.NoError(t, lock.Unlock(t.Context()))
	})
}

func TestStop_OfAMajorityEndsLocksAtTheirDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		locker := cluster.Locker()
		lock := take(t, locker, "name", redlock.RenewFor(redlock.NoLimit))
		cluster.Stop(0, 1)
		require.ErrorIs(t, refused(t, locker, "another name"), redlock.ErrNoQuorum)
		cluster.Advance(lock.Remaining() - 1)
		require.NoError(t, lock.Err())
		cluster.Advance(1)
		require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
		cluster.Start(0, 1)
		take(t, locker, "another name")
	})
}

func TestStart_BringsANodeBackWithItsData(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		locker := cluster.Locker(long)
		take(t, locker, "name")
		for range 3 {
			cluster.Stop(0, 1, 2)
			require.ErrorIs(t, refused(t, locker, "name"), redlock.ErrNoQuorum)
			cluster.Start(0, 1, 2)
			require.ErrorIs(t, refused(t, locker, "name"), redlock.ErrTaken)
			require.ErrorIs(t, refused(t, cluster.Locker(long), "name"), redlock.ErrTaken)
		}
	})
}

func TestStart_TTLsHaveRunOnMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		locker := cluster.Locker()
		lock := take(t, locker, "name")
		cluster.Stop(0, 1, 2)
		cluster.Advance(10 * time.Second)
		cluster.Start(0, 1, 2)
		require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
		take(t, locker, "name")
	})
}

func TestStop_ReachesALockerThatHasNotConnectedYet(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		locker := cluster.Locker(long)
		cluster.Stop(0, 1)
		err := refused(t, locker, "name")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "node-0: not connected: the test has stopped the node")
		cluster.Start(0, 1)
		take(t, locker, "name")
	})
}

func TestWipe_MakesASecondHolderPossible(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		lock := take(t, cluster.Locker(long), "name")
		cluster.Wipe(0)
		require.ErrorIs(t, refused(t, cluster.Locker(long), "name"), redlock.ErrTaken)
		cluster.Stop(0, 1)
		cluster.Wipe(0, 1)
		cluster.Start(0, 1)
		take(t, cluster.Locker(long), "name")
		require.NoError(t, lock.Err())
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
	})
}

func TestHold_RefusesTheLockUntilItIsReleased(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		locker := cluster.Locker(redlock.WithKeyPrefix("lock:"), long)
		release := cluster.Hold("lock:name")
		cluster.Hold("name")
		require.ErrorIs(t, refused(t, locker, "name"), redlock.ErrTaken)
		state, err := locker.Inspect(t.Context(), "name")
		require.NoError(t, err)
		require.Equal(t, "redlocktest", state.Holders[0].Metadata)
		release()
		release()
		take(t, locker, "name")
	})
}

func TestHold_ItsReleaseGivesTheLockToAWaiter(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		release := cluster.Hold("name")
		got := lockBeside(t, cluster.Locker(long), "name")
		require.ErrorIs(t, refused(t, cluster.Locker(long), "name"), redlock.ErrTaken)
		require.Empty(t, got)
		release()
		require.NoError(t, (<-got).Err())
	})
}

func TestHold_DoesNotExpire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		cluster.Hold("name")
		cluster.Advance(61 * time.Minute) // its TTL is an hour
		require.ErrorIs(t, refused(t, cluster.Locker(), "name"), redlock.ErrTaken)
	})
}

func TestSteal_IsALossAtTheNextRenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		locker := cluster.Locker()
		lock := take(t, locker, "name", redlock.RenewFor(redlock.NoLimit))
		cluster.Advance(time.Second)
		release := cluster.Steal("name")
		cluster.Advance(10 * time.Second / 3)
		require.ErrorIs(t, lock.Err(), redlock.ErrGone)
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
		require.ErrorIs(t, refused(t, locker, "name"), redlock.ErrTaken, "the holder's key is not deleted")
		release()
		take(t, locker, "name")
	})
}

func TestSteal_IsALossForAnExtension(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		locker := cluster.Locker(long)
		lock := take(t, locker, "name")
		release := cluster.Steal("name")
		require.NoError(t, lock.Err(), "nothing has told the holder")
		require.ErrorIs(t, lock.Extend(t.Context(), 2*time.Hour), redlock.ErrGone)
		require.ErrorIs(t, refused(t, locker, "name"), redlock.ErrTaken, "the holder's key is not deleted")
		release()
		take(t, locker, "name")
	})
}

func TestSteal_IsFasterThanWaiters(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		cluster := redlocktest.New(t, redlocktest.WithNodes(1))
		impatient := redlock.WithBackoff(time.Microsecond, time.Microsecond)
		take(t, cluster.Locker(long), "name")
		ctx, cancel := context.WithCancel(t.Context())
		var waiters sync.WaitGroup
		for range 4 {
			locker := cluster.Locker(long, impatient)
			waiters.Go(func() {
				for ctx.Err() == nil {
					_, _ = locker.Lock(ctx, "name")
				}
			})
		}
		for range 20 {
			cluster.Steal("name")
		}
		cancel()
		waiters.Wait()
		require.ErrorIs(t, refused(t, cluster.Locker(long), "name"), redlock.ErrTaken)
	})
}

func TestDelete_LeavesTheLockFree(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		locker := cluster.Locker(long)
		lock := take(t, locker, "name")
		cluster.Delete("name")
		require.NoError(t, lock.Err(), "nothing has told the holder")
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
		take(t, locker, "name")
	})
}

// blames runs a function on a test of its own and returns what ended that test.
func blames(t *testing.T, misuse func(tb testing.TB)) string {
	tb := &victim{TB: t, ended: make(chan string, 1)}
	go func() {
		defer close(tb.ended)
		misuse(tb)
	}()
	return <-tb.ended
}

// victim is a test that only notes what ends it.
type victim struct {
	testing.TB
	ended chan string
}

func (v *victim) Fatal(args ...any) {
	v.ended <- fmt.Sprint(args...)
	runtime.Goexit()
}

func (v *victim) Fatalf(format string, args ...any) { v.Fatal(fmt.Sprintf(format, args...)) }

func TestMisuse_EndsTheTestAndNamesTheValue(t *testing.T) {
	t.Parallel()
	for want, misuse := range map[string]func(tb testing.TB, c *redlocktest.Cluster){
		"redlocktest: WithNodes(0): a lock needs at least one node": func(tb testing.TB, _ *redlocktest.Cluster) {
			redlocktest.New(tb, redlocktest.WithNodes(0))
		},
		"redlocktest: Advance(1s): this Cluster lives in real time: make it within synctest.Test": func(_ testing.TB, c *redlocktest.Cluster) {
			c.Advance(time.Second)
		},
		"redlocktest: Stop(3): the nodes are 0 to 2":            func(_ testing.TB, c *redlocktest.Cluster) { c.Stop(0, 3) },
		"redlocktest: Start(-1): the nodes are 0 to 2":          func(_ testing.TB, c *redlocktest.Cluster) { c.Start(-1) },
		"redlocktest: Wipe(): say which nodes, of 0 to 2":       func(_ testing.TB, c *redlocktest.Cluster) { c.Wipe() },
		`redlocktest: Steal("nam"): no node that is up has`:     func(_ testing.TB, c *redlocktest.Cluster) { c.Steal("nam") },
		`redlocktest: Delete("nam"): no node that is up has`:    func(_ testing.TB, c *redlocktest.Cluster) { c.Delete("nam") },
		`redlocktest: Hold("name"): redlock: acquire "name": l`: func(_ testing.TB, c *redlocktest.Cluster) { c.Hold("name") },
		`redlocktest: Hold(""): redlock: `:                      func(_ testing.TB, c *redlocktest.Cluster) { c.Hold("") },
		"redlocktest: Locker: redlock: TTL -1s: ": func(_ testing.TB, c *redlocktest.Cluster) {
			c.Locker(redlock.TTL(-time.Second))
		},
		"redlocktest: Locker: redlock: an option of package pool: ": func(_ testing.TB, c *redlocktest.Cluster) {
			c.Locker(pool.WithClientName("client"))
		},
	} {
		require.Contains(t, blames(t, func(tb testing.TB) {
			c := redlocktest.New(tb)
			if _, err := c.Locker().TryLock(t.Context(), "name"); err != nil {
				tb.Fatal(err)
			}
			misuse(tb, c)
		}), want)
	}
}

func TestMisuse_AcrossTheBorderOfABubbleEndsTheTest(t *testing.T) {
	t.Parallel()
	const want = "make the Cluster where it is used"
	require.Contains(t, blames(t, func(tb testing.TB) {
		cluster := redlocktest.New(tb)
		synctest.Test(t, func(*testing.T) {
			var misuse sync.WaitGroup // the end of tb is not that of this test
			misuse.Go(func() { cluster.Hold("name") })
			misuse.Wait()
		})
	}), want)
	require.Contains(t, blames(t, func(tb testing.TB) {
		var cluster *redlocktest.Cluster
		synctest.Test(t, func(t *testing.T) { cluster = redlocktest.New(cleaned{tb, t}) })
		cluster.Locker()
	}), want)
}

// cleaned is a test with the clean-up of another one.
type cleaned struct {
	testing.TB
	t *testing.T
}

func (c cleaned) Cleanup(f func()) { c.t.Cleanup(f) }
