package redlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

func TestRemaining_IsTheTTLWithoutTheDrift(t *testing.T) {
	t.Parallel()
	c := onMini(t, 3)
	for _, row := range []struct {
		ttl      time.Duration
		factor   float64
		floor    time.Duration
		validity time.Duration
	}{
		{10 * time.Second, 0.01, 2 * time.Millisecond, 9898 * time.Millisecond},
		{10 * time.Second, 0, 0, 10 * time.Second},
		{time.Millisecond, 0, 0, time.Millisecond},
		{3 * time.Millisecond, 0, 2*time.Millisecond - 1, time.Millisecond + 1},
		{time.Second, 0.5, 100 * time.Millisecond, 400 * time.Millisecond},
		{3 * time.Millisecond, 1.0 / 3, 0, 2*time.Millisecond - 0},
		{1500*time.Microsecond + 999*time.Nanosecond, 0, 0, time.Millisecond},
		{24 * time.Hour, 0.01, 2 * time.Millisecond, 24*time.Hour*99/100 - 2*time.Millisecond},
	} {
		t.Run(fmt.Sprint(row.ttl, row.factor, row.floor), func(t *testing.T) {
			fake := clocktest.New()
			fake.Advance(time.Hour)
			lock := take(t, c.locker(redlock.WithClock(fake), redlock.WithDrift(row.factor, row.floor)), "name", redlock.TTL(row.ttl))
			require.Equal(t, row.validity, lock.Remaining())
			require.Equal(t, fake.Now().Add(row.validity), lock.ValidUntil())
			require.LessOrEqual(t, row.validity, row.ttl-time.Duration(math.Ceil(float64(row.ttl.Truncate(time.Millisecond))*row.factor))-row.floor)
			_ = lock.Unlock(t.Context())
			c.eventuallyEmpty()
		})
	}
}

func TestDone_IsClosedAtTheDeadlineExactly(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		fake := clocktest.New()
		lock := take(t, c.locker(redlock.WithClock(fake)), "name", redlock.TTL(10*time.Minute))
		ctx := contextOf(t, lock)
		left := lock.Remaining()

		fake.Advance(left - 1)
		require.NoError(t, lock.Err())
		require.EqualValues(t, 1, lock.Remaining())
		require.False(t, isOver(lock.Done()))
		require.NoError(t, ctx.Err())

		fake.Advance(1)
		require.Equal(t, lock.ValidUntil(), fake.Now())
		require.True(t, isOver(lock.Done()))
		require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
		require.Zero(t, lock.Remaining())
		receive(t, ctx.Done(), "the end of the context")
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrExpired)

		require.NoError(t, lock.Unlock(t.Context()), "the nodes hold it a little longer, and let go of it")
		require.ErrorIs(t, lock.Err(), redlock.ErrExpired, "the first ending stays")
	})
}

func TestExtend_MovesTheDeadlineAndNothingEndsAtTheOldOne(t *testing.T) {
	t.Parallel()
	c, fake := onMini(t, 3), clocktest.New()
	lock := take(t, c.locker(redlock.WithClock(fake), redlock.WithDrift(0, time.Second)), "name", redlock.TTL(10*time.Minute))
	done := lock.Done()
	for range 3 {
		fake.Advance(9 * time.Minute)
		require.NoError(t, lock.Extend(t.Context(), 10*time.Minute))
		require.Equal(t, 10*time.Minute-time.Second, lock.Remaining(), "counted from the call")
	}
	fake.Advance(lock.Remaining() - 1)
	require.False(t, isOver(done))
	require.NoError(t, lock.Err())
	fake.Advance(1)
	require.True(t, isOver(done))
	require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
}

func TestExtend_AfterTheDeadlineIsRefusedAndSendsNothing(t *testing.T) {
	t.Parallel()
	inTurn(t, map[string]func(*clocktest.Fake, time.Duration){
		"after the timer has fired": (*clocktest.Fake).Advance,
		"after a suspend":           (*clocktest.Fake).Jump,
	}, func(t *testing.T, pass func(*clocktest.Fake, time.Duration)) {
		c := onMini(t, 3)
		fake, seen := clocktest.New(), &recorder{}
		lock := take(t, c.locker(redlock.WithClock(fake), redlock.WithObserver(seen)), "name")
		pass(fake, lock.Remaining())
		require.ErrorIs(t, lock.Extend(t.Context(), 2*long), redlock.ErrExpired)
		require.Empty(t, seen.votesOn("extend", ""))
		require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
	})
}

