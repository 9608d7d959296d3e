package integration_test

import (
	"context"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

// newRedsync returns a redsync client with redigo pools of its own.
func newRedsync(t testing.TB, addrs []string) *redsync.Redsync {
	t.Helper()
	pools := make([]redsyncredis.Pool, len(addrs))
	for i, addr := range addrs {
		p := &redigo.Pool{MaxIdle: 64, Dial: func() (redigo.Conn, error) {
			return redigo.Dial("tcp", addr,
				redigo.DialConnectTimeout(ampleTimeout), redigo.DialReadTimeout(ampleTimeout), redigo.DialWriteTimeout(ampleTimeout))
		}}
		t.Cleanup(func() { assert.NoError(t, p.Close()) })
		pools[i] = redsyncredigo.NewPool(p)
	}
	return redsync.New(pools...)
}

func TestMigrate_RedsyncRunsSideBySide(t *testing.T) {
	s := newOldServers(t, size)
	for name, opts := range map[string][]redsync.Option{
		"by default":         nil,
		"with SetNXOnExtend": {redsync.WithSetNXOnExtend()},
	} {
		t.Run(name, func(t *testing.T) { requireSideBySide(t, s, redsyncClient(t, s, opts...)) })
	}
}

func redsyncClient(t *testing.T, s *oldServers, opts ...redsync.Option) oldClient {
	t.Helper()
	rs := newRedsync(t, s.addrs)
	return oldClient{
		value: regexp.MustCompile(`^[A-Za-z0-9+/]{22}==$`).MatchString,
		try: func(ctx context.Context, name string, ttl time.Duration) *oldLock {
			// Its node timeout is a part of the expiry.
			options := append([]redsync.Option{redsync.WithExpiry(ttl), redsync.WithTimeoutFactor(0.9)}, opts...)
			mutex := rs.NewMutex(name, options...)
			if mutex.TryLockContext(ctx) != nil {
				return nil
			}
			return &oldLock{
				extend: func(ctx context.Context) bool {
					ok, err := mutex.ExtendContext(ctx)
					return ok && err == nil
				},
				release: func(ctx context.Context) { _, _ = mutex.UnlockContext(ctx) }, // which of the two it says is not ours to test
			}
		},
	}
}

func TestMigrate_ALockThatIsHeldPassesFromRedsyncToUsAndBack(t *testing.T) {
	s := newOldServers(t, size)
	ctx := bounded(t)
	us, them := s.locker(t), newRedsync(t, s.addrs)

	mutex := them.NewMutex("theirs", redsync.WithExpiry(longTTL))
	require.NoError(t, mutex.TryLockContext(ctx))
	lock, err := us.Attach(ctx, "theirs", redlock.Token(mutex.Value()))
	require.NoError(t, err)
	require.NoError(t, lock.Extend(ctx, longTTL))
	require.NoError(t, lock.Unlock(ctx))
	s.requireNothing(t, "theirs")

	lock, err = us.TryLock(ctx, "ours")
	require.NoError(t, err)
	require.Eventually(t, func() bool { // a server that grants it later than it is released keeps the key
		return !slices.ContainsFunc(s.values(t, "ours"), func(value string) bool { return value != string(lock.Token()) })
	}, settleBound, settleLook, "it is on every server")
	token, err := lock.Detach(ctx)
	require.NoError(t, err)
	ok, err := them.NewMutex("ours", redsync.WithValue(string(token))).UnlockContext(ctx)
	require.NoError(t, err)
	require.True(t, ok)
	s.requireNothing(t, "ours")
}

func TestMigrate_RedislockRunsSideBySide(t *testing.T) {
	s := newOldServers(t, 1)
	requireSideBySide(t, s, redislockClient(s.conns[0]))
}

func redislockClient(conn *redis.Client) oldClient {
	them := redislock.New(conn)
	return oldClient{
		value: regexp.MustCompile(`^[A-Za-z0-9_-]{22}on host 1$`).MatchString,
		try: func(ctx context.Context, name string, ttl time.Duration) *oldLock {
			lock, err := them.Obtain(ctx, name, ttl, &redislock.Options{Metadata: "on host 1"})
			if err != nil {
				return nil
			}
			return &oldLock{
				extend:  func(ctx context.Context) bool { return lock.Refresh(ctx, longTTL, nil) == nil },
				release: func(ctx context.Context) { _ = lock.Release(ctx) }, // may come too late
			}
		},
	}
}

func newRueidislock(t *testing.T, addr string, majority int32, validity time.Duration) rueidislock.Locker {
	t.Helper()
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true},
		KeyMajority:    majority,
		KeyValidity:    validity,
		ExtendInterval: longTTL, // so that a lock may expire
		TryNextAfter:   ampleTimeout,
	})
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	return locker
}

func TestMigrate_RueidislockOfOneKeyRunsSideBySide(t *testing.T) {
	s := newOldServers(t, 1)
	lockers := map[time.Duration]rueidislock.Locker{}
	for _, ttl := range []time.Duration{shortTTL, longTTL} {
		lockers[ttl] = newRueidislock(t, s.addrs[0], 1, ttl)
	}
	requireSideBySide(t, s, oldClient{
		prefix: "rueidislock:0:",
		value:  func(value string) bool { return len(value) == 24 },
		try: func(ctx context.Context, name string, ttl time.Duration) *oldLock {
			_, cancel, err := lockers[ttl].TryWithContext(context.WithoutCancel(ctx), name) // a deadline would shorten the TTL
			if err != nil {
				return nil
			}
			return &oldLock{release: func(context.Context) { cancel() }}
		},
	})
}

func TestMigrate_RueidislockOfThreeKeysHoldsALockThatWeGet(t *testing.T) {
	s := newOldServers(t, 1)
	ctx := bounded(t)
	us := s.locker(t, redlock.WithKeyPrefix("rueidislock:0:"))
	them := newRueidislock(t, s.addrs[0], 2, longTTL) // its default

	theirs, cancel, err := them.TryWithContext(ctx, "job")
	require.NoError(t, err)
	defer cancel()
	require.NoError(t, s.conns[0].Del(ctx, "rueidislock:0:job").Err(), "one of its keys, as eviction would")
	lock, err := us.Lock(ctx, "job")
	require.NoError(t, err)
	require.NoError(t, theirs.Err(), "it holds two of three keys")
	require.NoError(t, lock.Err())
	require.NoError(t, lock.Unlock(ctx))
	require.NoError(t, theirs.Err())
}

func TestMigrate_ForceWithContextOfRueidislockTakesOurLock(t *testing.T) {
	s := newOldServers(t, 1)
	ctx := bounded(t)
	us := s.locker(t, redlock.WithKeyPrefix("rueidislock:0:"))
	them := newRueidislock(t, s.addrs[0], 1, longTTL)

	lock, err := us.TryLock(ctx, "job")
	require.NoError(t, err)
	theirs, cancel, err := them.ForceWithContext(ctx, "job")
	require.NoError(t, err)
	require.NoError(t, theirs.Err())
	require.NoError(t, lock.Err(), "two holders")
	require.ErrorIs(t, lock.Extend(ctx, longTTL), redlock.ErrGone)
	require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrNotHeld)
	require.NoError(t, theirs.Err(), "our release has not touched its lock")
	cancel()
	s.requireNothing(t, "rueidislock:0:job")
}
