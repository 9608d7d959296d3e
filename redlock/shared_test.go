package redlock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// sharing has an option for each kind of lock that several may have at a time. Each lets 20 in.
var sharing = map[redlock.Kind]redlock.LockOption{
	"shared": redlock.Shared(),
	"slot":   redlock.Slots(20),
}

// eachSharing runs a test for each kind of lock that several may have at a time, on three nodes of its own: on both kinds of server with
// onBoth, and on real servers with onServers.
func eachSharing(
	t *testing.T, on func(*testing.T, int, func(*testing.T, *cluster)),
	test func(t *testing.T, c *cluster, kind redlock.Kind, shares redlock.LockOption),
) {
	for kind, shares := range sharing {
		t.Run(string(kind), func(t *testing.T) {
			on(t, 3, func(t *testing.T, c *cluster) { test(t, c, kind, shares) })
		})
	}
}

// onServers is onBoth with real servers only.
func onServers(t *testing.T, n int, test func(t *testing.T, c *cluster)) {
	t.Parallel()
	test(t, onReal(t, n))
}

// markOf returns what the key of a name holds while there is a lock of a kind.
func markOf(kind redlock.Kind) redlock.Token {
	return map[redlock.Kind]redlock.Token{"shared": "|shared", "slot": "|slots"}[kind]
}

func TestShared_ReadersShareAndKeepWritersOut(t *testing.T) {
	eachSharing(t, onBoth, func(t *testing.T, c *cluster, kind redlock.Kind, shares redlock.LockOption) {
		first, second := c.locker(), c.locker()
		a := got(first.Lock(t.Context(), "name", shares))(t)
		require.Equal(t, kind, a.Kind())
		require.Zero(t, a.Fence())
		c.eventuallyHeld("name", markOf(kind))
		b := got(second.TryLock(t.Context(), "name", shares))(t)
		require.NotEqual(t, a.Token(), b.Token())
		c.eventuallyHeld("name", markOf(kind))
		_, err := second.TryLock(t.Context(), "name")
		_ = c.refused(err, redlock.ErrTaken)
		require.NoError(t, a.Extend(t.Context(), long))
		unlock(t, a)
		_, err = first.TryLock(t.Context(), "name")
		_ = c.refused(err, redlock.ErrTaken)
		unlock(t, b)
		c.eventuallyEmpty()
		w := got(first.TryLock(t.Context(), "name"))(t)
		require.Equal(t, redlock.KindExclusive, w.Kind())
		_, err = second.TryLock(t.Context(), "name", shares)
		_ = c.refused(err, redlock.ErrTaken)
		unlock(t, w)
	})
}

func TestShared_AWriterWaitsForThoseInsideAndKeepsOthersOut(t *testing.T) {
	eachSharing(t, onBoth, func(t *testing.T, c *cluster, _ redlock.Kind, shares redlock.LockOption) {
		first, second := c.locker(), c.locker()
		inside := got(first.Lock(t.Context(), "name", shares))(t)
		writer := lockBeside(t.Context(), second, "name")
		c.eventuallyWaiting("name", 1)
		_, err := first.TryLock(t.Context(), "name", shares)
		_ = c.refused(err, redlock.ErrTaken, nodeerr.ErrWanted)
		reader := beside(func() error { return first.Do(t.Context(), "name", nothing, shares) })
		require.NoError(t, inside.Extend(t.Context(), long))
		unlock(t, inside)
		w := receive(t, writer, "the writer")
		require.NoError(t, w.err)
		c.eventuallyWaiting("name", 0)
		unlock(t, w.lock)
		require.NoError(t, receive(t, reader, "the reader"))
		c.eventuallyEmpty()
	})
}

func TestShared_EventsSayWhichKindOfLockItIs(t *testing.T) {
	eachSharing(t, onBoth, func(t *testing.T, c *cluster, kind redlock.Kind, shares redlock.LockOption) {
		locker, seen := c.observed()
		lock := got(locker.Lock(t.Context(), "name", shares))(t)
		require.NoError(t, lock.Extend(t.Context(), long))
		_, err := locker.TryLock(t.Context(), "name")
		_ = c.refused(err, redlock.ErrTaken)
		unlock(t, lock)
		require.Equal(t, string(kind), waitFor[event.End](t, seen, 1)[0].Kind)
		require.Equal(t, string(kind), waitFor[event.Extend](t, seen, 1)[0].Kind)
		require.Equal(t, string(kind), waitFor[event.Unlock](t, seen, 1)[0].Kind)

		require.NoError(t, locker.Do(t.Context(), "name", func(ctx context.Context, lock *redlock.Lock) error {
			inner, err := locker.Lock(ctx, "name", redlock.Reentrant(), redlock.Shared())
			if err == nil {
				err = inner.Unlock(ctx)
			}
			return err
		}))
		var kinds []string
		for _, e := range waitFor[event.Acquire](t, seen, 4) {
			kinds = append(kinds, e.Kind)
		}
		require.Equal(t, []string{string(kind), "exclusive", "exclusive", "exclusive"}, kinds, "a writer that reads has a writer's lock")
		require.Equal(t, "exclusive", waitFor[event.End](t, seen, 2)[1].Kind)
	})
}

