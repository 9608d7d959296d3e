package integration_test

import (
	"context"
	"crypto/rand"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

var (
	deleteIfEqual = script(`return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1])`)
	expireIfEqual = script(`return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PEXPIRE', KEYS[1], ARGV[2])`)
	setIfEqual    = script(`return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])`)
	setIfAbsent   = script(`return redis.call('EXISTS', KEYS[1]) == 0 and redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])`)
	renewOrSet    = script(`local held = redis.call('GET', KEYS[1])
if held == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return not held and redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])`)
)

// act is what a scheme does on one server; it reports whether that has been done.
type act func(ctx context.Context, conn *redis.Client, key, value string, ttl time.Duration) bool

func onEqual(run func(context.Context, redis.Scripter, string, ...any) bool) act {
	return func(ctx context.Context, conn *redis.Client, key, value string, ttl time.Duration) bool {
		return run(ctx, conn, key, value, ttl.Milliseconds())
	}
}

func setNXPX(ctx context.Context, conn *redis.Client, key, value string, ttl time.Duration) bool {
	return conn.Do(ctx, "SET", key, value, "NX", "PX", ttl.Milliseconds()).Err() == nil
}

func compareAndDelete(ctx context.Context, conn *redis.Client, key, value string, _ time.Duration) bool {
	return deleteIfEqual(ctx, conn, key, value)
}

func setNXThenExpire(ctx context.Context, conn *redis.Client, key, value string, ttl time.Duration) bool {
	set, err := conn.Do(ctx, "SETNX", key, value).Int()
	return err == nil && set == 1 && conn.PExpire(ctx, key, ttl).Err() == nil
}

func watchAndSet(ctx context.Context, conn *redis.Client, key, value string, ttl time.Duration) bool {
	return conn.Watch(ctx, func(tx *redis.Tx) error {
		if held, err := tx.Exists(ctx, key).Result(); err != nil || held != 0 {
			return redis.TxFailedErr
		}
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			return p.Do(ctx, "PSETEX", key, ttl.Milliseconds(), value).Err()
		})
		return err
	}, key) == nil
}

func watchAndDelete(ctx context.Context, conn *redis.Client, key, value string, _ time.Duration) bool {
	return conn.Watch(ctx, func(tx *redis.Tx) error {
		if held, err := tx.Get(ctx, key).Result(); err != nil || held != value {
			return redis.TxFailedErr
		}
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Del(ctx, key).Err() })
		return err
	}, key) == nil
}

// recipe is a scheme that takes a lock on a majority of its servers, one after the other.
type recipe struct {
	name                     string
	nodes                    int
	prefix                   string
	value                    func(ctx context.Context, s *oldServers) string
	acquire, extend, release act // extend may be nil
}

func (r recipe) client(s *oldServers) oldClient {
	onMajority := func(ctx context.Context, do act, key, value string, ttl time.Duration) bool {
		done := 0
		for _, conn := range s.conns {
			if do(ctx, conn, key, value, ttl) {
				done++
			}
		}
		return done > len(s.conns)/2
	}
	try := func(ctx context.Context, name string, ttl time.Duration) *oldLock {
		key, value := r.prefix+name, r.value(ctx, s)
		lock := &oldLock{release: func(ctx context.Context) { onMajority(ctx, r.release, key, value, 0) }}
		if r.extend != nil {
			lock.extend = func(ctx context.Context) bool { return onMajority(ctx, r.extend, key, value, longTTL) }
		}
		if !onMajority(ctx, r.acquire, key, value, ttl) {
			lock.release(ctx)
			return nil
		}
		return lock
	}
	return oldClient{r.prefix, func(value string) bool { return value != "" }, try}
}

func randomValue(context.Context, *oldServers) string { return rand.Text() }

// nextID returns the number of the owner, from a counter.
func nextID(ctx context.Context, s *oldServers) string {
	return strconv.FormatInt(s.conns[0].Incr(ctx, "ids").Val(), 10)
}

func TestMigrate_SchemesWithATTLAndAnOwnersValueRunSideBySide(t *testing.T) {
	all := newOldServers(t, size)
	for _, r := range []recipe{
		{"SETNX then EXPIRE by the winner", 1, "lock:", randomValue, setNXThenExpire, nil, compareAndDelete},
		{"SET NX PX", 1, "", randomValue, setNXPX, onEqual(expireIfEqual), compareAndDelete},
		{"WATCH, MULTI and EXEC", 1, "lock:", randomValue, watchAndSet, nil, watchAndDelete},
		{"the owner's id from a counter", 1, "lock:", nextID, setNXPX, onEqual(expireIfEqual), compareAndDelete},
		{"redlock-py", size, "", randomValue, setNXPX, nil, compareAndDelete},
		{"pottery", size, "redlock:", randomValue, setNXPX, onEqual(expireIfEqual), compareAndDelete},
		{"node-redlock", size, "", randomValue, onEqual(setIfAbsent), onEqual(setIfEqual), compareAndDelete},
		{"RedLock.net", size, "redlock:", randomValue, setNXPX, onEqual(renewOrSet), compareAndDelete},
	} {
		t.Run(r.name, func(t *testing.T) {
			s := all.first(r.nodes)
			requireSideBySide(t, s, r.client(s))
		})
	}
}

func TestMigrate_ATransactionThatOursComesInBetweenIsNotExecuted(t *testing.T) {
	s := newOldServers(t, 1)
	ctx := bounded(t)
	us, conn := s.locker(t), s.conns[0]

	t.Run("acquire", func(t *testing.T) {
		var lock *redlock.Lock
		err := conn.Watch(ctx, func(tx *redis.Tx) error {
			require.Zero(t, tx.Exists(ctx, "free").Val())
			var err error
			lock, err = us.TryLock(ctx, "free")
			require.NoError(t, err)
			_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Set(ctx, "free", "old", longTTL).Err() })
			return err
		}, "free")
		require.ErrorIs(t, err, redis.TxFailedErr)
		s.requireStays(t, "free", lock.Token())
		require.NoError(t, lock.Unlock(ctx))
	})
	t.Run("release", func(t *testing.T) {
		require.NoError(t, conn.Set(ctx, "theirs", "old", 2*time.Second).Err()) // time enough to look at it before it ends
		var lock *redlock.Lock
		err := conn.Watch(ctx, func(tx *redis.Tx) error {
			require.Equal(t, "old", tx.Get(ctx, "theirs").Val())
			var err error
			lock, err = us.Lock(ctx, "theirs")
			require.NoError(t, err)
			_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Del(ctx, "theirs").Err() })
			return err
		}, "theirs")
		require.ErrorIs(t, err, redis.TxFailedErr)
		s.requireStays(t, "theirs", lock.Token())
		require.NoError(t, lock.Unlock(ctx))
	})
}
