package redlock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

func TestRLock_ReadersShareAndKeepWritersOut(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		first, second := c.locker(), c.locker()
		a := got(first.RLock(t.Context(), "name"))(t)
		b := got(second.TryRLock(t.Context(), "name"))(t)
		require.Equal(t, redlock.KindRead, a.Kind())
		require.Zero(t, a.Fence())
		require.NotEqual(t, a.Token(), b.Token())
		c.eventuallyHeld("name", "|readers")
		_, err := second.TryLock(t.Context(), "name")
		c.refused(err, redlock.ErrTaken)
		require.NoError(t, a.Extend(t.Context(), long))
		unlock(t, a)
		_, err = first.TryLock(t.Context(), "name")
		c.refused(err, redlock.ErrTaken)
		unlock(t, b)
		c.eventuallyEmpty()
		w := got(first.TryLock(t.Context(), "name"))(t)
		require.Equal(t, redlock.KindLock, w.Kind())
		_, err = second.TryRLock(t.Context(), "name")
		c.refused(err, redlock.ErrTaken)
		unlock(t, w)
	})
}

func TestRLock_AWriterWaitsForThoseInsideAndKeepsOthersOut(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		first, second := c.locker(), c.locker()
		inside := got(first.RLock(t.Context(), "name"))(t)
		writer := lockBeside(t.Context(), second, "name")
		c.eventuallyHeld("{name}:wanted", "|wanted")
		_, err := first.TryRLock(t.Context(), "name")
		c.refused(err, redlock.ErrTaken, nodeerr.ErrWanted)
		reader := beside(func() error {
			lock, err := first.RLock(t.Context(), "name")
			if err == nil {
				err = lock.Unlock(t.Context())
			}
			return err
		})
		require.NoError(t, inside.Extend(t.Context(), long))
		unlock(t, inside)
		w := receive(t, writer, "the writer")
		require.NoError(t, w.err)
		c.eventuallyHeld("{name}:wanted", "")
		unlock(t, w.lock)
		require.NoError(t, receive(t, reader, "the reader"))
		c.eventuallyEmpty()
	})
}

func TestRLock_EventsSayWhichKindOfLockItIs(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker, seen := c.observed()
		lock := got(locker.RLock(t.Context(), "name"))(t)
		require.NoError(t, lock.Extend(t.Context(), long))
		_, err := locker.TryLock(t.Context(), "name")
		_ = c.refused(err, redlock.ErrTaken)
		unlock(t, lock)
		require.Equal(t, "read", waitFor[event.End](t, seen, 1)[0].Kind)
		require.Equal(t, "read", waitFor[event.Extend](t, seen, 1)[0].Kind)
		require.Equal(t, "read", waitFor[event.Unlock](t, seen, 1)[0].Kind)

		require.NoError(t, locker.Do(t.Context(), "name", func(ctx context.Context, lock *redlock.Lock) error {
			inner, err := locker.RLock(ctx, "name", redlock.Reentrant())
			if err == nil {
				err = inner.Unlock(ctx)
			}
			return err
		}))
		var kinds []string
		for _, e := range waitFor[event.Acquire](t, seen, 4) {
			kinds = append(kinds, e.Kind)
		}
		require.Equal(t, []string{"read", "lock", "lock", "lock"}, kinds, "a writer that reads has a writer's lock")
		require.Equal(t, "lock", waitFor[event.End](t, seen, 2)[1].Kind)
	})
}

func TestRLock_ReadersOfOneLockerComeTogether(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		w := got(locker.Lock(t.Context(), "name"))(t)
		const n = 20
		var in atomic.Int32
		var all sync.WaitGroup
		together := make(chan struct{})
		for range n {
			all.Go(func() {
				lock, err := locker.RLock(t.Context(), "name")
				if err != nil {
					t.Error(err)
					return
				}
				if in.Add(1) == n {
					close(together)
				}
				<-together
				if err := lock.Unlock(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			})
		}
		pass(20 * time.Millisecond)
		unlock(t, w)
		all.Wait()
		c.eventuallyEmpty()
	})
}
