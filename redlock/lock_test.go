package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestUnlock_FreesTheLockForEveryoneAtOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 4, 5} {
		t.Run(fmt.Sprintf("N=%d", n), func(t *testing.T) {
			onBoth(t, n, func(t *testing.T, c *cluster) {
				lockers := []*redlock.Locker{c.locker(), c.locker()}
				for i := range 50 {
					lock := take(t, lockers[i/2%2], "name") // each Locker twice in a row
					unlock(t, lock)
				}
			})
		})
	}
}

func TestUnlock_NeverDeletesDataOfAnotherTypeThatReplacedTheLock(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock := c.everywhere(take(t, c.locker(), "name"))
		c.doAll("DEL", "name")
		c.doAll("RPUSH", "name", "a")

		for _, err := range []error{lock.Extend(t.Context(), long), lock.Unlock(t.Context())} {
			require.ErrorIs(t, err, redlock.ErrGone)
		}
		for i := range c.servers {
			require.EqualValues(t, 1, c.do(i, "LLEN", "name"))
			require.Negative(t, c.ttl(i, "name"))
		}
	})
}

func TestContext_EndsWithTheLockAndSaysWhy(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		for _, ending := range []struct {
			cause error
			end   func(*redlock.Lock)
		}{
			{redlock.ErrReleased, func(lock *redlock.Lock) { require.NoError(t, lock.Unlock(t.Context())) }},
			{redlock.ErrGone, func(lock *redlock.Lock) {
				c.doAll("DEL", lock.Name())
				require.ErrorIs(t, lock.Extend(t.Context(), 2*long), redlock.ErrGone)
			}},
		} {
			lock := c.everywhere(take(t, c.locker(), "name"))
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

			for range 50 { // a context that is made afterwards has ended at once
				after := contextOf(t, lock)
				require.Error(t, after.Err())
				require.ErrorIs(t, context.Cause(after), ending.cause)
			}
			c.eventuallyEmpty()
		}
	})
}

func TestContext_EndsWithItsParentAndLeavesTheLock(t *testing.T) {
	t.Parallel()
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
	unlock(t, lock)
	require.ErrorIs(t, context.Cause(ctx), tired, "the first cause stays")
}

func TestContext_ItsCancelFuncDoesNotReleaseTheLock(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), "name")
		ctx, cancel := lock.Context(t.Context())
		other := contextOf(t, lock)
		cancel()
		cancel()
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(ctx), context.Canceled)
		require.NoError(t, other.Err())
		require.NoError(t, lock.Err())
		require.False(t, isOver(lock.Done()))
		c.eventuallyHeld("name", lock.Token())
		unlock(t, lock)
		receive(t, other.Done(), "the end of the other context")
		require.ErrorIs(t, context.Cause(ctx), context.Canceled)
	})
}

func TestDone_IsOneChannelAndClosedForALockThatEndedUnwatched(t *testing.T) {
	t.Parallel()
	c, fake := onMini(t, 3), clocktest.New()
	lock := take(t, c.locker(redlock.WithClock(fake)), "name")
	require.Equal(t, lock.Done(), lock.Done())
	unlock(t, lock)
	require.True(t, isOver(lock.Done()))
	_, pending := fake.Next()
	require.False(t, pending, "no timer is left")

	unwatched := take(t, c.locker(redlock.WithClock(fake)), "name")
	_, pending = fake.Next()
	require.False(t, pending, "nobody has asked when it ends")
	unlock(t, unwatched)
	require.True(t, isOver(unwatched.Done()))
	_, pending = fake.Next()
	require.False(t, pending)
}

// The danger: "ok" for what was not ours any more. An extension has given the lost lock to the nodes again.
func TestUnlock_OfALockThatIsLostIsRefusedThoughNodesWereGivenItAgain(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), "name")
		c.eventuallyHeld("name", lock.Token())
		c.doFirst(3, "DEL", "name")
		require.ErrorIs(t, lock.Extend(t.Context(), long), redlock.ErrGone)
		c.doAll("SET", "name", lock.Token(), "PX", "60000") // as a late extension would
		requireIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld, redlock.ErrGone)
	})
}

// The danger: a deferred Unlock that panics hides why there is no lock.
func TestUnlock_OfNoLockIsInvalid(t *testing.T) {
	t.Parallel()
	var lock *redlock.Lock
	var locks *redlock.Locks
	for _, err := range []error{lock.Unlock(t.Context()), locks.Unlock(t.Context())} {
		requireIs(t, err, redlock.ErrInvalid, not{redlock.ErrNotHeld})
		require.EqualError(t, err, "redlock: unlock: there is no lock: the call that should have returned it has failed")
	}
}

// The danger: an error for a release that nothing has hindered, as the deferred Unlock has a context that is over.
func TestUnlock_IgnoresAContextThatHasEnded(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		ctx, cancel := context.WithCancel(t.Context())
		lock := got(c.locker().TryLock(ctx, "name"))(t)
		cancel()
		require.NoError(t, lock.Unlock(ctx))
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
		c.eventuallyEmpty()
	})
}

