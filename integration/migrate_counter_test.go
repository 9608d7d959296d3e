package integration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestMigrate_ACounterAsTheLockFailsOnOurTokenAndTakesTheLockFromUs(t *testing.T) {
	s := newOldServers(t, 1)
	ctx := bounded(t)
	us, conn := s.locker(t), s.conns[0]

	lock, err := us.TryLock(ctx, "job")
	require.NoError(t, err)
	require.ErrorContains(t, conn.Incr(ctx, "job").Err(), "not an integer", "no answer that the scheme knows")
	s.requireStays(t, "job", lock.Token())
	require.NoError(t, lock.Unlock(ctx))

	require.Equal(t, int64(1), conn.Incr(ctx, "job").Val(), "it holds the lock")
	require.True(t, conn.PExpire(ctx, "job", longTTL).Val())
	require.Equal(t, int64(2), conn.Incr(ctx, "job").Val(), "another does not")
	_, err = us.TryLock(ctx, "job")
	require.ErrorIs(t, err, redlock.ErrTaken)
	require.NotErrorIs(t, err, redlock.ErrForeign)
	require.Equal(t, []string{"2"}, s.values(t, "job"))
}

func TestMigrate_ACounterThatIsDecrementedIsNeverFreeForUs(t *testing.T) {
	s := newOldServers(t, 1)
	ctx := bounded(t)
	conn := s.conns[0]
	require.Equal(t, int64(1), conn.Incr(ctx, "job").Val())
	require.Zero(t, conn.Decr(ctx, "job").Val(), "free")
	_, err := s.locker(t).TryLock(ctx, "job")
	require.ErrorIs(t, err, redlock.ErrTaken)
	require.ErrorIs(t, err, nodeerr.ErrNoExpiry)
}

func TestMigrate_AttemptsThatChangeTheKeyKeepItFromBeingHealed(t *testing.T) {
	s := newOldServers(t, 1)
	ctx := bounded(t)
	conn := s.conns[0]
	require.Equal(t, int64(1), conn.Incr(ctx, "lock:job").Val(), "and it died before its EXPIRE")
	const interval = 100 * time.Millisecond // of the attempts
	const after = 20 * interval             // so that no attempt comes too late on a slow machine
	us := s.locker(t, redlock.WithKeyPrefix("lock:"), redlock.WithHeal(after))

	attempts := time.NewTicker(interval)
	defer attempts.Stop()
	for range 2 * after / interval {
		<-attempts.C
		_, err := us.TryLock(ctx, "job")
		require.ErrorIs(t, err, nodeerr.ErrNoExpiry)
		require.Positive(t, conn.Incr(ctx, "lock:job").Val())
	}
	lock, err := us.Lock(ctx, "job")
	require.NoError(t, err, "now nobody changes it")
	require.NoError(t, lock.Unlock(ctx))
}