func TestErr_AfterASuspendIsRightAtOnce(t *testing.T) {
	t.Parallel()
	c := onMini(t, 3)
	for name, look := range map[string]func(*redlock.Lock) bool{
		"Err":       func(lock *redlock.Lock) bool { return errors.Is(lock.Err(), redlock.ErrExpired) },
		"Remaining": func(lock *redlock.Lock) bool { return lock.Remaining() == 0 },
		"Done":      func(lock *redlock.Lock) bool { _ = lock.Err(); return isOver(lock.Done()) },
		"a new Done": func(lock *redlock.Lock) bool {
			return isOver(lock.Done()) // nobody has asked before
		},
	} {
		t.Run(name, func(t *testing.T) {
			fake := clocktest.New()
			lock := take(t, c.locker(redlock.WithClock(fake)), name)
			if name != "a new Done" {
				require.False(t, isOver(lock.Done()), "its timer is set")
			}
			fake.Jump(lock.Remaining())
			require.True(t, look(lock), "the timer has not fired")
		})
	}
}

// The danger: validity that is measured from after the connection was made. The acquire waits for it here.
func TestTryLock_CountsTheTimeUntilTheFirstSend(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		took func(validity time.Duration) time.Duration
		won  bool
	}{
		{"a little", func(time.Duration) time.Duration { return time.Minute }, true},
		{"almost all", func(validity time.Duration) time.Duration { return validity - 1 }, true},
		{"all", func(validity time.Duration) time.Duration { return validity }, false},
		{"more than there was", func(validity time.Duration) time.Duration { return 2 * validity }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			onBoth(t, 3, func(t *testing.T, c *cluster) {
				const ttl, drift = 10 * time.Minute, time.Minute
				took, fake := row.took(ttl-drift), clocktest.New()
				var first atomic.Bool
				slow := throughWires(func(string, *tapped) {
					if first.CompareAndSwap(false, true) {
						fake.Advance(took)
					}
				})
				// Two of three nodes are a majority, so that both votes come after the slow dial.
				nodes := open(t, []string{c.servers[0].URL(), c.servers[1].URL(), "redis://127.0.0.1:1"}, slow)
				locker := lockerOver(t, nodes, redlock.WithClock(fake), redlock.WithDrift(0, drift))
				start := fake.Now()
				lock, err := locker.TryLock(t.Context(), "name", redlock.TTL(ttl))
				if !first.Load() || fake.Now().Sub(start) != took {
					t.Fatal("the dial was not slow")
				}
				if row.won && err == nil {
					require.Equal(t, start.Add(ttl-drift), lock.ValidUntil())
					require.Equal(t, ttl-drift-took, lock.Remaining())
					unlock(t, lock)
				} else {
					require.False(t, row.won, "%v", err)
					require.ErrorIs(t, err, redlock.ErrNoQuorum, "a win without validity is a loss")
					require.ErrorContains(t, err, "majority reached too late")
				}
			})
		})
	}
}

