package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

func TestRenewFor_StandsThoughTheLockIsTakenAgain(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker, fake, _ := c.timed(redlock.WithDrift(0, 0))
		lock := take(t, locker, "name", redlock.TTL(30*time.Minute), redlock.RenewFor(30*time.Minute))
		end := fake.Now().Add(30 * time.Minute)
		ctx := contextOf(t, lock)
		for range 5 {
			fake.Advance(5 * time.Minute)
			inner, err := locker.TryLock(ctx, "name", redlock.Reentrant(), redlock.TTL(30*time.Minute))
			if err == nil {
				require.False(t, inner.ValidUntil().After(end), "counted from the acquire")
				unlock(t, inner)
			}
			require.False(t, lock.ValidUntil().After(end))
		}
		fake.Advance(5 * time.Minute)
		receive(t, lock.Done(), "the end of RenewFor")
		require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
	})
}

// bearer is how a call is told to be the holder's.
type bearer struct {
	name  string
	outer []redlock.LockOption
	ctx   func(t *testing.T, lock *redlock.Lock) context.Context // of the calls inside
	inner []redlock.LockOption
}

var bearers = []bearer{
	{"by the context", nil, func(t *testing.T, lock *redlock.Lock) context.Context {
		ctx, cancel := lock.Context(t.Context())
		t.Cleanup(cancel)
		return ctx
	}, nil},
	{"by the owner", []redlock.LockOption{redlock.Owner("job 7")}, func(t *testing.T, _ *redlock.Lock) context.Context { return t.Context() },
		[]redlock.LockOption{redlock.Owner("job 7")}},
}

func onBearers(t *testing.T, test func(t *testing.T, c *cluster, b bearer)) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		for _, b := range bearers {
			t.Run(b.name, func(t *testing.T) { test(t, c, b) })
			c.eventuallyEmpty() // a late clean-up would be in the way of the next
		}
	})
}

func again(b bearer) []redlock.LockOption {
	return append([]redlock.LockOption{redlock.Reentrant()}, b.inner...)
}

func TestReentrant_TheHolderTakesItsLockAgainAndTheLastHandleReleasesIt(t *testing.T) {
	onBearers(t, func(t *testing.T, c *cluster, b bearer) {
		locker := c.locker()
		outer := c.everywhere(take(t, locker, "name", b.outer...))
		ctx := b.ctx(t, outer)
		handles := []*redlock.Lock{outer}
		for i := range 3 {
			call := locker.Lock
			if i == 1 {
				call = locker.TryLock
			}
			inner := must(call(ctx, "name", again(b)...))(t)
			require.Equal(t, outer.Token(), inner.Token(), "the same lock")
			handles = append(handles, inner)
		}
		for i := len(handles) - 1; i > 0; i-- {
			k := handles[i]
			unlock(t, k)
			require.ErrorIs(t, k.Err(), redlock.ErrReleased)
			require.True(t, isOver(k.Done()))
			require.Zero(t, k.Remaining())
			require.ErrorIs(t, k.Extend(t.Context(), long), redlock.ErrReleased)
			err := k.Unlock(t.Context())
			require.ErrorIs(t, err, redlock.ErrNotHeld, "twice")
			require.ErrorIs(t, err, redlock.ErrReleased)
			for _, other := range handles[:i] {
				require.NoError(t, other.Err())
				require.False(t, isOver(other.Done()))
			}
			require.Equal(t, 3, c.holding("name", outer.Token()))
		}
		unlock(t, outer)
		c.eventuallyEmpty()
	})
}

func TestReentrant_TheOuterHandleMayBeReleasedBeforeTheInner(t *testing.T) {
	onBearers(t, func(t *testing.T, c *cluster, b bearer) {
		locker, fake, _ := c.timed()
		for _, expires := range []bool{false, true} {
			outer := take(t, locker, "name", b.outer...)
			ctx := contextOf(t, outer)
			inner := got(locker.Lock(b.ctx(t, outer), "name", again(b)...))(t)
			unlock(t, outer)
			receive(t, outer.Done(), "the end of the outer handle")
			require.ErrorIs(t, outer.Err(), redlock.ErrReleased)
			require.Zero(t, outer.Remaining())
			receive(t, ctx.Done(), "the end of its context")
			require.ErrorIs(t, context.Cause(ctx), redlock.ErrReleased)
			require.NoError(t, inner.Err())
			require.False(t, isOver(inner.Done()))
			require.NoError(t, inner.Extend(t.Context(), 2*long))
			if expires {
				fake.Advance(inner.Remaining())
				receive(t, inner.Done(), "the deadline")
				require.ErrorIs(t, inner.Err(), redlock.ErrExpired)
				require.ErrorIs(t, outer.Err(), redlock.ErrReleased, "what came first stays")
			} else {
				unlock(t, inner)
			}
		}
	})
}

func TestReentrant_RenewsTheTTL(t *testing.T) {
	onBearers(t, func(t *testing.T, c *cluster, b bearer) {
		locker, fake, _ := c.timed()
		outer := take(t, locker, "name", append(b.outer, redlock.TTL(time.Minute))...)
		ctx := b.ctx(t, outer)
		fake.Advance(50 * time.Second)
		inner := got(locker.Lock(ctx, "name", append(again(b), redlock.TTL(time.Minute))...))(t)
		require.Greater(t, outer.Remaining(), 59*time.Second)
		unlock(t, inner)
	})
}

