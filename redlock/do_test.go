package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

func TestDo_HoldsTheLockWhileTheFunctionRunsAndReturnsItsError(t *testing.T) {
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

func TestDo_RenewsTheLockWhileTheFunctionRuns(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker, fake, seen := c.timed()
		err := locker.Do(t.Context(), "name", func(ctx context.Context, lock *redlock.Lock) error {
			for i := range 5 { // longer than its TTL
				require.NoError(t, fake.WaitForTimers(t.Context(), 2)) // the end of the context, and the renewal
				fake.Advance(10 * time.Minute)
				eventually(t, func() bool { return seen.renewals() == i+1 }, "renewal %d", i)
			}
			require.NoError(t, lock.Err())
			return ctx.Err()
		}, redlock.TTL(30*time.Minute))
		require.NoError(t, err)
	})
}

func TestDo_WaitsForItsTurnAndDoesNotRunTheFunctionWithoutIt(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		waits(t, locker, "name")
		ctx, cancel := context.WithCancel(t.Context())
		w := &watched{Context: ctx, waiting: make(chan struct{})}
		ended := make(chan error, 1)
		go func() {
			ended <- locker.Do(w, "name", func(context.Context, *redlock.Lock) error { panic("not its turn") })
		}()
		receive(t, w.waiting, "its place in the queue")
		cancel()
		requireIs(t, receive(t, ended, "the end of Do"), context.Canceled, redlock.ErrTaken)
	})
}

func TestDo_ReleasesTheLockHoweverTheFunctionEnds(t *testing.T) {
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
	})
}

func TestDo_EndsTheContextOfTheFunctionWhenTheLockIsLost(t *testing.T) {
	failed := errors.New("failed")
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		inTurn(t, map[string]func(*redlock.Lock){
			"by force": func(*redlock.Lock) { c.free("name") },
			"to another": func(lock *redlock.Lock) {
				c.each(func(i int) { c.do(i, "SET", "name", "theirs", "PX", long.Milliseconds()) })
			},
		}, func(t *testing.T, lose func(*redlock.Lock)) {
			var over context.Context
			fake := clocktest.New()
			err := c.locker(redlock.WithClock(fake)).Do(t.Context(), "name", func(ctx context.Context, lock *redlock.Lock) error {
				c.eventuallyHeld("name", lock.Token())
				lose(lock)
				over = ctx
				nextAt(t, fake, renewalIn(0, 30*time.Minute)) // the renewal finds it out
				receive(t, ctx.Done(), "the end of the context")
				return failed
			}, redlock.TTL(30*time.Minute))
			require.ErrorIs(t, context.Cause(over), redlock.ErrGone)
			requireIs(t, err, failed, redlock.ErrGone)
			c.doAll("DEL", "name")
		})
		t.Run("noticed by the release only", func(t *testing.T) {
			// By the fake clock no renewal is ever due.
			err := c.locker(redlock.WithClock(clocktest.New())).Do(t.Context(), "name", func(_ context.Context, lock *redlock.Lock) error {
				c.eventuallyHeld("name", lock.Token())
				c.doAll("DEL", "name")
				return failed
			})
			requireIs(t, err, failed, redlock.ErrGone)
		})
		t.Run("without nodes", func(t *testing.T) {
			fake := clocktest.New()
			err := c.locker(redlock.WithClock(fake)).Do(t.Context(), "name", func(ctx context.Context, lock *redlock.Lock) error {
				kill(c.servers[1:]...)
				fake.Advance(lock.Remaining())
				receive(t, ctx.Done(), "the end of the context")
				require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
				return context.Cause(ctx)
			}, redlock.TTL(30*time.Minute))
			require.ErrorIs(t, err, redlock.ErrExpired)
			restart(c.servers[1:]...)
		})
		c.eventuallyEmpty()
	})
}

func TestDo_ReportsThatDataHasReplacedTheLock(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		err := c.locker().Do(t.Context(), "name", func(_ context.Context, lock *redlock.Lock) error {
			c.eventuallyHeld("name", lock.Token())
			for i := range 2 {
				c.do(i, "EVAL", "redis.call('DEL', KEYS[1]) return redis.call('RPUSH', KEYS[1], 'a')", 1, "name") // nothing comes between
			}
			return nil
		})
		require.ErrorIs(t, err, redlock.ErrGone)
		c.doAll("DEL", "name")
	})
}

func TestDo_AcceptsAFunctionThatReleasesTheLockItself(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		require.NoError(t, c.locker().Do(t.Context(), "name", func(ctx context.Context, lock *redlock.Lock) error {
			require.NoError(t, lock.Unlock(ctx))
			receive(t, ctx.Done(), "the end of the context")
			require.ErrorIs(t, context.Cause(ctx), redlock.ErrReleased)
			return nil
		}))
	})
}

