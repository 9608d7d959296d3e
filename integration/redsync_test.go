package integration_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

// newRedsync returns a redsync client with redigo pools of its own.
func newRedsync(t testing.TB, addrs []string) *redsync.Redsync {
	t.Helper()
	pools := make([]redsyncredis.Pool, len(addrs))
	for i, addr := range addrs {
		p := &redis.Pool{MaxIdle: 64, Dial: func() (redis.Conn, error) {
			return redis.Dial("tcp", addr,
				redis.DialConnectTimeout(ampleTimeout), redis.DialReadTimeout(ampleTimeout), redis.DialWriteTimeout(ampleTimeout))
		}}
		t.Cleanup(func() { assert.NoError(t, p.Close()) })
		pools[i] = redsyncredigo.NewPool(p)
	}
	return redsync.New(pools...)
}

func TestRedsyncDoesNotGetWhatWeHold(t *testing.T) {
	c := five(t)
	ctx := bounded(t)
	us := c.connected(t, ampleTimeout)
	mutex := newRedsync(t, c.addrs()).NewMutex("job", redsync.WithExpiry(longTTL))

	lock, err := us.TryLock(ctx, "job")
	require.NoError(t, err)
	c.requireOnAll(t, "job", lock.Token())
	taken := (*redsync.ErrTaken)(nil)
	require.ErrorAs(t, mutex.TryLockContext(ctx), &taken)
	require.Len(t, taken.Nodes, size)
	require.NoError(t, lock.Extend(ctx, longTTL), "its attempt has not touched our lock")

	require.NoError(t, lock.Unlock(ctx))
	require.NoError(t, mutex.LockContext(ctx))
	c.requireOnMajority(t, "job", mutex.Value())
	require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrNotHeld)
	c.requireOnMajority(t, "job", mutex.Value())
	ok, err := mutex.UnlockContext(ctx)
	require.NoError(t, err)
	require.True(t, ok)
	c.requireNoKey(t)
}

func TestWeDoNotGetWhatRedsyncHolds(t *testing.T) {
	c := five(t)
	ctx := bounded(t)
	us := c.connected(t, ampleTimeout)
	mutex := newRedsync(t, c.addrs()).NewMutex("job", redsync.WithExpiry(longTTL))

	require.NoError(t, mutex.TryLockContext(ctx))
	_, err := us.TryLock(ctx, "job")
	c.requireRefusal(t, err, redlock.ErrTaken, "acquire", "job", 0, held)
	ok, err := mutex.ExtendContext(ctx)
	require.NoError(t, err, "our attempt has not touched its lock")
	require.True(t, ok)

	won := make(chan *redlock.Lock, 1)
	failed := make(chan error, 1)
	go func() {
		lock, err := us.Lock(ctx, "job")
		won <- lock
		failed <- err
	}()
	ok, err = mutex.UnlockContext(ctx)
	require.NoError(t, err)
	require.True(t, ok)
	lock := <-won
	require.NoError(t, <-failed)
	c.requireOnMajority(t, "job", lock.Token())
	_, err = mutex.UnlockContext(ctx)
	require.Error(t, err, "it has given the lock back before")
	require.NoError(t, lock.Extend(ctx, longTTL), "its second unlock has not touched our lock")
	require.NoError(t, lock.Unlock(ctx))
	c.requireNoKey(t)
}

func TestALockThatRanOutIsTakenOverByTheOtherClientAndNotBrokenByItsOldHolder(t *testing.T) {
	const short = 500 * time.Millisecond
	c := five(t)
	ctx := bounded(t)
	us := c.connected(t, ampleTimeout)
	their := newRedsync(t, c.addrs())

	lock, err := us.Lock(ctx, "ours", redlock.TTL(short))
	require.NoError(t, err)
	mutex := their.NewMutex("ours", redsync.WithExpiry(longTTL))
	require.NoError(t, mutex.LockContext(ctx)) // tries for seconds
	require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
	require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrNotHeld)
	c.requireOnMajority(t, "ours", mutex.Value())

	old := their.NewMutex("theirs", redsync.WithExpiry(short))
	require.NoError(t, old.LockContext(ctx))
	lock, err = us.Lock(ctx, "theirs")
	require.NoError(t, err)
	ok, _ := old.UnlockContext(ctx)
	require.False(t, ok)
	c.requireOnMajority(t, "theirs", lock.Token())

	require.NoError(t, lock.Unlock(ctx))
	ok, err = mutex.UnlockContext(ctx)
	require.NoError(t, err)
	require.True(t, ok)
	c.requireNoKey(t)
}

// rounds is an observer that counts the rounds for a name.
type rounds struct {
	name string
	n    atomic.Int64
}

func (r *rounds) Observe(e redlock.Event) {
	if v, ok := e.(redlock.VerdictEvent); ok && v.Name == r.name && v.Op == "acquire" {
		r.n.Add(1)
	}
}

// watched says whether every node remembers a key whose changes it has to tell of.
func (c *cluster) watched() bool {
	for _, n := range c.nodes {
		info, err := redis.String(n.do("INFO", "stats"))
		if err != nil || !strings.Contains(info, "tracking_total_keys:1") {
			return false
		}
	}
	return true
}

// Trap 21: redsync publishes nothing when it releases.
func TestWhoWaitsIsWokenByTheReleaseOfRedsync(t *testing.T) {
	c := five(t)
	ctx := bounded(t)
	seen := &rounds{name: "job"}
	us := c.connected(t, ampleTimeout, redlock.WithObserver(seen))
	mutex := newRedsync(t, c.addrs()).NewMutex("job", redsync.WithExpiry(time.Hour))
	require.NoError(t, mutex.TryLockContext(ctx))
	won := make(chan *redlock.Lock, 1)
	go func() {
		lock, err := us.Lock(ctx, "job")
		assert.NoError(t, err)
		won <- lock
	}()
	require.Eventually(t, c.watched, settleBound, settleLook, "not every node is to tell of the key")
	require.LessOrEqual(t, seen.n.Load(), int64(2), "it waits without asking")

	ok, err := mutex.UnlockContext(ctx)
	require.NoError(t, err)
	require.True(t, ok)
	var lock *redlock.Lock
	select {
	case lock = <-won:
	case <-time.After(20 * time.Second): // without being told, it looks again after 30 s
		require.Fail(t, "nothing has woken it")
	}
	require.NotNil(t, lock)
	require.LessOrEqual(t, seen.n.Load(), int64(4))
	require.NoError(t, lock.Unlock(ctx))
	c.requireNoKey(t)
}
