package redlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// Trap 1: a release on the caller's cancelled context that is not sent.
func TestUnlockOnACancelledContextDoesNotLeaveTheKey(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		ctx, cancel := context.WithCancel(t.Context())
		lock, err := c.locker().TryLock(ctx, "name")
		require.NoError(t, err)
		cancel()
		require.NoError(t, lock.Unlock(ctx))
		c.eventuallyEmpty()
	})
}

// Trap 16: "ok" for a lock that was not ours any more.
func TestUnlockIsNotOkForALockThatHasLapsed(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), "name")
		c.eventuallyHeld("name", lock.Token())
		c.doAll("DEL", "name")

		err := lock.Unlock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNotHeld)
		require.NotErrorIs(t, err, redlock.ErrTaken)
		require.ErrorIs(t, err, pool.ErrAbsent)
		require.NotErrorIs(t, err, pool.ErrHeld, "nobody holds it")
		refusal := c.refused(err)
		require.Equal(t, "unlock", refusal.Op)
		require.Equal(t, "name", refusal.Name)
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
	})
}

// Trap 16: "absent" for a lock that somebody else holds.
func TestUnlockDoesNotTouchALockThatAnotherHas(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), "name")
		c.eventuallyHeld("name", lock.Token())
		c.doAll("SET", "name", "theirs", "PX", long.Milliseconds())

		err := lock.Unlock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNotHeld)
		require.ErrorIs(t, err, pool.ErrHeld)
		require.NotErrorIs(t, err, pool.ErrAbsent)
		require.Equal(t, 3, c.holding("name", "theirs"))
	})
}

func TestUnlockOfALockThatAMinorityHasForgottenIsOk(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), "name")
		c.eventuallyHeld("name", lock.Token())
		c.do(0, "DEL", "name")
		c.do(1, "SET", "name", "theirs")
		require.NoError(t, lock.Unlock(t.Context()))
		eventually(t, func() bool { return c.holding("name", "") == 4 }, "the release reaches all nodes")
		require.Equal(t, "theirs", c.value(1, "name"))
	})
}

func TestASecondUnlockSaysThatTheLockIsNotHeldAndSendsNothing(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		seen := &recorder{}
		lock := take(t, c.locker(redlock.WithObserver(seen)), "name")
		require.NoError(t, lock.Unlock(t.Context()))
		seen.waitForVotes(t, "unlock", "", 3)
		c.doAll("SET", "name", lock.Token()) // what only a second release would delete

		for range 2 {
			err := lock.Unlock(t.Context())
			require.ErrorIs(t, err, redlock.ErrNotHeld)
			require.ErrorIs(t, err, redlock.ErrReleased)
			require.ErrorContains(t, err, "name")
		}
		require.Len(t, seen.verdictsOn("unlock"), 1)
		require.Equal(t, 3, c.holding("name", lock.Token()))
	})
}

func TestOfManyUnlocksAtOnceOneReleases(t *testing.T) {
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
		c.eventuallyEmpty()
	})
}

func TestTheErrorOfAReleaseDoesNotSayYesForANodeThatWasNeverAsked(t *testing.T) {
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
			{"extend", func(lock *redlock.Lock) error { return lock.Extend(t.Context(), long) }, []error{pool.ErrClosed, pool.ErrPlanted}},
			{"unlock", func(lock *redlock.Lock) error { return lock.Unlock(t.Context()) }, []error{pool.ErrAbsent, pool.ErrAbsent}},
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
		}
	})
}

// Trap 14: a node timeout that bounds the acquire and not the rest. The nodes would not answer for as long as
// the test lives, and nothing else ends the wait for them.
func TestUnlockAndExtendDoNotWaitLongerThanTheNodeTimeout(t *testing.T) {
	c := onReal(t, 3)
	seen := &recorder{}
	locker := lockerOver(t, c.nodes(pool.WithTimeout(brief), pool.WithMaxOverdue(long)), redlock.WithObserver(seen))
	lock := seen.takeOnAll(t, locker, 3)
	c.processes[0].Freeze()
	c.processes[2].Freeze()

	for i, call := range []func() error{
		func() error { return lock.Extend(context.Background(), long) },
		func() error { return lock.Unlock(context.Background()) },
	} {
		ended := make(chan error, 1)
		go func() { ended <- call() }()
		err := receive(t, ended, "the end of a call on frozen nodes")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		refusal := c.refused(err)
		require.NoError(t, refusal.Nodes[1].Err)
		for _, frozen := range []int{0, 2} {
			if i == 0 {
				require.ErrorIs(t, refusal.Nodes[frozen].Err, pool.ErrTimeout)
			} else {
				require.Error(t, refusal.Nodes[frozen].Err)
			}
		}
	}
	require.ErrorIs(t, lock.Err(), redlock.ErrReleased, "over for this holder all the same")

	c.processes[0].Thaw()
	c.processes[2].Thaw()
	c.eventuallyEmpty()
	require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld, "it has been released meanwhile")
}

func TestUnlockMayBeCalledAgainWhileItsOutcomeIsUnknown(t *testing.T) {
	c := onReal(t, 3)
	seen := &recorder{}
	locker := lockerOver(t, c.nodes(pool.WithTimeout(brief), pool.WithMaxOverdue(time.Millisecond)), redlock.WithObserver(seen))
	lock := seen.takeOnAll(t, locker, 3)
	c.processes[0].Stop()
	c.processes[1].Stop()
	for range 3 {
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNoQuorum)
	}
	c.processes[0].Start()
	c.processes[1].Start()
	eventually(t, func() bool {
		err := lock.Unlock(t.Context())
		require.Error(t, err)
		return errors.Is(err, redlock.ErrNotHeld)
	}, "once the nodes are back the outcome is known")
	c.eventuallyEmpty()
}
