package integration_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// leadingNumber is what loose languages make of a text: the number that it begins with, or 0.
func leadingNumber(text string) int64 {
	end := 0
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	n, _ := strconv.ParseInt(text[:end], 10, 64) // of nothing it is 0
	return n
}

// takeByTimestamp is the scheme whose value is the time at which the lock ends: SETNX, or GETSET if that time is over.
func takeByTimestamp(ctx context.Context, conn *redis.Client, key string, ttl time.Duration, number func(string) int64) bool {
	now := time.Now().UnixMilli()
	until := now + ttl.Milliseconds()
	if conn.Do(ctx, "SETNX", key, until).Val() == int64(1) {
		return true
	}
	if number(conn.Get(ctx, key).Val()) >= now {
		return false
	}
	old, err := conn.Do(ctx, "GETSET", key, until).Text()
	return err == nil && number(old) < now
}

func TestMigrate_ATimestampSchemeTakesOurTokenForATimeThatIsOver(t *testing.T) {
	s := newOldServers(t, 1)
	ctx := bounded(t)
	us := s.locker(t)
	lock, err := us.TryLock(ctx, "job")
	require.NoError(t, err)
	require.True(t, takeByTimestamp(ctx, s.conns[0], "job", longTTL, leadingNumber))
	require.NoError(t, lock.Err(), "two holders")
	require.Equal(t, time.Duration(-1), s.conns[0].PTTL(ctx, "job").Val(), "GETSET has removed the TTL")

	require.ErrorIs(t, lock.Extend(ctx, longTTL), redlock.ErrGone)
	require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrNotHeld)
	_, err = us.TryLock(ctx, "job")
	require.ErrorIs(t, err, redlock.ErrTaken)
	require.ErrorIs(t, err, nodeerr.ErrNoExpiry, "when its holder dies, the key stays")
}

func TestMigrate_GetSetOverwritesOurLockEvenIfTheTimestampWasRead(t *testing.T) {
	s := newOldServers(t, 1)
	ctx := bounded(t)
	conn := s.conns[0]
	// What a holder that died has left, and a client that is about to take over.
	over := time.Now().Add(-time.Minute).UnixMilli()
	require.Equal(t, int64(1), conn.Do(ctx, "SETNX", "lock:job", over).Val())
	read := conn.Get(ctx, "lock:job").Val()
	lock, err := s.locker(t, redlock.WithKeyPrefix("lock:"), redlock.WithHeal(healAfter)).Lock(ctx, "job")
	require.NoError(t, err)

	require.Equal(t, strconv.FormatInt(over, 10), read)
	old, err := conn.Do(ctx, "GETSET", "lock:job", time.Now().Add(longTTL).UnixMilli()).Text()
	require.NoError(t, err)
	require.EqualValues(t, lock.Token(), old, "the client knows that it was late, and has overwritten our token")
	require.NoError(t, lock.Err())
	require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrNotHeld)
	require.Equal(t, time.Duration(-1), conn.PTTL(ctx, "lock:job").Val(), "a key of nobody, which does not end")
}