func TestExtend_IsMeasuredFromBeforeItsFirstSend(t *testing.T) {
	t.Parallel()
	const ttl, drift = 10 * time.Minute, time.Minute
	for _, row := range []struct {
		name     string
		took     time.Duration
		extend   time.Duration
		err      error
		validity time.Duration // that is left afterwards
		stays    bool
	}{
		{"in time", time.Minute, 20 * time.Minute, nil, 18 * time.Minute, true},
		{"at the last moment", ttl - drift - 1, 20 * time.Minute, nil, 10*time.Minute + 1, true},
		{"at the old deadline", ttl - drift, 20 * time.Minute, redlock.ErrExpired, 0, false},
		{"after the old deadline, before the new one", ttl, 20 * time.Minute, redlock.ErrExpired, 0, false},
		{"when the new TTL is used up before the old one", 3 * time.Minute, 4 * time.Minute, redlock.ErrNoQuorum, 6 * time.Minute, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			onBoth(t, 3, func(t *testing.T, c *cluster) {
				fake := clocktest.New()
				var slow atomic.Bool
				pass := sync.OnceFunc(func() { fake.Advance(row.took) }) // nothing goes out before it has passed
				nodes := c.nodes(throughWires(func(_ string, w *tapped) {
					w.wrote = func(p []byte) {
						if bytes.Contains(p, []byte("\r\nEVAL")) && slow.Load() {
							pass()
						}
					}
				}))
				locker := lockerOver(t, nodes, redlock.WithClock(fake), redlock.WithDrift(0, drift))
				lock := c.everywhere(take(t, locker, "name", redlock.TTL(ttl)))
				slow.Store(true)
				err := lock.Extend(t.Context(), row.extend)
				if row.err == nil {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, row.err)
				}
				require.Equal(t, row.validity, lock.Remaining())
				if row.stays {
					require.Equal(t, 3, c.holding("name", lock.Token()))
					unlock(t, lock)
				}
				c.eventuallyEmpty() // a lock that turned out to be over is given back unasked
			})
		})
	}
}

func TestDone_IsClosedAtTheDeadlineThoughEveryNodeHangs(t *testing.T) {
	t.Parallel()
	c, fake := onReal(t, 3), clocktest.New()
	var scripts atomic.Int64
	nodes := c.nodes(pool.WithTimeout(long), pool.WithMaxOverdue(long), counting("\r\nEVAL", &scripts))
	lock := c.everywhere(take(t, lockerOver(t, nodes, redlock.WithClock(fake)), "name", redlock.TTL(10*time.Minute)))
	ctx := contextOf(t, lock)
	scripts.Store(0) // each node was first asked by one
	freeze(c.processes...)
	extended := beside(func() error { return lock.Extend(context.Background(), long) })
	eventually(t, func() bool { return scripts.Load() == 3 }, "the extension is on its way to all nodes")
	fake.Advance(lock.Remaining())
	receive(t, lock.Done(), "the deadline")
	receive(t, ctx.Done(), "the deadline")
	require.ErrorIs(t, context.Cause(ctx), redlock.ErrExpired)
	require.ErrorIs(t, receive(t, extended, "the end of Extend"), redlock.ErrExpired)
	thaw(c.processes...)
	require.Error(t, func() error {
		err := lock.Unlock(t.Context())
		c.eventuallyEmpty()
		return errors.Join(err, lock.Err())
	}())
}

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
	c, fake := onReal(t, 3), clocktest.New()
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
			redlock.TTL(graceTTL), redlock.Grace(graceTTL/2), redlock.RenewFor(redlock.NoLimit))
		for i := range 6 { // longer than the TTL
			seen.renewed(t, fake, i, graceTTL)
		}
		require.NoError(t, lock.Err())
	})
}

// A function that releases the lock itself, in the grace, has released it in time, however long it works on.
func TestGrace_DoReturnsNilIfItsFunctionStopsInTime(t *testing.T) {
	t.Parallel()
	type row struct {
		unlocks bool
		late    time.Duration // after the end of the context
		want    error
	}
	inParallel(t, map[string]row{
		"in the grace":               {false, grace - 1, nil},
		"after it":                   {false, grace, redlock.ErrExpired},
		"having unlocked":            {true, 0, nil},
		"long after having unlocked": {true, 2 * grace, nil},
	}, func(t *testing.T, row row) {
		c, fake := onMini(t, 3), clocktest.New()
		locker := c.locker(redlock.WithClock(fake), redlock.Grace(grace), redlock.TTL(graceTTL), redlock.RenewFor(graceTTL))
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
			unlock(t, lock)
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
	require.ErrorIs(t, lock.Unlock(briefly(t)), context.DeadlineExceeded)
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
		require.Equal(t, redlock.ErrGone, c.refused(err).Reason)
	})
}