func TestDo_EndsWithItsRenewals(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker, fake, seen := c.timed(redlock.WithDrift(0, 0))
		err := locker.Do(t.Context(), "name", func(ctx context.Context, lock *redlock.Lock) error {
			for i := range 2 {
				seen.renewed(t, fake, i, 30*time.Minute)
			}
			fake.Advance(25 * time.Minute)
			receive(t, ctx.Done(), "the end of the context")
			require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
			return nil
		}, redlock.TTL(30*time.Minute), redlock.RenewFor(35*time.Minute))
		require.ErrorIs(t, err, redlock.ErrExpired)
	})
}

func TestDo_RenewsALockThatItFindsTaken(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker, fake, seen := c.timed()
		lock := take(t, locker, "name", redlock.TTL(30*time.Minute))
		outer := contextOf(t, lock)
		require.NoError(t, locker.Do(outer, "name", func(ctx context.Context, _ *redlock.Lock) error {
			locker.Drain() // Do has extended the lock
			before := seen.renewals()
			for i := range 2 {
				nextAt(t, fake, renewalIn(i, 30*time.Minute))
				eventually(t, func() bool { return seen.renewals() == before+i+1 }, "renewal %d", i)
			}
			return context.Cause(ctx)
		}, redlock.Reentrant(), redlock.TTL(30*time.Minute)))

		fake.Advance(lock.Remaining())
		receive(t, lock.Done(), "the end of what nobody renews any more")
		require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
	})
}

func TestTryDo_DoesNotWaitForAHolder(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock, other := take(t, c.locker(), "name"), c.locker()
		err := other.TryDo(t.Context(), "name", func(context.Context, *redlock.Lock) error {
			t.Error("it ran beside the holder")
			return nil
		})
		require.ErrorIs(t, err, redlock.ErrTaken)
		unlock(t, lock)
		wanted := errors.New("wanted")
		require.Equal(t, wanted, other.TryDo(t.Context(), "name", func(context.Context, *redlock.Lock) error { return wanted }))
	})
}

// What fn returns of the loss is not returned a second time, however the loss was noticed.
func TestDo_DoesNotReturnTheLossTwice(t *testing.T) {
	t.Parallel()
	c := onMini(t, 1)
	flush := func(*redlock.Lock, *clocktest.Fake) { c.doAll("FLUSHALL") }
	extend := func(lock *redlock.Lock) error { return lock.Extend(t.Context(), long) }
	unlock := func(lock *redlock.Lock) error { return lock.Unlock(t.Context()) }
	cause := func(ctx context.Context, _ *redlock.Lock) error { return context.Cause(ctx) }
	for name, test := range map[string]struct {
		lose func(lock *redlock.Lock, fake *clocktest.Fake)
		fn   func(ctx context.Context, lock *redlock.Lock) error
		loss error
		text string // that is in the message once
	}{
		"the cause of a loss":     {flush, func(ctx context.Context, k *redlock.Lock) error { _ = extend(k); return cause(ctx, k) }, redlock.ErrGone, "gone"},
		"the cause of the expiry": {expired, cause, redlock.ErrExpired, "expired"},
		"an error around the cause": {flush, func(ctx context.Context, k *redlock.Lock) error {
			_ = extend(k)
			return fmt.Errorf("stopped: %w", context.Cause(ctx))
		}, redlock.ErrGone, "gone"},
		"what Extend returned":              {flush, func(_ context.Context, k *redlock.Lock) error { return extend(k) }, redlock.ErrGone, "gone"},
		"what Unlock returned":              {flush, func(_ context.Context, k *redlock.Lock) error { return unlock(k) }, redlock.ErrGone, "gone"},
		"what Unlock returned after a loss": {flush, func(_ context.Context, k *redlock.Lock) error { _ = extend(k); return unlock(k) }, redlock.ErrGone, "gone"},
		"what it has found out by itself":   {flush, func(context.Context, *redlock.Lock) error { return fmt.Errorf("gone: %w", redlock.ErrGone) }, redlock.ErrGone, "lock is"},
		"that it is not held any more":      {flush, func(context.Context, *redlock.Lock) error { return redlock.ErrNotHeld }, redlock.ErrNotHeld, "lock is"},
	} {
		for _, nested := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, nested %v", name, nested), func(t *testing.T) {
				locker, fake, _ := c.timed()
				fn := func(ctx context.Context, lock *redlock.Lock) error {
					test.lose(lock, fake)
					if test.loss == redlock.ErrExpired { //nolint:errorlint // the very error is meant
						receive(t, ctx.Done(), "the end of the context")
					}
					return test.fn(ctx, lock)
				}
				err := locker.Do(t.Context(), "name", func(ctx context.Context, lock *redlock.Lock) error {
					if nested {
						return locker.Do(ctx, "name", fn, redlock.Reentrant())
					}
					return fn(ctx, lock)
				})
				require.ErrorIs(t, err, test.loss)
				require.Equal(t, 1, strings.Count(err.Error(), test.text), err.Error())
			})
		}
	}
}

