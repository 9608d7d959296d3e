package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock/clocktest"
	"github.com/quorumlock/quorumlock/redlock"
)

// join has a call wait that does not look for an offer before it gives up.
func join(tb testing.TB, locker *redlock.Locker, name string, opts ...redlock.LockOption) redlock.Waiter {
	tb.Helper()
	w := must(redlock.Join(locker, name, opts...))(tb)
	return w
}

// requireWhole checks that no error is joined with nil: errors.Is would call its methods.
func requireWhole(tb testing.TB, err error) {
	tb.Helper()
	if err == nil {
		return
	}
	require.NotPanics(tb, func() { _ = errors.Is(err, errors.New("none")) })
	require.NotContains(tb, fmt.Sprint(err), "<nil>")
}

// The danger: a lock that nobody has the handle of, or an error with nothing in it. What a call was sent when its context ends it
// has not looked at, and its queue may have been discarded since.
func TestLock_ThatGivesUpWithItsTurnUnread(t *testing.T) {
	t.Parallel()
	for _, discarded := range []bool{false, true} {
		t.Run(fmt.Sprint("queue discarded: ", discarded), func(t *testing.T) {
			t.Parallel()
			after := func(locker *redlock.Locker) {
				if discarded {
					redlock.DiscardIdle(locker)
				}
			}
			t.Run("is told that it waits for somebody's data", func(t *testing.T) {
				t.Parallel()
				c := onReal(t, 3)
				require.NoError(t, errOf(c.locker().TryLock(t.Context(), "name")))
				locker, first := c.asleep("name")
				second := join(t, locker, "name")
				c.doAll("SET", "name", strings.Repeat("x", 5000))
				require.ErrorIs(t, receive(t, first, "the end of Lock").err, redlock.ErrForeign)
				require.True(t, second.HasOffer())
				after(locker)
				lock, err := second.GiveUp(over(t))
				require.Nil(t, lock)
				requireWhole(t, err)
				c.refused(err, redlock.ErrForeign, not{redlock.ErrTaken})
			})
			t.Run("has the lock that was passed on to it", func(t *testing.T) {
				t.Parallel()
				c, fake := onMini(t, 3), clocktest.New()
				locker := c.locker(handsOn, redlock.WithClock(fake))
				first := waits(t, locker, "name")
				second := join(t, locker, "name", redlock.AutoExtend())
				require.NoError(t, first.Unlock(t.Context()))
				require.True(t, second.HasOffer())
				if discarded {
					fake.Advance(2 * long) // and renewals fall behind: a process that was paused
				}
				after(locker)
				lock, err := second.GiveUp(over(t))
				requireWhole(t, err)
				require.NoError(t, err)
				if !discarded {
					require.NoError(t, lock.Err())
					require.NoError(t, lock.Unlock(t.Context()))
				} else {
					_ = lock.Unlock(t.Context())
				}
				require.Zero(t, redlock.ToRenew(locker))
				c.eventuallyEmpty()
			})
		})
	}
	t.Run("leaves the lock to the next", func(t *testing.T) {
		onBoth(t, 3, func(t *testing.T, c *cluster) {
			locker := c.locker()
			first := waits(t, locker, "name")
			second, third := join(t, locker, "name"), inLine(t, locker)
			require.NoError(t, first.Unlock(t.Context()))
			eventually(t, second.HasOffer, "its round")
			lock, err := second.GiveUp(over(t))
			if err == nil { // it was won meanwhile
				require.NoError(t, lock.Unlock(t.Context()))
			} else {
				requireWhole(t, err)
				c.refused(err, context.Canceled)
			}
			won(t, third)
		})
	})
	t.Run("without an offer leaves the line", func(t *testing.T) {
		t.Parallel()
		c := onMini(t, 3)
		locker := c.locker(handsOn)
		first := waits(t, locker, "name")
		second, third := join(t, locker, "name"), inLine(t, locker)
		lock, err := second.GiveUp(over(t))
		require.Nil(t, lock)
		requireWhole(t, err)
		requireIs(t, err, context.Canceled, redlock.ErrTaken)
		require.NoError(t, first.Unlock(t.Context()))
		require.NoError(t, won(t, third).Unlock(t.Context()))
		require.False(t, second.HasOffer())
		c.eventuallyEmpty()
	})
	t.Run("as the Locker is closed", func(t *testing.T) {
		t.Parallel()
		c := onMini(t, 3)
		locker := c.locker(handsOn)
		first := waits(t, locker, "name")
		second := join(t, locker, "name")
		require.NoError(t, first.Unlock(t.Context()))
		require.True(t, second.HasOffer())
		require.NoError(t, locker.Close()) // which in truth waits for the call
		lock := must(second.GiveUp(t.Context()))(t)
		require.NoError(t, lock.Err())
		require.NoError(t, lock.Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}