func TestLock_WithoutReentrantTheHolderIsToldThatItWouldWaitForItself(t *testing.T) {
	onBearers(t, func(t *testing.T, c *cluster, b bearer) {
		locker := c.locker()
		outer := take(t, locker, "name", b.outer...)
		ctx := b.ctx(t, outer)
		for name, call := range map[string]func() error{
			"Lock":    func() error { _, err := locker.Lock(ctx, "name", b.inner...); return err },
			"TryLock": func() error { _, err := locker.TryLock(ctx, "name", b.inner...); return err },
			"Do": func() error {
				return locker.Do(ctx, "name", func(context.Context, *redlock.Lock) error { panic("not held") }, b.inner...)
			},
		} {
			err := call()
			require.ErrorIs(t, err, redlock.ErrDeadlock, name)
			require.NotErrorIs(t, err, redlock.ErrTaken, name+": trying again does not help")
		}
		unlock(t, got(locker.Lock(ctx, "another name", b.inner...))(t))
	})
}

func TestReentrant_OthersDoNotTakeTheLockAgain(t *testing.T) {
	onBearers(t, func(t *testing.T, c *cluster, b bearer) {
		locker := c.locker()
		outer := c.everywhere(take(t, locker, "name", b.outer...))
		for name, call := range map[string]func() (*redlock.Lock, error){
			"without the context or the owner": func() (*redlock.Lock, error) { return locker.TryLock(t.Context(), "name", redlock.Reentrant()) },
			"with another owner": func() (*redlock.Lock, error) {
				return locker.TryLock(t.Context(), "name", redlock.Reentrant(), redlock.Owner("job 8"))
			},
			"in another Locker": func() (*redlock.Lock, error) { return c.locker().TryLock(b.ctx(t, outer), "name", again(b)...) },
		} {
			_, err := call()
			require.ErrorIs(t, err, redlock.ErrTaken, name)
			require.NotErrorIs(t, err, redlock.ErrDeadlock, name)
		}
	})
}

func TestReentrant_WhereNothingIsHeldJustAcquires(t *testing.T) {
	onBearers(t, func(t *testing.T, c *cluster, b bearer) {
		locker := c.locker()
		lock := waits(t, locker, "name", again(b)...)
		ctx := b.ctx(t, lock)
		unlock(t, lock)
		if b.outer != nil { // a context of a lock that is over is over too
			second := got(locker.Lock(ctx, "name", again(b)...))(t)
			require.NotEqual(t, lock.Token(), second.Token())
			unlock(t, second)
		}
	})
}

func TestReentrant_ALockThatIsOverIsNotTakenAgain(t *testing.T) {
	onBearers(t, func(t *testing.T, c *cluster, b bearer) {
		locker, fake, _ := c.timed()
		outer := c.everywhere(take(t, locker, "name", append(b.outer, redlock.TTL(time.Minute))...))
		ctx := context.WithoutCancel(b.ctx(t, outer))
		fake.Advance(time.Minute)
		c.doAll("DEL", "name") // the servers' time is another
		inner := got(locker.TryLock(ctx, "name", again(b)...))(t)
		require.NotEqual(t, outer.Token(), inner.Token())
		require.ErrorIs(t, outer.Err(), redlock.ErrExpired)
		unlock(t, inner)
	})
}

func TestReentrant_EveryHandleEndsWithTheLock(t *testing.T) {
	onBearers(t, func(t *testing.T, c *cluster, b bearer) {
		locker, fake, _ := c.timed()
		outer := take(t, locker, "name", append(b.outer, redlock.TTL(time.Minute))...)
		inner := got(locker.TryLock(b.ctx(t, outer), "name", append(again(b), redlock.TTL(time.Minute))...))(t)
		done := []<-chan struct{}{outer.Done(), inner.Done()}
		fake.Advance(time.Minute)
		for i, k := range []*redlock.Lock{outer, inner} {
			receive(t, done[i], "the end")
			require.ErrorIs(t, k.Err(), redlock.ErrExpired)
		}
		requireIs(t, inner.Unlock(t.Context()), redlock.ErrNotHeld, redlock.ErrExpired)
		_ = outer.Unlock(t.Context()) // the servers may hold it still
	})
}

func TestDo_WithinDoTakesTheLockAgainAndALossReachesBoth(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		depth := 0
		var nest func(ctx context.Context, lock *redlock.Lock) error
		nest = func(ctx context.Context, lock *redlock.Lock) error {
			if depth++; depth < 3 {
				err := locker.Do(ctx, "name", nest, redlock.Reentrant())
				require.NoError(t, lock.Err(), "an inner Do does not release it")
				return err
			}
			return nil
		}
		require.NoError(t, locker.Do(t.Context(), "name", nest))
		require.Equal(t, 3, depth)
		c.eventuallyEmpty()

		err := locker.Do(t.Context(), "name", func(outer context.Context, lock *redlock.Lock) error {
			inner := locker.Do(outer, "name", func(ctx context.Context, _ *redlock.Lock) error {
				c.eventuallyHeld("name", lock.Token())
				c.doAll("DEL", "name")
				receive(t, ctx.Done(), "the loss")
				require.ErrorIs(t, context.Cause(ctx), redlock.ErrGone)
				return nil
			}, redlock.Reentrant(), redlock.TTL(short))
			require.ErrorIs(t, inner, redlock.ErrGone)
			receive(t, outer.Done(), "the loss")
			return nil
		}, redlock.TTL(short))
		require.ErrorIs(t, err, redlock.ErrGone)
	})
}
