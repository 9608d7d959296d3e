package integration_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

func TestMigrate_AnOldClientOfOneServerRunsBesideALockerOfTwo(t *testing.T) {
	s := newOldServers(t, 2)
	ctx := bounded(t)
	us, conn := s.locker(t), s.conns[0]

	require.True(t, setNXPX(ctx, conn, "job", "old", longTTL))
	_, err := us.TryLock(ctx, "job")
	require.ErrorIs(t, err, redlock.ErrTaken)
	won := s.first(1).waitFor(ctx, t, us, "job")
	require.True(t, deleteIfEqual(ctx, conn, "job", "old"))
	lock := requireWoken(t, won)
	require.False(t, setNXPX(ctx, conn, "job", "old", longTTL))
	s.requireStays(t, "job", lock.Token())
	require.NoError(t, lock.Unlock(ctx))
	require.True(t, setNXPX(ctx, conn, "job", "old", longTTL))
}

func TestMigrate_AnOldClientOfOneServerAndALockerOfThreeAreBothInside(t *testing.T) {
	s := newOldServers(t, 3)
	ctx := bounded(t)
	conn := s.conns[0]
	require.True(t, setNXPX(ctx, conn, "job", "old", longTTL))
	lock, err := s.locker(t).TryLock(ctx, "job")
	require.NoError(t, err, "two of three nodes are free")
	require.Equal(t, "old", conn.Get(ctx, "job").Val(), "two holders")
	require.NoError(t, lock.Err())
	require.NoError(t, lock.Unlock(ctx))
	require.Equal(t, "old", conn.Get(ctx, "job").Val())
}

func TestMigrate_AnotherPrefixIsAnotherLock(t *testing.T) {
	s := newOldServers(t, 1)
	ctx := bounded(t)
	require.True(t, setNXPX(ctx, s.conns[0], "redlock:job", "old", longTTL))
	lock, err := s.locker(t).TryLock(ctx, "job")
	require.NoError(t, err, "two holders")
	require.NoError(t, lock.Unlock(ctx))
	_, err = s.locker(t, redlock.WithKeyPrefix("redlock:")).TryLock(ctx, "job")
	require.ErrorIs(t, err, redlock.ErrTaken)
}

func TestMigrate_OldClientsAreExcludedByFencedLocksAndHaveNoNumber(t *testing.T) {
	s := newOldServers(t, size)
	ctx := bounded(t)
	us := s.locker(t, redlock.WithFencing())
	mutex := newRedsync(t, s.addrs).NewMutex("job", redsync.WithExpiry(longTTL))

	var last uint64
	for range 3 {
		lock, err := us.TryLock(ctx, "job")
		require.NoError(t, err)
		require.Greater(t, lock.Fence(), last)
		last = lock.Fence()
		require.Error(t, mutex.TryLockContext(ctx))
		value := s.requireHeld(t, "job")
		require.True(t, strings.HasPrefix(value, string(lock.Token())+"|"), value)
		require.NoError(t, lock.Unlock(ctx))
		s.requireNothing(t, "job")

		require.NoError(t, mutex.TryLockContext(ctx))
		_, err = us.TryLock(ctx, "job")
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.Equal(t, mutex.Value(), s.requireHeld(t, "job"), "no number")
		ok, err := mutex.UnlockContext(ctx)
		require.NoError(t, err)
		require.True(t, ok)
		s.requireNothing(t, "job")
	}
	gate := fence.Gate{}
	write := func() error { return nil }
	require.NoError(t, gate.Run("stock", last, write))
	require.Error(t, gate.Run("stock", 0, write), "the check refuses those without a number")
}

// withBoth runs work while it holds the old lock and the new one. takeOld takes the old lock, and returns until when it may
// be relied on, and what releases it.
func withBoth(
	ctx context.Context, takeOld func(context.Context) (until time.Time, release func(), err error),
	locker *redlock.Locker, name string, work func(context.Context, *redlock.Lock) error,
) error {
	until, release, err := takeOld(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithDeadline(ctx, until) // the old lock also ends while Do waits
	defer cancel()
	return locker.Do(ctx, name, work)
}

var errOldTaken = errors.New("the old lock is taken")

func TestMigrate_HoldersOfBothLocksExcludeThoseOfEither(t *testing.T) {
	s := newOldServers(t, size)
	ctx := bounded(t)
	conn, key := s.conns[0], []string{"job"}
	us := s.locker(t, redlock.WithKeyPrefix("lock:"))
	oldTTL := longTTL
	takeOld := func(ctx context.Context) (time.Time, func(), error) {
		until := time.Now().Add(oldTTL)
		won, err := hashAcquire.Run(ctx, conn, key, "client:1", longTTL.Milliseconds()).Result()
		if err == nil && won != hashWon {
			err = errOldTaken
		}
		return until, func() { _ = hashRelease.Run(context.WithoutCancel(ctx), conn, key, "client:1") }, err
	}
	otherOld := func() bool {
		won, err := hashAcquire.Run(ctx, conn, key, "client:2", longTTL.Milliseconds()).Result()
		return err == nil && won == hashWon
	}
	ran := false
	work := func(ctx context.Context, _ *redlock.Lock) error {
		ran = true
		require.False(t, otherOld())
		_, err := us.TryLock(context.Background(), "job")
		require.ErrorIs(t, err, redlock.ErrTaken)
		return ctx.Err()
	}
	requireOldFree := func() {
		require.True(t, otherOld())
		require.NoError(t, hashRelease.Run(ctx, conn, key, "client:2").Err())
	}

	require.NoError(t, withBoth(ctx, takeOld, us, "job", work))
	require.True(t, ran)
	requireOldFree()

	// One that has only the old lock.
	ran = false
	require.True(t, otherOld())
	require.ErrorIs(t, withBoth(ctx, takeOld, us, "job", work), errOldTaken)
	require.False(t, ran)
	require.NoError(t, hashRelease.Run(ctx, conn, key, "client:2").Err())

	// One that has only the new lock. The wait for it ends with the old lock.
	lock, err := us.TryLock(ctx, "job")
	require.NoError(t, err)
	oldTTL = shortTTL
	require.ErrorIs(t, withBoth(ctx, takeOld, us, "job", work), context.DeadlineExceeded)
	require.False(t, ran)
	require.NoError(t, lock.Unlock(ctx))
	requireOldFree()

	// The work ends with the old lock, too.
	err = withBoth(ctx, takeOld, us, "job", func(ctx context.Context, _ *redlock.Lock) error {
		<-ctx.Done()
		return ctx.Err()
	})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	requireOldFree()
}
