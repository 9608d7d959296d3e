package integration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

func TestAMinorityThatGoesAwayAndComesBackCostsNothing(t *testing.T) {
	eachMinority(t, func(t *testing.T, c *cluster, f failure, gone int) {
		ctx := bounded(t)
		us, other := c.connected(t, nodeTimeout), c.connected(t, nodeTimeout)
		kept, err := us.TryLock(ctx, "kept")
		require.NoError(t, err)
		c.requireOnAll(t, "kept", kept.Token())

		f.take(t, c, gone)
		requireExtended(ctx, t, kept)
		for range 3 { // the nodes' silence is new at first, and known later
			lock, err := us.TryLock(ctx, "job")
			require.NoError(t, err)
			_, err = other.TryLock(ctx, "job")
			c.requireRefusal(t, err, redlock.ErrTaken, "acquire", "job", gone, heldSoon)
			requireExtended(ctx, t, lock)
			f.endure(t, gone, "job", us, other)
			require.NoError(t, lock.Unlock(ctx))
			require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
		}

		c.heal(t)
		c.requireReach(t, us)
		c.requireReach(t, other)
		requireExtended(ctx, t, kept)
		_, err = other.TryLock(ctx, "kept")
		require.ErrorIs(t, err, redlock.ErrTaken, "the nodes that are back are no majority without those that stayed")
		require.NoError(t, kept.Unlock(ctx))
		c.requireNoKey(t)
	})
}

func requireExtended(ctx context.Context, t *testing.T, lock *redlock.Lock) {
	t.Helper()
	before := lock.Remaining()
	require.NoError(t, lock.Extend(ctx, before+time.Minute))
	require.Greater(t, lock.Remaining(), before)
	require.NoError(t, lock.Err())
}

func TestAPausedMinorityIsNotWaitedFor(t *testing.T) {
	const never = 30 * time.Second // a node timeout that the bounds of this test do not let anybody wait for
	for gone := 1; gone < majority; gone++ {
		t.Run(fmt.Sprintf("%d paused", gone), func(t *testing.T) {
			c := five(t)
			us, newcomer := c.connected(t, never), newClient(t, c.addrs(), never)
			paused.take(t, c, gone)
			t.Cleanup(func() { c.heal(t) }) // before the nodes are closed, which waits for them
			for _, locker := range []*redlock.Locker{us, us, us, newcomer} {
				within(t, never/2, func(ctx context.Context) error {
					lock, err := locker.TryLock(ctx, "job")
					if err != nil {
						return err
					}
					return errors.Join(lock.Extend(ctx, longTTL), lock.Unlock(ctx))
				})
			}
			c.heal(t)
			c.requireNoKey(t)
		})
	}
}

// within fails the test if fn has not returned after bound: a bound on hanging, not a measurement.
func within(t *testing.T, bound time.Duration, fn func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(bounded(t), bound)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- fn(ctx) }()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-ctx.Done():
		require.FailNow(t, "it waits for a node that does not answer")
	}
}
