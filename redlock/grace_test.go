package redlock_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock/clocktest"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

const (
	graceTTL = 10 * time.Minute
	grace    = 4 * time.Minute
	valid    = graceTTL - graceTTL/100 - 2*time.Millisecond // the default allowance for drift
)

func TestGrace_EndsTheLockForItsHolderBeforeAnotherCanHaveIt(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		fake := clocktest.New()
		lock := take(t, c.locker(redlock.WithClock(fake), redlock.Grace(grace)), "name", redlock.TTL(graceTTL))
		require.Equal(t, valid-grace, lock.Remaining())
		ctx := contextOf(t, lock)
		fake.Advance(valid - grace - 1)
		require.NoError(t, lock.Err())
		require.False(t, isOver(lock.Done()))
		fake.Advance(1)
		require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
		receive(t, lock.Done(), "the end")
		receive(t, ctx.Done(), "the end of the context")
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrExpired)
		require.ErrorIs(t, lock.Extend(t.Context(), graceTTL), redlock.ErrExpired)

		fake.Advance(grace - 1)
		require.GreaterOrEqual(t, c.holding("name", lock.Token()), 2)
		require.NoError(t, lock.Unlock(t.Context()), "before the deadline")
		c.eventuallyEmpty()
		require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
	})
}

// An extension that has failed leaves keys with a longer TTL, which go only when the grace is over: the holder is still stopping.
func TestGrace_WhatAFailedExtensionHasLeftStaysUntilItIsOver(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	fake := clocktest.New()
	lock := c.everywhere(take(t, c.locker(redlock.WithClock(fake)), "name", redlock.TTL(graceTTL), redlock.Grace(grace)))
	token := lock.Token()
	for i := range 2 { // which refuse the extension
		c.do(i, "CONFIG", "SET", "min-replicas-to-write", 1)
	}
	require.ErrorIs(t, lock.Extend(t.Context(), time.Hour), redlock.ErrNoQuorum)
	c.doFirst(2, "CONFIG", "SET", "min-replicas-to-write", 0)
	done := lock.Done()
	fake.Advance(valid - grace)
	receive(t, done, "the end")
	fake.Advance(grace - 1)
	require.Equal(t, 3, c.holding("name", token))
	fake.Advance(1)
	c.eventuallyEmpty()
}

func TestGrace_ARenewalMovesTheEnd(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		fake, seen := clocktest.New(), &recorder{}
		lock := take(t, c.locker(redlock.WithClock(fake), redlock.WithObserver(seen)), "name",
			redlock.TTL(graceTTL), redlock.Grace(graceTTL/2), redlock.AutoExtend())
		for i := range 6 { // longer than the TTL
			seen.renewed(t, fake, i, graceTTL)
		}
		require.NoError(t, lock.Err())
	})
}

// A function that releases the lock itself, in the grace, has released it in time, however long it works on.
func TestGrace_DoReturnsNilIfItsFunctionStopsInTime(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		unlocks bool
		late    time.Duration // after the end of the context
		want    error
	}{
		"in the grace":               {false, grace - 1, nil},
		"after it":                   {false, grace, redlock.ErrExpired},
		"having unlocked":            {true, 0, nil},
		"long after having unlocked": {true, 2 * grace, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, fake := onMini(t, 3), clocktest.New()
			locker := c.locker(redlock.WithClock(fake), redlock.Grace(grace), redlock.TTL(graceTTL), redlock.MaxHold(graceTTL))
			require.ErrorIs(t, locker.Do(t.Context(), "name", func(ctx context.Context, lock *redlock.Lock) error {
				fake.Advance(lock.Remaining())
				receive(t, ctx.Done(), "the end of the context")
				if row.unlocks {
					require.NoError(t, lock.Unlock(context.WithoutCancel(ctx)))
				}
				fake.Advance(row.late)
				return nil
			}), row.want)
		})
	}
}

// A holder who stops in the grace has not lost the lock, and nobody is to be alarmed.
func TestGrace_AHolderWhoStopsInTimeIsNotReportedAsALoss(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		c, log, fake, seen := onMini(t, 3), &logBuffer{}, clocktest.New(), &recorder{}
		locker := c.logsTo(log, slog.LevelWarn, redlock.WithClock(fake), redlock.WithObserver(seen))
		lock := take(t, locker, "name", redlock.TTL(graceTTL), redlock.Grace(grace))
		done := lock.Done()
		fake.Advance(valid - grace)
		receive(t, done, "the end")
		locker.Drain()
		require.Empty(t, eventsOf[event.End](seen))
		want := redlock.ErrReleased
		if late {
			fake.Advance(grace)
			want = redlock.ErrExpired
		} else {
			require.NoError(t, lock.Unlock(t.Context()))
		}
		eventually(t, func() bool { return len(eventsOf[event.End](seen)) == 1 }, "the end")
		require.Equal(t, want, eventsOf[event.End](seen)[0].Err)
		fake.Advance(2 * graceTTL)
		locker.Drain()
		require.Len(t, eventsOf[event.End](seen), 1)
		require.Equal(t, late, strings.Contains(log.String(), "a lock is lost"))
	}
}

// An Unlock in the grace whose outcome comes after it decides how the lock has ended.
func TestGrace_AnUnlockUnderWayIsAwaited(t *testing.T) {
	t.Parallel()
	c, fake, seen := onReal(t, 3), clocktest.New(), &recorder{}
	locker := c.locker(redlock.WithClock(fake), redlock.WithObserver(seen))
	lock := take(t, locker, "name", redlock.TTL(graceTTL), redlock.Grace(grace))
	fake.Advance(valid - grace)
	freeze(c.processes...)
	require.ErrorIs(t, lock.Unlock(over(t)), context.Canceled)
	fake.Advance(graceTTL)
	locker.Drain()
	require.Empty(t, eventsOf[event.End](seen))
	thaw(c.processes...)
	require.Equal(t, redlock.ErrReleased, waitFor[event.End](t, seen, 1)[0].Err)
}

func TestReentrant_KeepsTheGraceOfTheLock(t *testing.T) {
	t.Parallel()
	c := onMini(t, 3)
	locker := c.locker(redlock.TTL(graceTTL))
	outer := take(t, locker, "name", redlock.Grace(grace))
	ctx := contextOf(t, outer)
	inner, err := locker.TryLock(ctx, "name", redlock.Reentrant(), redlock.TTL(grace)) // less than twice the grace
	require.NoError(t, err)
	require.NoError(t, inner.Unlock(ctx))
	_, err = locker.TryLock(ctx, "name", redlock.Reentrant(), redlock.Grace(grace+1))
	require.ErrorIs(t, err, redlock.ErrInvalid)
	require.ErrorContains(t, err, "Grace(4m0.000000001s): the lock that is re-entered has 4m0s")
}

// A lock that the nodes have lost is no lock in its grace.
func TestGrace_UnlockFindsThatTheNodesHaveLostTheLock(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		fake := clocktest.New()
		lock := take(t, c.locker(redlock.WithClock(fake)), "name", redlock.TTL(graceTTL), redlock.Grace(grace))
		fake.Advance(valid - grace)
		require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
		c.doAll("DEL", "name")
		err := lock.Unlock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNotHeld)
		require.Equal(t, redlock.ErrNotHeld, c.refused(err).Reason)
	})
}
