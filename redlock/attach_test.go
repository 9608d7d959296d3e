package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock/clocktest"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// attach takes up a lock in a Locker of its own, as another process would.
func (c *cluster) attach(lock *redlock.Lock, opts ...redlock.LockOption) *redlock.Lock {
	c.tb.Helper()
	attached, err := c.locker().Attach(c.tb.Context(), lock.Name(), lock.Token(), opts...)
	require.NoError(c.tb, err)
	return attached
}

func TestAnotherProcessTakesALockUpByItsToken(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), "name", redlock.TTL(time.Minute))
		c.eventuallyHeld("name", lock.Token())
		attached := c.attach(lock)
		require.Equal(t, "name", attached.Name())
		require.Equal(t, lock.Token(), attached.Token())
		require.NoError(t, attached.Err())
		require.Greater(t, attached.Remaining(), 20*time.Second)
		require.LessOrEqual(t, attached.Remaining(), time.Minute, "what is left, and no more")

		require.NoError(t, attached.Extend(t.Context(), long))
		for i := range c.servers {
			eventually(t, func() bool { return c.ttl(i, "name") > long/2 }, "server %d", i)
		}
		require.Less(t, lock.Remaining(), 2*time.Minute, "who held it before does not notice")
		require.NoError(t, attached.Unlock(t.Context()))
		require.ErrorIs(t, attached.Err(), redlock.ErrReleased)
		c.eventuallyEmpty()
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
	})
}

func TestALockThatWasTakenUpIsKept(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		const ttl = short / 2
		lock := take(t, c.locker(), "name", redlock.TTL(short))
		attached := c.attach(lock, redlock.AutoExtend(), redlock.TTL(ttl))
		receive(t, lock.Done(), "the deadline of who had it before")
		pass(ttl)
		require.NoError(t, attached.Err())
		require.NoError(t, attached.Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}

func TestALockThatWasTakenUpEndsWithTheLeastOfItsTTLsOnAMajority(t *testing.T) {
	c := onMini(t, 3)
	fake := clocktest.New()
	locker := c.locker(redlock.WithClock(fake), redlock.WithDrift(0, 0))
	for i, ttl := range []time.Duration{20 * time.Minute, 40 * time.Minute, time.Minute} {
		c.do(i, "SET", "name", "token", "PX", ttl.Milliseconds())
	}
	c.servers[2].Stop()
	lock, err := locker.Attach(t.Context(), "name", "token")
	require.NoError(t, err)
	require.LessOrEqual(t, lock.Remaining(), 20*time.Minute)
	require.Greater(t, lock.Remaining(), 15*time.Minute)
	fake.Advance(20 * time.Minute)
	require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
}

func TestALockWithoutAnyTTLCanBeTakenUp(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.doAll("SET", "name", "token")
		lock, err := c.locker().Attach(t.Context(), "name", "token")
		require.NoError(t, err)
		require.Greater(t, lock.Remaining(), 23*time.Hour, "the longest TTL")
		require.NoError(t, lock.Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}

func TestWhatIsNotHeldCannotBeTakenUp(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		locker := c.locker()
		lock := take(t, c.locker(), "name")
		c.eventuallyHeld("name", lock.Token())
		refused := func(name, token string) []redlock.NodeError {
			t.Helper()
			attached, err := locker.Attach(t.Context(), name, token)
			require.Nil(t, attached)
			require.ErrorIs(t, err, redlock.ErrNotHeld)
			refusal := c.refused(err)
			require.Equal(t, "attach", refusal.Op)
			return refusal.Nodes
		}
		held := 0
		for _, node := range refused("name", "another token") {
			if node.Err == pool.ErrHeld { //nolint:errorlint // the very error is meant
				held++
			}
		}
		require.GreaterOrEqual(t, held, 3)
		refused("name", lock.Token()[:8]) // trap 5: no part of a token is a token
		refused("another name", lock.Token())
		for i := range 3 {
			c.do(i, "DEL", "name")
		}
		refused("name", lock.Token()) // a minority has it
		c.doAll("SET", "short", "token", "PX", 2)
		_, err := locker.Attach(t.Context(), "short", "token")
		require.ErrorIs(t, err, redlock.ErrNotHeld, "no validity is left of it")
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
	})
}

func TestWithoutAMajorityOfAnswersNothingIsTakenUp(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), "name")
		c.eventuallyHeld("name", lock.Token())
		locker := c.locker()
		for _, p := range c.processes {
			p.Freeze()
		}
		if c.processes != nil {
			_, err := locker.Attach(briefly(t), "name", lock.Token())
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
		}
		for _, p := range c.processes {
			p.Thaw()
		}
		c.servers[0].Stop()
		c.servers[1].Stop()
		_, err := locker.Attach(t.Context(), "name", lock.Token())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		_ = c.refused(err)
		_ = lock.Unlock(t.Context())
	})
}

func TestAttachRefusesWhatDoesNotApply(t *testing.T) {
	locker := onMini(t, 1).locker()
	for want, opt := range map[string]redlock.LockOption{
		"are for acquires": redlock.Reentrant(),
		"Metadata":         redlock.Metadata("x"),
		"WithOwner":        redlock.WithOwner("x"),
		"TTL 0s":           redlock.TTL(0),
	} {
		_, err := locker.Attach(t.Context(), "name", "token", opt)
		require.ErrorContains(t, err, want)
	}
	_, err := locker.Attach(t.Context(), "name", "")
	require.ErrorContains(t, err, "the token is empty")
	_, err = locker.Attach(t.Context(), "", "token")
	require.ErrorContains(t, err, "the name is empty")
	require.NoError(t, locker.Close())
	_, err = locker.Attach(t.Context(), "name", "token")
	require.ErrorIs(t, err, redlock.ErrClosed)
}