func expired(lock *redlock.Lock, fake *clocktest.Fake) { fake.Advance(lock.Remaining()) }

// The danger: the loss of one lock that hides that of another.
func TestDo_TheLossOfAnotherLockDoesNotHideTheLossOfItsOwn(t *testing.T) {
	t.Parallel()
	c := onMini(t, 1)
	locker := c.locker()
	err := locker.Do(t.Context(), "outer", func(ctx context.Context, outer *redlock.Lock) error {
		return locker.Do(ctx, "inner", func(ctx context.Context, inner *redlock.Lock) error {
			c.doAll("FLUSHALL")
			for _, lock := range []*redlock.Lock{inner, outer} {
				require.ErrorIs(t, lock.Extend(t.Context(), long), redlock.ErrGone)
			}
			return nil
		})
	})
	require.ErrorIs(t, err, redlock.ErrGone)
	require.ErrorContains(t, err, `"inner"`)
	require.ErrorContains(t, err, `"outer"`)
}

func TestMaxWait_LimitsTheWaitAndNotTheWork(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		take(t, c.locker(), "taken")
		locker := c.locker()
		work := func(ctx context.Context, _ *redlock.Lock) error {
			_, bounded := ctx.Deadline()
			require.False(t, bounded)
			return ctx.Err()
		}
		brief := redlock.MaxWait(20 * time.Millisecond)
		err := locker.Do(t.Context(), "taken", work, brief)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "no context has ended")
		require.ErrorIs(t, err, redlock.ErrNotRun)
		require.ErrorAs(t, err, new(*redlock.QuorumError)) // ErrNoQuorum if not even the first round has ended
		_, err = locker.Lock(t.Context(), "taken", brief)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorAs(t, err, new(*redlock.QuorumError))
		require.NoError(t, locker.Do(t.Context(), "free", work, redlock.MaxWait(patient)))
	})
}

func TestMaxWait_0TriesOnce(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		seen := &recorder{}
		holder, locker := c.everywhere(take(t, c.locker(), "name")), c.locker(redlock.WithObserver(seen))
		require.ErrorIs(t, errOf(locker.Lock(t.Context(), "name", redlock.MaxWait(0))), redlock.ErrTaken)
		require.Equal(t, 1, waitFor[event.Acquire](t, seen, 1)[0].Rounds)
		unlock(t, holder)
		waits(t, locker, "name", redlock.MaxWait(0))
	})
}

// The danger: a caller who cannot tell whether the work was done, and does it twice or never.
func TestDo_SaysWhetherTheFunctionHasRun(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		holder, locker := take(t, c.locker(), "taken"), c.locker()
		ran := func(err error) func(context.Context, *redlock.Lock) error {
			return func(context.Context, *redlock.Lock) error { return err }
		}
		taken := locker.TryDo(t.Context(), "taken", ran(nil))
		for err, is := range map[error]error{
			taken:                                redlock.ErrTaken,
			locker.Do(over(t), "free", ran(nil)): context.Canceled,
			locker.Do(t.Context(), "", ran(nil)): redlock.ErrInvalid,
			locker.Do(t.Context(), "free", nil):  redlock.ErrInvalid,
			locker.Do(t.Context(), "taken", ran(nil), redlock.MaxWait(0)): redlock.ErrTaken,
		} {
			requireIs(t, err, redlock.ErrNotRun, is)
			require.ErrorAs(t, err, new(*redlock.LockError))
		}
		require.Contains(t, fmt.Sprintf("%+v", taken), "\n\t", "a line for each node")

		mine := errors.New("mine")
		require.Equal(t, mine, locker.Do(t.Context(), "free", ran(mine)))
		nested := locker.Do(t.Context(), "free", ran(fmt.Errorf("%w: %w", mine, taken)))
		require.NotErrorIs(t, nested, redlock.ErrNotRun, "the outer function has run")
		requireIs(t, nested, mine, redlock.ErrTaken)
		require.ErrorAs(t, nested, new(*redlock.QuorumError))
		require.EqualError(t, nested, "mine: "+taken.Error())

		unlock(t, holder)
		require.NoError(t, locker.Close())
		requireIs(t, locker.Do(t.Context(), "free", ran(nil)), redlock.ErrNotRun, redlock.ErrClosed)
	})
}

func TestReadme_BillsOnceIfItIsCalledTwice(t *testing.T) {
	_, urls, stop := startServers(3)
	defer stop()
	after, beside := &invoices{}, &invoices{}
	for range 2 { // one after the other
		require.NoError(t, readme(t.Context(), urls, after))
	}
	require.Equal(t, map[int]int{4711: 1}, after.bills)

	var calls sync.WaitGroup
	for range 2 { // at the same time
		calls.Go(func() {
			if err := readme(t.Context(), urls, beside); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	require.Equal(t, map[int]int{4711: 1}, beside.bills)
}
