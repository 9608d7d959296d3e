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
)

func TestSlots_GivesEachSlotOnce(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		first, second := c.locker(), c.locker()
		a := got(first.TryLock(t.Context(), "name", redlock.Slots(2)))(t)
		require.Equal(t, redlock.KindSlot, a.Kind())
		require.Zero(t, a.Fence())
		c.eventuallyHeld("name", "|slots") // otherwise the last node may grant the two in another order, and take both back
		b := got(second.TryLock(t.Context(), "name", redlock.Slots(2)))(t)
		c.eventuallyHeld("name", "|slots")
		_, err := first.TryLock(t.Context(), "name", redlock.Slots(2))
		_ = c.refused(err, redlock.ErrTaken, nodeerr.ErrFull)
		_, err = first.TryLock(t.Context(), "name")
		_ = c.refused(err, redlock.ErrTaken)
		_, err = first.TryLock(t.Context(), "name", redlock.Shared())
		_ = c.refused(err, redlock.ErrTaken)
		require.NoError(t, a.Extend(t.Context(), long))
		unlock(t, a)
		d := got(second.TryLock(t.Context(), "name", redlock.Slots(2)))(t)
		require.NoError(t, d.Extend(t.Context(), long))
		unlock(t, d, b)
		c.eventuallyEmpty()
	})
}

func TestSlots_NoMoreThanTheLimitAreInAtATime(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		const limit = 3
		var in, most atomic.Int32
		var all sync.WaitGroup
		for range 2 {
			locker := c.locker()
			for range 8 {
				all.Go(func() {
					for range 5 {
						assert.NoError(t, locker.Do(t.Context(), "name", func(context.Context, *redlock.Lock) error {
							now := in.Add(1)
							for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
							}
							in.Add(-1)
							return nil
						}, redlock.Slots(limit)))
					}
				})
			}
		}
		all.Wait()
		require.LessOrEqual(t, most.Load(), int32(limit))
		t.Log(most.Load())
		c.eventuallyEmpty()
	})
}

// The TTL of the mark is what the others need, or more, though it is set anew with each release.
func TestSlots_WhatOthersGiveBackTakesNoTimeFromASlot(t *testing.T) {
	onBoth(t, 1, func(t *testing.T, c *cluster) {
		locker := c.locker()
		stays, goes := got(locker.TryLock(t.Context(), "name", redlock.TTL(time.Minute), redlock.Slots(2)))(t), got(locker.TryLock(t.Context(), "name", redlock.TTL(30*time.Second), redlock.Slots(2)))(t)
		c.do(0, "PEXPIRE", "name", 50_000) // as after many releases, of which each took a millisecond
		unlock(t, goes)
		require.Greater(t, c.ttl(0, "name"), stays.Remaining())
		unlock(t, stays)
		c.eventuallyEmpty()
	})
}

// Somebody has deleted, or a server has evicted, the slots alone.
func TestAttach_ATokenWithoutASlotHasNoSlot(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		lock := got(locker.TryLock(t.Context(), "name", redlock.Slots(2)))(t)
		c.each(func(i int) { // otherwise the attached lock may come first to a node, whose answer to lock is then no
			eventually(t, func() bool { return c.do(i, "ZCARD", "{name}:slots") == int64(1) }, "the slot on server %d", i)
		})
		attached := got(c.locker().Attach(t.Context(), "name", lock.Token()))(t)
		require.Equal(t, redlock.KindSlot, attached.Kind())
		require.NoError(t, attached.Extend(t.Context(), 2*long))
		c.each(func(i int) { // otherwise the extension may set the key again
			extended := func() bool { return c.do(i, "PTTL", "{name}:slots").(int64) >= (2 * long).Milliseconds() }
			eventually(t, extended, "the extension on server %d", i)
		})
		detach(t, attached)
		c.doAll("DEL", "{name}:slots")
		require.ErrorIs(t, errOf(c.locker().Attach(t.Context(), "name", lock.Token())), redlock.ErrNotHeld)
		unlock(t, lock)
		c.eventuallyEmpty() // not a node denies others a slot until its TTL is over
	})
}
