package redlocktest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/redlocktest"
)

func TestWithFencing_NumbersRiseAlsoBeyondTheEndOfTheCounters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		fenced := func() *redlock.Locker {
			return cluster.Locker(redlock.WithFencing(), redlock.WithFenceTTL(time.Minute))
		}
		one, two := fenced(), fenced()
		last := uint64(0)
		rises := func(locker *redlock.Locker) {
			t.Helper()
			lock := take(t, locker, "name")
			require.Greater(t, lock.Fence(), last)
			last = lock.Fence()
			cluster.Delete("name")
		}
		rises(one)
		rises(two)
		cluster.Stop(0)
		rises(one)
		cluster.Start(0)
		cluster.Stop(1)
		rises(two)
		cluster.Start(1)
		cluster.Advance(time.Hour)
		rises(one)
		cluster.Wipe(0, 1, 2)
		cluster.Advance(time.Second)
		rises(two)
	})
}

func TestLockAll_TakesSeveralNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		locker := cluster.Locker(redlock.WithFencing())
		lock := take(t, locker, "b")
		_, err := locker.TryLockAll(t.Context(), []string{"a", "b"})
		require.ErrorIs(t, err, redlock.ErrTaken)
		time.AfterFunc(time.Minute, func() { _ = lock.Unlock(t.Context()) })
		locks, err := locker.LockAll(t.Context(), []string{"a", "b"})
		require.NoError(t, err)
		require.Greater(t, locks.Get("b").Fence(), lock.Fence())
		require.NoError(t, locks.Unlock(t.Context()))
	})
}

func TestShared_ReadersShareALockThatKeepsWritersOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		readers, writers := cluster.Locker(), cluster.Locker()
		read := func(locker *redlock.Locker, opts ...redlock.LockOption) *redlock.Lock {
			t.Helper()
			lock, err := locker.Lock(t.Context(), "name", append(opts, redlock.Shared())...)
			require.NoError(t, err)
			return lock
		}
		first, second := read(readers, redlock.RenewFor(redlock.NoLimit)), read(writers, redlock.TTL(time.Minute))
		writer := lockBeside(t, writers, "name")
		cluster.Advance(2 * time.Second)
		_, err := readers.TryLock(t.Context(), "name", redlock.Shared())
		require.ErrorIs(t, err, redlock.ErrTaken, "a writer waits")
		require.NoError(t, first.Unlock(t.Context()))
		cluster.Advance(2 * time.Second)
		require.Empty(t, writer)
		require.NoError(t, second.Unlock(t.Context()))
		cluster.Advance(2 * time.Second)
		require.NoError(t, (<-writer).Unlock(t.Context()))

		abandoned, lost := read(readers, redlock.TTL(10*time.Second)), read(writers, redlock.RenewFor(redlock.NoLimit))
		cluster.Advance(11 * time.Second)
		require.ErrorIs(t, abandoned.Err(), redlock.ErrExpired)
		require.NoError(t, lost.Err())
		cluster.Steal("name")
		cluster.Advance(10 * time.Second)
		require.ErrorIs(t, lost.Err(), redlock.ErrGone)
	})
}

func TestSlots_AreTakenByAsManyAsThereAre(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		one, two := cluster.Locker(), cluster.Locker()
		slot := func(locker *redlock.Locker, opts ...redlock.LockOption) *redlock.Lock {
			t.Helper()
			lock, err := locker.Lock(t.Context(), "name", append(opts, redlock.Slots(2))...)
			require.NoError(t, err)
			return lock
		}
		kept, abandoned := slot(one, redlock.RenewFor(redlock.NoLimit)), slot(two, redlock.TTL(10*time.Second))
		_, err := two.TryLock(t.Context(), "name", redlock.Slots(2))
		require.ErrorIs(t, err, redlock.ErrTaken, "none is free")
		waited := make(chan *redlock.Lock, 1)
		go func() {
			lock, err := one.Lock(t.Context(), "name", redlock.TTL(time.Minute), redlock.Slots(2))
			if assert.NoError(t, err) {
				waited <- lock
			}
		}()
		cluster.Advance(9 * time.Second)
		require.Empty(t, waited)
		cluster.Advance(2 * time.Second)
		require.ErrorIs(t, abandoned.Err(), redlock.ErrExpired)
		require.NoError(t, kept.Err())
		follower := <-waited // in the place of the one that has expired

		writer := lockBeside(t, two, "name")
		cluster.Advance(2 * time.Second)
		require.NoError(t, follower.Unlock(t.Context()))
		cluster.Advance(2 * time.Second)
		require.Empty(t, writer)
		require.NoError(t, kept.Unlock(t.Context()))
		cluster.Advance(2 * time.Second)
		require.NoError(t, (<-writer).Unlock(t.Context()))

		lost := slot(one, redlock.RenewFor(redlock.NoLimit))
		cluster.Steal("name")
		cluster.Advance(10 * time.Second)
		require.ErrorIs(t, lost.Err(), redlock.ErrGone)
	})
}

func TestInspect_ShowsWhatTheNodesHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		locker := cluster.Locker()
		lock := take(t, locker, "name", redlock.Metadata("who"), redlock.TTL(time.Minute))
		cluster.Advance(20 * time.Second)
		state, err := locker.Inspect(t.Context(), "name")
		require.NoError(t, err)
		require.Len(t, state.Holders, 1)
		holder := state.Holders[0]
		require.Equal(t, lock.Token(), holder.Token)
		require.Equal(t, "who", holder.Metadata)
		require.InDelta(t, 40*time.Second, holder.TTL, float64(time.Second)) // minus the real time of the call
	})
}

func TestAttach_TakesUpALockOfAnotherProcess(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		token, err := take(t, cluster.Locker(long), "name").Detach(t.Context())
		require.NoError(t, err)
		attached, err := cluster.Locker(long).Attach(t.Context(), "name", token)
		require.NoError(t, err)
		require.NoError(t, attached.Err())
		require.NoError(t, attached.Unlock(t.Context()))
		take(t, cluster.Locker(long), "name")
	})
}

func TestForceUnlock_FreesTheLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		locker := cluster.Locker()
		lock := take(t, cluster.Locker(), "name", redlock.RenewFor(redlock.NoLimit))
		cluster.Advance(time.Second)
		removed, err := locker.ForceUnlock(t.Context(), "name")
		require.NoError(t, err)
		require.Len(t, removed, 1)
		require.Equal(t, lock.Token(), removed[0].Token)
		take(t, locker, "name")
		cluster.Advance(10 * time.Second / 3)
		require.ErrorIs(t, lock.Err(), redlock.ErrGone)
	})
}

func TestWithHeal_DeletesAKeyWithoutATTLAfterItsTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		cluster.Set("lock:name", "stuck")
		got := lockBeside(t, cluster.Locker(redlock.WithKeyPrefix("lock:"), redlock.WithHeal(time.Second)), "name")
		cluster.Advance(900 * time.Millisecond)
		require.Empty(t, got)
		cluster.Advance(time.Second)
		require.NoError(t, (<-got).Err())
	})
}
