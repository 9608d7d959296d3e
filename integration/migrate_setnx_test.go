package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

const healAfter = 200 * time.Millisecond

func TestMigrate_ASetNXWithoutItsExpireIsReportedAndHealed(t *testing.T) {
	s := newOldServers(t, 1)
	ctx := bounded(t)
	conn := s.conns[0]
	require.Equal(t, int64(1), conn.Do(ctx, "SETNX", "lock:job", "old").Val())

	for range 2 {
		_, err := s.locker(t, redlock.WithKeyPrefix("lock:")).TryLock(ctx, "job")
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.ErrorIs(t, err, nodeerr.ErrNoExpiry)
	}
	require.Equal(t, []string{"old"}, s.values(t, "lock:job"))

	lock, err := s.locker(t, redlock.WithKeyPrefix("lock:"), redlock.WithHeal(healAfter)).Lock(ctx, "job")
	require.NoError(t, err)
	s.requireStays(t, "lock:job", lock.Token())

	// The old client was not dead, but slow: its EXPIRE is for whoever holds the key.
	require.True(t, conn.PExpire(ctx, "lock:job", shortTTL).Val())
	s.requireNothing(t, "lock:job")
	requireSecondHolder(ctx, t, lock, s.locker(t, redlock.WithKeyPrefix("lock:")), "job")
}

func TestMigrate_AnExpireOfOneThatHasNotWonEndsOurLock(t *testing.T) {
	s := newOldServers(t, 1)
	ctx := bounded(t)
	lock, err := s.locker(t).TryLock(ctx, "job")
	require.NoError(t, err)

	var won *redis.IntCmd
	_, err = s.conns[0].Pipelined(ctx, func(p redis.Pipeliner) error {
		won = redis.NewIntCmd(ctx, "SETNX", "job", "old")
		_ = p.Process(ctx, won) // fails with the pipeline
		return p.PExpire(ctx, "job", shortTTL).Err()
	})
	require.NoError(t, err)
	require.Zero(t, won.Val(), "it has been refused")
	s.requireNothing(t, "job")
	requireSecondHolder(ctx, t, lock, s.locker(t), "job")
}

func TestMigrate_ADelThatFollowsAGetDeletesOurLock(t *testing.T) {
	s := newOldServers(t, 1)
	ctx := bounded(t)
	conn := s.conns[0]
	require.True(t, setNXPX(ctx, conn, "job", "old", longTTL))
	require.Equal(t, "old", conn.Get(ctx, "job").Val(), "it is about to release its lock")
	require.True(t, conn.PExpire(ctx, "job", shortTTL).Val()) // its TTL ends
	lock, err := s.locker(t).Lock(ctx, "job")
	require.NoError(t, err)
	require.Equal(t, int64(1), conn.Del(ctx, "job").Val())
	requireSecondHolder(ctx, t, lock, s.locker(t), "job")
}

func TestMigrate_ADelWithoutACompareDeletesOurLock(t *testing.T) {
	s := newOldServers(t, 1)
	ctx := bounded(t)
	conn := s.conns[0]

	for name, acquire := range map[string]func(t *testing.T, locker *redlock.Locker) *redlock.Lock{
		"of a holder that is late": func(t *testing.T, locker *redlock.Locker) *redlock.Lock {
			require.True(t, setNXPX(ctx, conn, "job", "old", shortTTL))
			lock, err := locker.Lock(ctx, "job")
			require.NoError(t, err)
			return lock
		},
		"of one that was refused": func(t *testing.T, locker *redlock.Locker) *redlock.Lock {
			lock, err := locker.TryLock(ctx, "job")
			require.NoError(t, err)
			require.False(t, setNXPX(ctx, conn, "job", "old", longTTL))
			return lock
		},
	} {
		t.Run(name, func(t *testing.T) {
			lock := acquire(t, s.locker(t))
			require.Equal(t, int64(1), conn.Del(ctx, "job").Val())
			requireSecondHolder(ctx, t, lock, s.locker(t), "job")
		})
	}
}

func TestMigrate_ALockThatIsRenewedIsLostSoonAfterADel(t *testing.T) {
	s := newOldServers(t, 1)
	ctx := bounded(t)
	err := s.locker(t).Do(ctx, "job", func(ctx context.Context, lock *redlock.Lock) error {
		require.Eventually(t, func() bool { return s.tracked(t)[0] > 0 }, settleBound, settleLook, "it is not renewed")
		require.Equal(t, int64(1), s.conns[0].Del(ctx, "job").Val())
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wakeTime): // the next renewal is minutes away
			return lock.Err()
		}
	})
	require.ErrorIs(t, err, redlock.ErrGone)
}