// The danger: each of many releases, one after the other, waits for nodes that are known to be frozen.
func TestUnlock_DoesNotWaitAgainForNodesThatAreFrozen(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, err := redlock.New(c.nodes(pool.WithTimeout(time.Second), pool.WithMaxOverdue(long)))
	require.NoError(t, err)
	var locks []*redlock.Lock
	for i := range 10 {
		locks = append(locks, c.everywhere(take(t, locker, fmt.Sprint("name ", i))))
	}
	freeze(c.processes[:2]...)
	for i, lock := range locks {
		refusal := c.refused(lock.Unlock(over(t)), redlock.ErrNoQuorum, not{redlock.ErrNotHeld}, not{context.Canceled})
		want := nodeerr.ErrSuspended
		if i < 2 { // the nodes fall silent with the first, and that may be a short pause
			want = nodeerr.ErrTimeout
		}
		require.ErrorIs(t, refusal.Nodes[0].Err, want, i)
		require.ErrorIs(t, refusal.Nodes[1].Err, want, i)
		require.Equal(t, redlock.ErrNoQuorum, refusal.Reason)
	}
	thaw(c.processes...)
	c.eventuallyEmpty()
}

func TestUnlock_DoesNotWaitForHangingNodesWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, seen := c.observed()
	lock := seen.takeOnAll(t, locker, 3)
	freeze(c.processes[:2]...)
	ctx := briefly(t)
	ended := beside(func() error { return lock.Unlock(ctx) })
	refusal := c.refused(receive(t, ended, "the end of Unlock"), ctx.Err(), context.Cause(ctx), redlock.ErrNoQuorum, not{redlock.ErrNotHeld})
	require.Equal(t, "unlock", refusal.Op)
	require.ErrorIs(t, refusal.Nodes[0].Err, nodeerr.ErrUnanswered)
	require.ErrorIs(t, refusal.Nodes[1].Err, nodeerr.ErrUnanswered)
	require.ErrorIs(t, refusal.Reason, nodeerr.ErrUnanswered)
	require.ErrorContains(t, refusal, `unlock "`+lock.Name()+`": no quorum of nodes: the call ended before enough nodes had answered: `)
	require.ErrorContains(t, refusal, c.servers[0].Addr()+": the call ended before it answered; ")
	require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
	for _, verdict := range seen.verdictsOn("unlock") {
		require.NotEqual(t, lock.Name(), verdict.Name, "what was sent goes on")
	}
	thaw(c.processes...)
}

// Close does not end the wait, and the release of a lock whose Locker is closed is confirmed.
func TestUnlock_AfterCloseIsNotRefusedWhateverItsContext(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		lock, other := take(t, locker, "name"), take(t, locker, "other")
		require.NoError(t, locker.Close())
		unlock(t, lock)
		require.NotErrorIs(t, other.Unlock(over(t)), redlock.ErrClosed)
	})
}

// The danger: "ok" for a lock that was not ours any more.
func TestUnlock_OfALockThatHasLapsedIsRefused(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock := c.everywhere(take(t, c.locker(), "name"))
		c.doAll("DEL", "name")

		err := lock.Unlock(t.Context())
		requireIs(t, err, redlock.ErrGone, not{redlock.ErrTaken}, nodeerr.ErrAbsent)
		require.NotErrorIs(t, err, nodeerr.ErrHeld, "nobody holds it")
		refusal := c.refused(err)
		require.Equal(t, "unlock", refusal.Op)
		require.Equal(t, "name", refusal.Name)
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
	})
}

// The danger: "absent" for a lock that somebody else holds.
func TestUnlock_DoesNotTouchALockThatAnotherHas(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock := c.everywhere(take(t, c.locker(), "name"))
		c.doAll("SET", "name", "theirs", "PX", long.Milliseconds())

		requireIs(t, lock.Unlock(t.Context()), redlock.ErrGone, nodeerr.ErrHeld, not{nodeerr.ErrAbsent})
		require.Equal(t, 3, c.holding("name", "theirs"))
	})
}

func TestUnlock_OfALockThatAMinorityHasForgottenSucceeds(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		lock := c.everywhere(take(t, c.locker(), "name"))
		c.do(0, "DEL", "name")
		c.do(1, "SET", "name", "theirs")
		unlock(t, lock)
		eventually(t, func() bool { return c.holding("name", "") == 4 }, "the release reaches all nodes")
		require.Equal(t, "theirs", c.value(1, "name"))
	})
}

func TestUnlock_ForTheSecondTimeIsRefusedAndSendsNothing(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker, seen := c.observed()
		lock := take(t, locker, "name")
		unlock(t, lock)
		seen.waitForVotes(t, "unlock", "", 3)
		c.mayLeave().doAll("SET", "name", lock.Token()) // what only a second release would delete

		for range 2 {
			err := lock.Unlock(t.Context())
			requireIs(t, err, redlock.ErrNotHeld, redlock.ErrReleased)
			require.ErrorContains(t, err, "name")
		}
		locker.Drain()
		require.Len(t, seen.verdictsOn("unlock"), 1)
		require.Equal(t, 3, c.holding("name", lock.Token()))
	})
}

