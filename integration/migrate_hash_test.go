package integration_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

// Locks in a hash: a field for the owner, whose value counts how often the owner holds the lock.
var (
	hashAcquire = redis.NewScript(`if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return -2
end
return redis.call('PTTL', KEYS[1])`)
	hashRelease = redis.NewScript(`if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return false
end
return redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 or redis.call('DEL', KEYS[1])`)
)

const hashWon = int64(-2)

func TestMigrate_AHashIsNotHealed(t *testing.T) {
	s := newOldServers(t, 1)
	ctx := bounded(t)
	us, conn := s.locker(t, redlock.WithKeyPrefix("lock:"), redlock.WithHeal(time.Millisecond)), s.conns[0]
	require.NoError(t, conn.HSet(ctx, "lock:job", "client:1", 1).Err(), "without a TTL")
	for range 5 {
		_, err := us.Lock(ctx, "job")
		require.ErrorIs(t, err, redlock.ErrForeign)
	}
	require.Equal(t, map[string]string{"client:1": "1"}, conn.HGetAll(ctx, "lock:job").Val())
}

func TestMigrate_OursWaitsForAHashLockAndThatRefusesOursWithAnError(t *testing.T) {
	s := newOldServers(t, 1)
	ctx := bounded(t)
	us, conn, job := s.locker(t), s.conns[0], []string{"job"}

	won, err := hashAcquire.Run(ctx, conn, job, "client:1", longTTL.Milliseconds()).Result()
	require.NoError(t, err)
	require.Equal(t, hashWon, won)
	_, err = us.TryLock(ctx, "job")
	require.ErrorIs(t, err, redlock.ErrTaken)
	_, err = us.Lock(ctx, "job", redlock.MaxWait(100*time.Millisecond))
	require.ErrorIs(t, err, redlock.ErrTaken, "it waits")
	require.ErrorContains(t, err, "data of another program")
	_, err = us.ForceUnlock(ctx, "job")
	require.ErrorIs(t, err, redlock.ErrForeign)
	require.Equal(t, map[string]string{"client:1": "1"}, conn.HGetAll(ctx, "job").Val())
	require.True(t, conn.Persist(ctx, "job").Val())
	_, err = us.Lock(ctx, "job")
	require.ErrorIs(t, err, redlock.ErrForeign, "it does not wait for what never ends")
	require.True(t, conn.Expire(ctx, "job", longTTL).Val())
	waits := make(chan error, 1)
	var lock *redlock.Lock
	go func() {
		var err error
		lock, err = us.Lock(ctx, "job")
		waits <- err
	}()
	require.NoError(t, hashRelease.Run(ctx, conn, job, "client:1").Err())
	require.NoError(t, <-waits)

	for _, attempt := range []*redis.Script{hashAcquire, hashRelease} {
		err := attempt.Run(ctx, conn, job, "client:1", longTTL.Milliseconds()).Err()
		require.ErrorContains(t, err, "WRONGTYPE", "it does not wait either")
	}
	s.requireStays(t, "job", lock.Token())

	// A forced unlock of such a lock deletes whatever is there.
	require.Equal(t, int64(1), conn.Del(ctx, "job").Val())
	requireSecondHolder(ctx, t, lock, s.locker(t), "job")
}
