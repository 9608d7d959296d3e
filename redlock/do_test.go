package redlock_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

func TestDoHoldsTheLockWhileTheFunctionRunsAndReturnsItsError(t *testing.T) {
	failed := errors.New("failed")
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		for _, want := range []error{nil, failed} {
			ran := false
			err := locker.Do(t.Context(), "name", func(ctx context.Context, lock *redlock.Lock) error {
				ran = true
				require.NoError(t, ctx.Err())
				require.NoError(t, lock.Err())
				require.GreaterOrEqual(t, c.holding("name", lock.Token()), 2)
				return want
			})
			require.True(t, ran)
			require.Equal(t, want, err)
			c.eventuallyEmpty()
		}
	})
}

func TestDoKeepsTheLockForLongerThanItsTTL(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		const ttl = short / 2
		err := c.locker().Do(t.Context(), "name", func(ctx context.Context, lock *redlock.Lock) error {
			pass(2 * ttl)
			require.NoError(t, lock.Err())
			return ctx.Err()
		}, redlock.TTL(ttl))
		require.NoError(t, err)
		c.eventuallyEmpty()
	})
}

func TestDoWaitsForItsTurnAndDoesNotRunTheFunctionWithoutIt(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		holder := waits(t, locker, "name")
		ctx, cancel := context.WithCancel(t.Context())
		w := &watched{Context: ctx, waiting: make(chan struct{})}
		ended := make(chan error, 1)
		go func() {
			ended <- locker.Do(w, "name", func(context.Context, *redlock.Lock) error { panic("not its turn") })
		}()
		receive(t, w.waiting, "its place in the queue")
		cancel()
		err := receive(t, ended, "the end of Do")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NoError(t, holder.Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}

func TestDoReleasesTheLockHoweverTheFunctionEnds(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		require.PanicsWithValue(t, "a reason", func() {
			_ = locker.Do(t.Context(), "name", func(context.Context, *redlock.Lock) error { panic("a reason") })
		})
		c.eventuallyEmpty()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = locker.Do(t.Context(), "name", func(context.Context, *redlock.Lock) error {
				runtime.Goexit()
				return nil
			})
		}()
		receive(t, ended, "the end of a goroutine")
		c.eventuallyEmpty()
		ctx, cancel := context.WithCancel(t.Context())
		err := locker.Do(ctx, "name", func(ctx context.Context, lock *redlock.Lock) error {
			cancel()
			<-ctx.Done()
			require.NoError(t, lock.Err(), "the end of the caller's context is no loss")
			return context.Cause(ctx)
		})
		require.Equal(t, context.Canceled, err)
		c.eventuallyEmpty()
	})
}

func TestDoThatLosesItsLockEndsTheContextOfTheFunctionAndSaysSo(t *testing.T) {
	failed := errors.New("failed")
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		for how, lose := range map[string]func(*redlock.Lock){
			"by force": func(*redlock.Lock) { require.NoError(t, c.locker().ForceUnlock(t.Context(), "name")) },
			"to another": func(lock *redlock.Lock) {
				for i := range c.servers {
					c.do(i, "SET", "name", "theirs", "PX", long.Milliseconds())
				}
			},
		} {
			t.Run(how, func(t *testing.T) {
				var over context.Context
				err := c.locker().Do(t.Context(), "name", func(ctx context.Context, lock *redlock.Lock) error {
					c.eventuallyHeld("name", lock.Token())
					lose(lock)
					over = ctx
					receive(t, ctx.Done(), "the end of the context")
					return failed
				}, redlock.TTL(short))
				require.ErrorIs(t, context.Cause(over), redlock.ErrLost)
				require.ErrorIs(t, err, failed)
				require.ErrorIs(t, err, redlock.ErrLost)
				c.doAll("DEL", "name")
			})
		}
		t.Run("noticed by the release only", func(t *testing.T) {
			err := c.locker().Do(t.Context(), "name", func(_ context.Context, lock *redlock.Lock) error {
				c.eventuallyHeld("name", lock.Token())
				c.doAll("DEL", "name")
				return failed
			})
			require.ErrorIs(t, err, failed)
			require.ErrorIs(t, err, redlock.ErrNotHeld)
		})
		t.Run("without nodes", func(t *testing.T) {
			err := c.locker().Do(t.Context(), "name", func(ctx context.Context, lock *redlock.Lock) error {
				for _, s := range c.servers[1:] {
					s.Stop()
				}
				receive(t, ctx.Done(), "the end of the context")
				require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
				return context.Cause(ctx)
			}, redlock.TTL(short))
			require.ErrorIs(t, err, redlock.ErrExpired)
			for _, s := range c.servers[1:] {
				s.Start()
			}
		})
		c.eventuallyEmpty()
	})
}

func TestDoDoesNotMindAFunctionThatReleasesTheLockItself(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		require.NoError(t, c.locker().Do(t.Context(), "name", func(ctx context.Context, lock *redlock.Lock) error {
			require.NoError(t, lock.Unlock(ctx))
			receive(t, ctx.Done(), "the end of the context")
			require.ErrorIs(t, context.Cause(ctx), redlock.ErrReleased)
			return nil
		}))
		c.eventuallyEmpty()
	})
}

func TestDoWithoutAFunctionOrWithBadOptionsIsRefused(t *testing.T) {
	locker := onMini(t, 1).locker()
	require.ErrorContains(t, locker.Do(t.Context(), "name", nil), "without a function")
	never := func(context.Context, *redlock.Lock) error { panic("not asked for") }
	require.ErrorContains(t, locker.Do(t.Context(), "", never), "the name is empty")
	require.ErrorContains(t, locker.Do(t.Context(), "name", never, redlock.TTL(0)), "TTL 0s")
	require.NoError(t, locker.Close())
	require.ErrorIs(t, locker.Do(t.Context(), "name", never), redlock.ErrClosed)
}

func TestDoEndsAtMaxHold(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		const ttl, most = 500 * time.Millisecond, 1200 * time.Millisecond
		begin := time.Now()
		err := c.locker().Do(t.Context(), "name", func(ctx context.Context, lock *redlock.Lock) error {
			receive(t, ctx.Done(), "the end of the context")
			require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
			return nil
		}, redlock.TTL(ttl), redlock.MaxHold(most))
		require.ErrorIs(t, err, redlock.ErrExpired)
		require.Greater(t, time.Since(begin), ttl, "it was renewed")
		c.eventuallyEmpty()
	})
}