func TestUnlock_OfManyCallsAtOnceOneReleases(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		for range 20 {
			lock := take(t, locker, "name")
			errs := make(chan error, 8)
			var all sync.WaitGroup
			for range cap(errs) {
				all.Go(func() { errs <- lock.Unlock(t.Context()) })
			}
			all.Wait()
			close(errs)
			ok := 0
			for err := range errs {
				if err == nil {
					ok++
				} else {
					require.ErrorIs(t, err, redlock.ErrNotHeld)
				}
			}
			require.Equal(t, 1, ok)
		}
	})
}

func TestUnlock_ItsErrorDoesNotSayYesForANodeThatWasNeverAsked(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		nodes := c.nodes()
		down := nodes[0]
		require.NoError(t, down.Close()) // commands to it are certainly not sent
		locker := lockerOver(t, nodes)
		for _, call := range []struct {
			op      string
			do      func(*redlock.Lock) error
			reasons []error
		}{
			{"extend", func(lock *redlock.Lock) error { return lock.Extend(t.Context(), long) }, []error{nodeerr.ErrClosed, nodeerr.ErrRecreated}},
			{"unlock", func(lock *redlock.Lock) error { return lock.Unlock(t.Context()) }, []error{nodeerr.ErrAbsent, nodeerr.ErrAbsent}},
		} {
			lock := take(t, locker, call.op)
			c.do(1, "DEL", call.op)
			err := call.do(lock)
			require.Error(t, err, "one of three is no majority")
			refusal := c.refused(err)
			require.Equal(t, call.op, refusal.Op)
			require.Error(t, refusal.Nodes[0].Err, "the acquire never reached it, so it does not hold the lock")
			for i, reason := range call.reasons {
				require.ErrorIs(t, refusal.Nodes[i].Err, reason)
			}
			require.NotContains(t, err.Error(), "2 of 3 nodes said yes")
			_ = lock.Unlock(t.Context())
		}
	})
}

// The danger: a node timeout that bounds the acquire and not the rest. The nodes would not answer for as long as
// the test lives, and nothing else ends the wait for them. The release of a lock whose extension may have arrived stays pending for
// the longer TTL.
func TestUnlock_DoesNotWaitLongerThanTheNodeTimeoutNorDoesExtend(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, seen := observed(t, c.nodes(pool.WithTimeout(brief), pool.WithMaxOverdue(long)))
	lock := seen.takeOnAll(t, locker, 3, redlock.TTL(10*time.Minute))
	freeze(c.processes[0], c.processes[2])

	for i, call := range []func() error{
		func() error { return lock.Extend(context.Background(), long) },
		func() error { return lock.Unlock(context.Background()) },
	} {
		ended := beside(func() error { return call() })
		refusal := c.refused(receive(t, ended, "the end of a call on frozen nodes"), redlock.ErrNoQuorum)
		require.NoError(t, refusal.Nodes[1].Err)
		for _, frozen := range []int{0, 2} {
			if i == 0 {
				require.ErrorIs(t, refusal.Nodes[frozen].Err, nodeerr.ErrTimeout)
			} else {
				require.Error(t, refusal.Nodes[frozen].Err)
			}
		}
	}
	require.ErrorIs(t, lock.Err(), redlock.ErrReleased, "over for this holder all the same")

	thaw(c.processes[0], c.processes[2])
	c.eventuallyEmpty()
	requireIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld, not{redlock.ErrLost}) // it has been released meanwhile
}

func TestUnlock_MayBeCalledAgainWhileItsOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, seen := observed(t, c.nodes(pool.WithTimeout(brief), pool.WithMaxOverdue(time.Millisecond)))
	lock := seen.takeOnAll(t, locker, 3)
	kill(c.processes[0], c.processes[1])
	for range 3 {
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNoQuorum)
	}
	restart(c.processes[0], c.processes[1])
	eventually(t, func() bool {
		err := lock.Unlock(t.Context())
		require.Error(t, err)
		return errors.Is(err, redlock.ErrNotHeld)
	}, "once the nodes are back the outcome is known")
}

// The context of a lock ends with the loss that its Unlock is to report.
func TestUnlock_WithTheContextOfALockThatIsOverReportsHowItEnded(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		for want, end := range map[error]func(*redlock.Lock, *clocktest.Fake){
			redlock.ErrGone: func(lock *redlock.Lock, _ *clocktest.Fake) {
				c.doAll("DEL", "name")
				require.ErrorIs(t, lock.Extend(t.Context(), long), redlock.ErrGone)
			},
			redlock.ErrExpired: func(lock *redlock.Lock, fake *clocktest.Fake) {
				require.NoError(t, lock.Extend(t.Context(), long))
				fake.Advance(lock.Remaining())
			},
		} {
			for range 5 {
				fake := clocktest.New()
				lock := c.everywhere(take(t, c.locker(redlock.WithClock(fake)), "name"))
				ctx, cancel := lock.Context(t.Context())
				end(lock, fake)
				receive(t, ctx.Done(), "its end")
				err := lock.Unlock(ctx)
				cancel()
				require.ErrorIs(t, err, redlock.ErrNotHeld, want)
				c.eventuallyEmpty()
			}
		}
	})
}
