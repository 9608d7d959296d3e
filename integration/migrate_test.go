package integration_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// docs/migrating.md says of each scheme whether it may run beside Lockers. The tests in migrate_*_test.go are what it
// says, with the commands of the scheme, or with the library itself, on redis-server processes.

const (
	shortTTL = 300 * time.Millisecond // for what is meant to expire
	wakeTime = 20 * time.Second       // without a push, a waiter looks again after 30 s
)

// oldServers is redis-server processes, and connections for the commands of other clients.
type oldServers struct {
	addrs []string
	conns []*redis.Client
}

func newOldServers(t *testing.T, n int) *oldServers {
	t.Helper()
	s := &oldServers{}
	for _, p := range testredis.Real(t, n) {
		s.addrs = append(s.addrs, p.Addr())
		s.conns = append(s.conns, newConn(t, p.Addr()))
	}
	return s
}

func newConn(t *testing.T, addr string) *redis.Client {
	t.Helper()
	conn := redis.NewClient(&redis.Options{Addr: addr, DialTimeout: ampleTimeout, ReadTimeout: ampleTimeout})
	t.Cleanup(func() { assert.NoError(t, conn.Close()) })
	return conn
}

// first returns the first n of the servers.
func (s *oldServers) first(n int) *oldServers { return &oldServers{s.addrs[:n], s.conns[:n]} }

// locker returns a Locker on all of the servers.
func (s *oldServers) locker(t *testing.T, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	urls := make([]string, len(s.addrs))
	for i, addr := range s.addrs {
		urls[i] = "redis://" + addr
	}
	opts = append([]redlock.Option{redlock.TTL(longTTL), pool.WithTimeout(ampleTimeout), pool.WithDialTimeout(ampleTimeout)}, opts...)
	locker, err := redlock.Open(urls, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, locker.Close()) })
	return locker
}

// values returns what each server holds; "" for nothing.
func (s *oldServers) values(t *testing.T, key string) []string {
	t.Helper()
	values := make([]string, len(s.conns))
	for i, conn := range s.conns {
		value, err := conn.Get(t.Context(), key).Result()
		if err != redis.Nil { //nolint:errorlint // go-redis returns the value itself
			require.NoError(t, err)
		}
		values[i] = value
	}
	return values
}

// requireHeld checks that a majority holds one value for some time, and returns the value.
func (s *oldServers) requireHeld(t *testing.T, key string) string {
	t.Helper()
	counts := map[string]int{}
	for i, value := range s.values(t, key) {
		counts[value]++
		if value != "" && counts[value] > len(s.conns)/2 {
			left, err := s.conns[i].PTTL(t.Context(), key).Result()
			require.NoError(t, err)
			require.Positive(t, left, "the key has no TTL")
			return value
		}
	}
	require.Fail(t, "no majority holds "+key, "%v", counts)
	return ""
}

// requireStays checks that a majority holds the value, for almost all of longTTL.
func (s *oldServers) requireStays(t *testing.T, key string, value redlock.Token) {
	t.Helper()
	require.EqualValues(t, value, s.requireHeld(t, key))
	for i, held := range s.values(t, key) {
		if held == string(value) {
			left, err := s.conns[i].PTTL(t.Context(), key).Result()
			require.NoError(t, err)
			require.Greater(t, left, longTTL-2*testBound, "the TTL has been shortened")
			require.LessOrEqual(t, left, longTTL, "the TTL has been lengthened")
		}
	}
}

// requireNothing waits until no server holds the key.
func (s *oldServers) requireNothing(t *testing.T, key string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return strings.Join(s.values(t, key), "") == ""
	}, settleBound, settleLook, "%s stays", key)
}

// tracked returns how many announcements of a change each server has to make, counting each client of a key.
func (s *oldServers) tracked(t *testing.T) []int {
	t.Helper()
	counts := make([]int, len(s.conns))
	for i, conn := range s.conns {
		info, err := conn.Info(t.Context(), "stats").Result()
		require.NoError(t, err)
		_, after, _ := strings.Cut(info, "tracking_total_items:")
		count, _, _ := strings.Cut(after, "\r")
		counts[i], err = strconv.Atoi(count)
		require.NoError(t, err)
	}
	return counts
}

// oldClient is a lock client of another kind on some servers.
type oldClient struct {
	prefix string                  // what it writes before the names
	value  func(value string) bool // whether its keys hold that
	// try tries once; nil if it was refused.
	try func(ctx context.Context, name string, ttl time.Duration) *oldLock
}

type oldLock struct {
	extend  func(ctx context.Context) bool // nil if the scheme has no such thing
	release func(ctx context.Context)      // may do nothing
}

// result is what Lock returns.
type result struct {
	lock *redlock.Lock
	err  error
}

// waitFor starts a Lock that waits, and returns when every server is to announce the end of the lock that it waits for.
func (s *oldServers) waitFor(ctx context.Context, t *testing.T, locker *redlock.Locker, name string) <-chan result {
	t.Helper()
	before := s.tracked(t)
	won := make(chan result, 1)
	go func() {
		lock, err := locker.Lock(ctx, name)
		won <- result{lock, err}
	}()
	require.Eventually(t, func() bool {
		for i, count := range s.tracked(t) {
			if count <= before[i] {
				return false
			}
		}
		return true
	}, settleBound, settleLook, "not every server is to announce the release")
	return won
}