func TestShared_ReadersOfOneLockerComeTogetherBehindAWriter(t *testing.T) {
	eachSharing(t, onBoth, func(t *testing.T, c *cluster, _ redlock.Kind, shares redlock.LockOption) {
		const n = 20
		locker := c.locker()
		writer := got(locker.Lock(t.Context(), "name"))(t)
		var in atomic.Int32
		together := make(chan struct{})
		var readers sync.WaitGroup
		for range n {
			readers.Go(func() {
				assert.NoError(t, locker.Do(t.Context(), "name", func(ctx context.Context, _ *redlock.Lock) error {
					if in.Add(1) == n {
						close(together)
					}
					select {
					case <-together:
						return nil
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				}, shares))
			})
		}
		unlock(t, writer)
		readers.Wait()
		c.eventuallyEmpty()
	})
}

func TestShared_WhoHoldsTheNameAlready(t *testing.T) {
	onMini(t, 3).reads(t, func(l *redlock.Locker, opts ...redlock.LockOption) (*redlock.Lock, error) {
		return l.TryLock(t.Context(), "name", opts...)
	}, map[string]redlock.Kind{"Lock": redlock.KindExclusive, "Shared": redlock.KindExclusive})
	onMini(t, 3).reads(t, func(l *redlock.Locker, opts ...redlock.LockOption) (*redlock.Lock, error) {
		return l.TryLock(t.Context(), "name", append(opts, redlock.Shared())...)
	}, map[string]redlock.Kind{"Shared": redlock.KindShared})
}

// reads checks what a holder gets of the name that it holds: without Reentrant ErrDeadlock, and with it a handle of a kind, or ErrDeadlock if
// there is none.
func (c *cluster) reads(t *testing.T, hold func(*redlock.Locker, ...redlock.LockOption) (*redlock.Lock, error), reentered map[string]redlock.Kind) {
	locker := c.locker()
	outer := got(hold(locker, redlock.Owner("me")))(t)
	for call, take := range map[string]func(context.Context, string, ...redlock.LockOption) (*redlock.Lock, error){
		"Lock": locker.Lock,
		"Shared": func(ctx context.Context, name string, opts ...redlock.LockOption) (*redlock.Lock, error) {
			return locker.Lock(ctx, name, append(opts, redlock.Shared())...)
		},
	} {
		for _, opts := range [][]redlock.LockOption{nil, {redlock.Owner("me")}} {
			ctx := contextOf(t, outer)
			if opts != nil {
				ctx = t.Context()
			}
			_, err := take(ctx, "name", opts...)
			requireIs(t, err, redlock.ErrDeadlock)
			inner, err := take(ctx, "name", append(opts, redlock.Reentrant())...)
			if kind, ok := reentered[call]; ok {
				require.Equal(t, kind, got(inner, err)(t).Kind())
				unlock(t, inner)
			} else {
				requireIs(t, err, redlock.ErrDeadlock)
			}
		}
	}
	_, err := locker.TryLockAll(t.Context(), []string{"name", "other"}, redlock.Owner("me"))
	requireIs(t, err, redlock.ErrDeadlock)
	require.NoError(t, outer.Err())
	unlock(t, outer)
}

func TestShared_IsLostIfTheNodesForgetIt(t *testing.T) {
	for _, lose := range []func(*cluster, *redlock.Lock){
		func(c *cluster, _ *redlock.Lock) { c.doFirst(2, "DEL", "name") },
		func(c *cluster, lock *redlock.Lock) { c.doFirst(2, "ZREM", "{name}:sharers", lock.Token()) },
		func(c *cluster, _ *redlock.Lock) { c.doFirst(2, "SET", "name", "another's", "PX", "60000") },
	} {
		for _, shares := range sharing {
			c := onReal(t, 3).mayLeave()
			locker := c.locker()
			other := got(locker.Lock(t.Context(), "other", shares))(t)
			lock := got(locker.Lock(t.Context(), "name", redlock.TTL(time.Second), redlock.RenewFor(redlock.NoLimit), shares))(t)
			c.eventuallyHeld("name", markOf(lock.Kind()))
			lose(c, lock)
			receive(t, lock.Done(), "the loss")
			requireIs(t, lock.Err(), redlock.ErrGone)
			require.NoError(t, other.Err())
		}
	}
}

func TestShared_AWriterGetsInBehindAReaderThatHasDied(t *testing.T) {
	eachSharing(t, onServers, func(t *testing.T, c *cluster, _ redlock.Kind, shares redlock.LockOption) {
		dead, locker := c.locker(), c.locker()
		_, err := dead.Lock(t.Context(), "name", redlock.TTL(200*time.Millisecond), shares)
		require.NoError(t, err)
		unlock(t, got(locker.Lock(t.Context(), "name"))(t))
	})
}

func TestShared_WhatOthersHaveDoneToItsKeys(t *testing.T) {
	eachSharing(t, onBoth, func(t *testing.T, c *cluster, kind redlock.Kind, shares redlock.LockOption) {
		locker := c.locker()
		lock := got(locker.TryLock(t.Context(), "name", shares))(t)
		c.eventuallyHeld("name", markOf(kind))
		c.doAll("PERSIST", "name")
		c.doAll("PERSIST", "{name}:sharers")
		require.NoError(t, lock.Extend(t.Context(), long))
		eventually(t, func() bool { return c.ttl(0, "name") > 0 && c.ttl(1, "name") > 0 && c.ttl(2, "name") > 0 }, "a TTL")
		require.Positive(t, c.ttl(0, "{name}:sharers"))
		c.doAll("SET", "{name}:wanted", "somebody's") // is no matter for those inside
		require.NoError(t, lock.Extend(t.Context(), 2*long))
		require.NoError(t, lock.Err())
		unlock(t, lock)
		c.doAll("DEL", "{name}:wanted")
	})
}

func TestShared_SomebodysDataBesideTheKeyKeepsReadersOut(t *testing.T) {
	eachSharing(t, onServers, func(t *testing.T, c *cluster, _ redlock.Kind, shares redlock.LockOption) {
		locker := c.locker()
		for _, data := range [][]any{
			{"{name}:sharers", "RPUSH", "list"}, {"{name}:wanted", "RPUSH", "list"}, {"{name}:wanted", "ZADD", "zset", 1},
		} {
			key := data[0]
			c.doAll(data[1].(string), append(append([]any{key}, data[3:]...), "somebody's")...)
			_, err := locker.TryLock(t.Context(), "name", shares)
			requireIs(t, err, redlock.ErrForeign)
			_, err = locker.Lock(t.Context(), "name", shares)
			requireIs(t, err, redlock.ErrForeign)
			unlock(t, got(locker.TryLock(t.Context(), "name"))(t))
			require.Equal(t, data[2], c.do(0, "TYPE", key))
			c.doAll("DEL", key)
		}
	})
}

func TestShared_AWriterThatGivesUpTakesBackWhatItHasSaidAndNoMore(t *testing.T) {
	eachSharing(t, onBoth, func(t *testing.T, c *cluster, _ redlock.Kind, shares redlock.LockOption) {
		first, second, third := c.locker(), c.locker(), c.locker()
		inside := got(first.Lock(t.Context(), "name", shares))(t)
		patient := lockBeside(t.Context(), second, "name")
		c.eventuallyWaiting("name", 1)
		ctx, giveUp := context.WithCancel(t.Context())
		impatient := lockBeside(ctx, third, "name")
		c.eventuallyWaiting("name", 2)
		giveUp()
		require.ErrorIs(t, receive(t, impatient, "the end of the wait").err, context.Canceled)
		c.eventuallyWaiting("name", 1)
		_, err := first.TryLock(t.Context(), "name", shares)
		_ = c.refused(err, redlock.ErrTaken, nodeerr.ErrWanted)
		unlock(t, inside)
		unlock(t, won(t, patient))
		c.eventuallyEmpty()
	})
}

func TestShared_WhoWaitsForTheOtherKindKeepsThatOut(t *testing.T) {
	eachSharing(t, onBoth, func(t *testing.T, c *cluster, kind redlock.Kind, shares redlock.LockOption) {
		other := redlock.Slots(9)
		if kind == redlock.KindSlot {
			other = redlock.Shared()
		}
		first, second, third := c.locker(), c.locker(), c.locker()
		inside := got(first.Lock(t.Context(), "name", other))(t)
		waiting := lockBeside(t.Context(), second, "name", shares)
		c.eventuallyWaiting("name", 1)
		_, err := third.TryLock(t.Context(), "name", other)
		_ = c.refused(err, redlock.ErrTaken, nodeerr.ErrWanted)
		unlock(t, inside)
		unlock(t, won(t, waiting))
		c.eventuallyEmpty()
	})
}

func TestShared_HasNoFenceAndWritersGoOnCounting(t *testing.T) {
	eachSharing(t, onBoth, func(t *testing.T, c *cluster, _ redlock.Kind, shares redlock.LockOption) {
		locker := c.locker(redlock.WithFencing())
		last := uint64(0)
		for range 3 {
			writer := got(locker.Lock(t.Context(), "name"))(t)
			require.Greater(t, writer.Fence(), last)
			last = writer.Fence()
			unlock(t, writer)
			reader := got(locker.Lock(t.Context(), "name", redlock.RenewFor(redlock.NoLimit), shares))(t)
			require.Zero(t, reader.Fence())
			require.NoError(t, reader.Extend(t.Context(), long))
			unlock(t, reader)
		}
		c.doAll("DEL", "{name}:fence")
	})
}

func TestShared_TheNamesBesideALockAreRefused(t *testing.T) {
	locker := onMini(t, 1).locker()
	for _, name := range []string{"{name}:sharers", "{name}:wanted", "{name}:slots", "{name}:fence"} {
		_, err := locker.TryLock(t.Context(), name, redlock.Shared())
		requireIs(t, err, redlock.ErrInvalid)
		require.ErrorContains(t, err, name)
	}
}

// nothing is a function that only has the lock.
func nothing(context.Context, *redlock.Lock) error { return nil }
