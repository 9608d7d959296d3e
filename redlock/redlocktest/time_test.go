package redlocktest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/redlocktest"
)

func TestAdvance_EndsALockBeforeItsKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		holder, another := cluster.Locker(), cluster.Locker(redlock.WithClock(nil)) // has no effect
		lock := take(t, holder, "name")
		validity := lock.Remaining()
		require.Equal(t, 10*time.Second-102*time.Millisecond, validity)
		done := lock.Done()

		cluster.Advance(validity - 1)
		require.NoError(t, lock.Err())
		require.Equal(t, time.Duration(1), lock.Remaining())
		cluster.Advance(1)
		<-done
		require.ErrorIs(t, lock.Err(), redlock.ErrExpired)

		cluster.Advance(102*time.Millisecond - 1)
		require.ErrorIs(t, refused(t, another, "name"), redlock.ErrTaken)
		cluster.Advance(1)
		take(t, another, "name")
	})
}

func TestAdvance_RenewsLocksAsTimeWould(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		one, two := cluster.Locker(), cluster.Locker(redlock.TTL(3*time.Second))
		var locks []*redlock.Lock
		for i := range 2 {
			locks = append(locks,
				take(t, one, fmt.Sprintf("one-%d", i), redlock.RenewFor(redlock.NoLimit)),
				take(t, two, fmt.Sprintf("two-%d", i), redlock.RenewFor(redlock.NoLimit)))
		}
		limited := take(t, one, "limited", redlock.RenewFor(25*time.Second))
		once := take(t, one, "once")
		cluster.Advance(24 * time.Second)
		require.NoError(t, limited.Err())
		require.ErrorIs(t, once.Err(), redlock.ErrExpired)
		cluster.Advance(6 * time.Second)
		require.ErrorIs(t, limited.Err(), redlock.ErrExpired)
		for _, lock := range locks {
			require.NoError(t, lock.Err(), lock.Name())
			require.NoError(t, lock.Unlock(t.Context()))
		}
	})
}

// lockBeside has a call of Lock wait.
func lockBeside(t *testing.T, locker *redlock.Locker, name string) <-chan *redlock.Lock {
	got := make(chan *redlock.Lock, 1)
	ctx := t.Context()
	go func() {
		lock, err := locker.Lock(ctx, name)
		assert.NoError(t, err)
		got <- lock
	}()
	return got
}

func TestAdvance_GivesALockToItsWaiter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		release := cluster.Hold("name")
		got := lockBeside(t, cluster.Locker(), "name")
		cluster.Advance(2 * time.Second)
		require.Empty(t, got)
		release()
		cluster.Advance(time.Second)
		require.NoError(t, (<-got).Err())
	})
}

func TestAdvance_GivesALockToItsWaiterWhenItsHolderIsGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		take(t, cluster.Locker(), "name", redlock.TTL(2*time.Second))
		got := lockBeside(t, cluster.Locker(), "name")
		cluster.Advance(2*time.Second - 1)
		require.Empty(t, got)
		cluster.Advance(time.Second)
		require.NoError(t, (<-got).Err())
	})
}

func TestAdvance_MayBeCalledWhereTheLockIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		locker := cluster.Locker()
		err := locker.Do(t.Context(), "name", func(ctx context.Context, lock *redlock.Lock) error {
			cluster.Advance(time.Minute)
			require.NoError(t, ctx.Err())
			cluster.Delete("name")
			cluster.Advance(10 * time.Second)
			require.ErrorIs(t, context.Cause(ctx), redlock.ErrGone)
			return nil
		})
		require.ErrorIs(t, err, redlock.ErrGone)
	})
}

func TestAdvance_MayBeCalledByManyAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		lock := take(t, cluster.Locker(), "name", redlock.RenewFor(redlock.NoLimit))
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { cluster.Advance(7 * time.Second) })
		}
		all.Wait()
		require.NoError(t, lock.Err())
	})
}

func TestBubble_MovesContextsOfTheProgramToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		cluster.Hold("name")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		begin := time.Now()
		_, err := cluster.Locker().Lock(ctx, "name")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.Equal(t, 2*time.Second, time.Since(begin))
	})
}

func TestRealTime_EndsLocksAndTheirKeys(t *testing.T) {
	t.Parallel()
	cluster := redlocktest.New(t)
	lock := take(t, cluster.Locker(), "name", redlock.TTL(2*time.Second))
	renewed := take(t, cluster.Locker(), "another name", redlock.TTL(time.Minute), redlock.RenewFor(redlock.NoLimit))
	next, err := cluster.Locker(long).Lock(t.Context(), "name")
	require.NoError(t, err)
	require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
	require.NoError(t, next.Err())
	require.NoError(t, renewed.Err())
}

func TestBubble_IsKnownAfterYears(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for range 3 {
			cluster := redlocktest.New(t)
			cluster.Advance(3 * 365 * 24 * time.Hour)
		}
	})
}

func TestMisuse_TimeThatGoesBackEndsTheTest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		require.Contains(t, blames(t, func(tb testing.TB) { redlocktest.New(tb).Advance(-time.Second) }),
			"redlocktest: Advance(-1s): time does not go back")
	})
}