// requireWoken returns the lock that is waited for.
func requireWoken(t *testing.T, won <-chan result) *redlock.Lock {
	t.Helper()
	select {
	case r := <-won:
		require.NoError(t, r.err)
		return r.lock
	case <-time.After(wakeTime):
		require.FailNow(t, "nothing has woken it")
		return nil
	}
}

// rounds is an observer that counts the rounds for a name.
type rounds struct {
	name string
	n    atomic.Int64
}

func (r *rounds) Observe(e event.Event) {
	if v, ok := e.(protocol.Round); ok && v.Name == r.name && v.Op == "acquire" {
		r.n.Add(1)
	}
}

// requireSideBySide checks that an old client and a Locker on the same servers and names exclude each other, let each
// other in, and leave each other's keys alone.
func requireSideBySide(t *testing.T, s *oldServers, old oldClient) {
	ctx := bounded(t)
	seen := &rounds{name: "theirs"}
	us := s.locker(t, redlock.WithKeyPrefix(old.prefix), redlock.WithObserver(seen, protocol.Rounds))
	key := func(name string) string { return old.prefix + name }

	t.Run("theirs first", func(t *testing.T) {
		theirs := old.try(ctx, "theirs", longTTL)
		require.NotNil(t, theirs)
		value := s.requireHeld(t, key("theirs"))
		require.True(t, old.value(value), "%q", value)

		_, err := us.TryLock(ctx, "theirs")
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NotErrorIs(t, err, redlock.ErrForeign)
		require.NotErrorIs(t, err, nodeerr.ErrNoExpiry)
		s.requireStays(t, key("theirs"), redlock.Token(value))
		if theirs.extend != nil {
			require.True(t, theirs.extend(ctx))
			s.requireStays(t, key("theirs"), redlock.Token(value))
		}

		won := s.waitFor(ctx, t, us, "theirs")
		require.Positive(t, seen.n.Load())
		require.LessOrEqual(t, seen.n.Load(), int64(3), "it waits without asking")
		theirs.release(ctx)
		lock := requireWoken(t, won)
		require.LessOrEqual(t, seen.n.Load(), int64(6), "a push wakes it, and not a poll")
		s.requireStays(t, key("theirs"), lock.Token())
		theirs.release(ctx)
		s.requireStays(t, key("theirs"), lock.Token())
		require.NoError(t, lock.Unlock(ctx))
		s.requireNothing(t, key("theirs"))
	})
	t.Run("ours first", func(t *testing.T) {
		lock, err := us.TryLock(ctx, "ours")
		require.NoError(t, err)
		require.Nil(t, old.try(ctx, "ours", longTTL))
		s.requireStays(t, key("ours"), lock.Token())
		require.NoError(t, lock.Extend(ctx, longTTL))

		require.NoError(t, lock.Unlock(ctx))
		s.requireNothing(t, key("ours"))
		theirs := old.try(ctx, "ours", longTTL)
		require.NotNil(t, theirs)
		value := s.requireHeld(t, key("ours"))
		require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrNotHeld)
		s.requireStays(t, key("ours"), redlock.Token(value))
		theirs.release(ctx)
		s.requireNothing(t, key("ours"))
	})
	t.Run("our TTL ends", func(t *testing.T) {
		t.Parallel()
		var lock *redlock.Lock
		require.Eventually(t, func() bool { // a busy machine may take longer than the TTL
			var err error
			lock, err = us.TryLock(ctx, "our end", redlock.TTL(shortTTL))
			return err == nil
		}, settleBound, settleLook)
		var theirs *oldLock
		require.Eventually(t, func() bool {
			theirs = old.try(ctx, "our end", longTTL)
			return theirs != nil
		}, settleBound, settleLook)
		value := s.requireHeld(t, key("our end"))
		require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
		require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrNotHeld)
		s.requireStays(t, key("our end"), redlock.Token(value))
		theirs.release(ctx)
		s.requireNothing(t, key("our end"))
	})
	t.Run("their TTL ends", func(t *testing.T) {
		t.Parallel()
		var theirs *oldLock
		require.Eventually(t, func() bool {
			theirs = old.try(ctx, "their end", shortTTL)
			return theirs != nil
		}, settleBound, settleLook)
		lock, err := us.Lock(ctx, "their end")
		require.NoError(t, err)
		theirs.release(ctx)
		s.requireStays(t, key("their end"), lock.Token())
		require.NoError(t, lock.Unlock(ctx))
		s.requireNothing(t, key("their end"))
	})
}

// requireSecondHolder checks that another gets a lock that its holder has for all that it knows.
func requireSecondHolder(ctx context.Context, t *testing.T, first *redlock.Lock, another *redlock.Locker, name string) {
	t.Helper()
	second, err := another.TryLock(ctx, name)
	require.NoError(t, err)
	require.NoError(t, first.Err(), "it has been lost, and there is one holder")
	require.NoError(t, second.Err())
	require.NoError(t, second.Unlock(ctx))
	require.ErrorIs(t, first.Unlock(ctx), redlock.ErrNotHeld, "only at its end does the first notice")
}

// script returns a function that runs a Lua script on one key and reports whether it answered other than nil, false or 0.
func script(text string) func(ctx context.Context, conn redis.Scripter, key string, args ...any) bool {
	compiled := redis.NewScript(text)
	return func(ctx context.Context, conn redis.Scripter, key string, args ...any) bool {
		reply, err := compiled.Run(ctx, conn, []string{key}, args...).Result()
		return err == nil && fmt.Sprint(reply) != "0"
	}
}
