package integration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

func TestWithoutAMajorityTryLockNamesTheNodesThatAreAway(t *testing.T) {
	eachFailure(t, majority, func(t *testing.T, c *cluster, f failure) {
		ctx := bounded(t)
		us := c.connected(t, nodeTimeout)
		f.take(t, c, majority)
		for range 3 { // the nodes' silence is new at first, and known later
			_, err := us.TryLock(ctx, "job")
			c.requireRefusal(t, err, redlock.ErrNoQuorum, "acquire", "job", majority, yes)
			f.endure(t, majority, "job", us)
		}

		c.heal(t)
		c.requireReach(t, us)
		c.requireNoKey(t)
	})
}

func TestWithoutAMajorityUnlockIsUnknownAndDoneWhenTheNodesAreBack(t *testing.T) {
	eachFailure(t, majority, func(t *testing.T, c *cluster, f failure) {
		ctx := bounded(t)
		us, other := c.connected(t, nodeTimeout), c.connected(t, nodeTimeout)
		lock, err := us.TryLock(ctx, "job")
		require.NoError(t, err)
		c.requireOnAll(t, "job", lock.Token())

		f.take(t, c, majority)
		err = lock.Unlock(ctx)
		c.requireRefusal(t, err, redlock.ErrNoQuorum, "unlock", "job", majority, yes)
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
		f.endure(t, majority, "other", us, other)

		c.heal(t)
		c.requireNoKey(t) // nobody calls anything: the release is pending
		lock, err = other.Lock(ctx, "job")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(ctx))
		c.requireNoKey(t)
	})
}

func TestWithoutAMajorityExtendFailsAndTheOldDeadlineStands(t *testing.T) {
	const ttl = 3 * time.Second
	eachFailure(t, majority, func(t *testing.T, c *cluster, f failure) {
		ctx := bounded(t)
		us, other := c.connected(t, nodeTimeout), c.connected(t, nodeTimeout)
		lock, err := us.TryLock(ctx, "job", redlock.TTL(ttl))
		require.NoError(t, err)

		f.take(t, c, majority)
		err = lock.Extend(ctx, longTTL)
		if lock.Err() == nil { // else the machine was so slow that the lock ended first
			c.requireRefusal(t, err, redlock.ErrNoQuorum, "extend", "job", majority, yes)
		}
		require.Less(t, lock.Remaining(), ttl)
		f.endure(t, majority, "other", us, other)
		if f.wipes {
			requireOver(t, lock) // a majority that forgets a lock may give it away while it is held
		}
		c.heal(t)
		requireOver(t, lock)
		require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
		require.Zero(t, lock.Remaining())
		require.ErrorIs(t, lock.Extend(ctx, longTTL), redlock.ErrExpired)

		// What the extension made longer was released when the lock was over.
		successor, err := other.Lock(ctx, "job")
		require.NoError(t, err)
		require.Eventually(t, func() bool { return us.Ping(ctx) == nil }, time.Minute, 10*time.Millisecond, "connected again")
		require.ErrorIs(t, lock.Unlock(ctx), redlock.ErrNotHeld)
		require.NoError(t, successor.Extend(ctx, longTTL), "its predecessor has not taken it away")
		require.NoError(t, successor.Unlock(ctx))
		c.requireNoKey(t)
	})
}

func TestLockWaitsUntilTheNodesAreBack(t *testing.T) {
	eachFailure(t, size, func(t *testing.T, c *cluster, f failure) {
		ctx := bounded(t)
		refused := make(refusals, 1)
		us := c.connected(t, nodeTimeout, redlock.WithObserver(refused, protocol.Rounds))
		f.take(t, c, size)

		won := make(chan *redlock.Lock, 1)
		failed := make(chan error, 1)
		go func() {
			lock, err := us.Lock(ctx, "job")
			won <- lock
			failed <- err
		}()
		for range 3 {
			select {
			case err := <-refused:
				c.requireRefusal(t, err, redlock.ErrNoQuorum, "acquire", "job", size, nobody)
			case <-ctx.Done():
				require.FailNow(t, "Lock does not go on trying")
			}
		}
		f.endure(t, majority, "other", us)
		c.heal(t)
		lock := <-won
		require.NoError(t, <-failed)
		require.NoError(t, lock.Err())
		require.NoError(t, lock.Unlock(ctx))
		c.requireReach(t, us)
		c.requireNoKey(t)
	})
}

// refusals is an observer that passes on why rounds were lost, as far as somebody listens.
type refusals chan error

func (r refusals) Observe(e event.Event) {
	if v, ok := e.(protocol.Round); ok && v.Err != nil && v.Name == "job" {
		select {
		case r <- v.Err:
		default:
		}
	}
}
