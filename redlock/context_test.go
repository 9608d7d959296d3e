package redlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock/clocktest"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestTheContextOfALockEndsWithTheLockAndSaysWhy(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		for _, ending := range []struct {
			cause error
			end   func(*redlock.Lock)
		}{
			{redlock.ErrReleased, func(lock *redlock.Lock) { require.NoError(t, lock.Unlock(t.Context())) }},
			{redlock.ErrLost, func(lock *redlock.Lock) {
				c.doAll("DEL", lock.Name())
				require.ErrorIs(t, lock.Extend(t.Context(), 2*long), redlock.ErrLost)
			}},
		} {
			lock := take(t, c.locker(), "name")
			c.eventuallyHeld("name", lock.Token())
			type key struct{}
			ctx, cancel := lock.Context(context.WithValue(t.Context(), key{}, "value"))
			defer cancel()
			require.Equal(t, "value", ctx.Value(key{}))
			require.NoError(t, ctx.Err())

			ending.end(lock)
			receive(t, ctx.Done(), "the end of the lock")
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			require.ErrorIs(t, context.Cause(ctx), ending.cause)
			require.ErrorIs(t, lock.Err(), ending.cause)
			require.True(t, isOver(lock.Done()))

			after, cancelAfter := lock.Context(t.Context())
			defer cancelAfter()
			receive(t, after.Done(), "the end of a context that was made afterwards")
			require.ErrorIs(t, context.Cause(after), ending.cause)
			c.eventuallyEmpty()
		}
	})
}

func TestTheContextOfALockEndsWithItsParentAndLeavesTheLock(t *testing.T) {
	c := onMini(t, 3)
	lock := take(t, c.locker(), "name")
	tired := errors.New("tired")
	parent, cancelParent := context.WithCancelCause(t.Context())
	ctx, cancel := lock.Context(parent)
	defer cancel()
	cancelParent(tired)
	receive(t, ctx.Done(), "the end of the parent")
	require.ErrorIs(t, context.Cause(ctx), tired)
	require.NoError(t, lock.Err())
	require.NoError(t, lock.Unlock(t.Context()))
	require.ErrorIs(t, context.Cause(ctx), tired, "the first cause stays")
}

func TestTheCancelFuncOfAContextDoesNotReleaseTheLock(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), "name")
		ctx, cancel := lock.Context(t.Context())
		other, cancelOther := lock.Context(t.Context())
		defer cancelOther()
		cancel()
		cancel()
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(ctx), context.Canceled)
		require.NoError(t, other.Err())
		require.NoError(t, lock.Err())
		require.False(t, isOver(lock.Done()))
		c.eventuallyHeld("name", lock.Token())
		require.NoError(t, lock.Unlock(t.Context()))
		receive(t, other.Done(), "the end of the other context")
		require.ErrorIs(t, context.Cause(ctx), context.Canceled)
	})
}

func TestDoneIsOneChannelAndClosedForALockThatEndedUnwatched(t *testing.T) {
	c := onMini(t, 3)
	fake := clocktest.New()
	lock := take(t, c.locker(redlock.WithClock(fake)), "name")
	require.Equal(t, lock.Done(), lock.Done())
	require.NoError(t, lock.Unlock(t.Context()))
	require.True(t, isOver(lock.Done()))
	_, pending := fake.Next()
	require.False(t, pending, "no timer is left")

	unwatched := take(t, c.locker(redlock.WithClock(fake)), "name")
	_, pending = fake.Next()
	require.False(t, pending, "nobody has asked when it ends")
	require.NoError(t, unwatched.Unlock(t.Context()))
	require.True(t, isOver(unwatched.Done()))
	_, pending = fake.Next()
	require.False(t, pending)
}

func TestLockPausesForATimeThatDoublesUpToALimit(t *testing.T) {
	c := onMini(t, 3)
	fake := clocktest.New()
	holder := take(t, c.locker(), "name")
	locker, seen := c.waiting(c.nodes(), redlock.WithClock(fake), redlock.WithBackoff(10*time.Millisecond, 100*time.Millisecond))
	waiter := lockBeside(t.Context(), locker, "name")
	for i, pause := range []time.Duration{10, 20, 40, 80, 100, 100, 100} {
		pause *= time.Millisecond
		seen.waitForRefusals(t, i+1)
		var slept time.Duration
		eventually(t, func() bool {
			next, pending := fake.Next()
			slept = next
			return pending && next <= pause
		}, "Lock pauses")
		require.GreaterOrEqual(t, slept, pause/4)
		require.Len(t, seen.verdictsOn("acquire"), i+1, "no round before the pause is over")
		fake.Advance(slept)
	}
	require.NoError(t, holder.Unlock(t.Context()))
	for len(waiter) == 0 {
		fake.AdvanceToNext()
	}
	second := <-waiter
	require.NoError(t, second.err)
	require.NoError(t, second.lock.Unlock(t.Context()))
}
