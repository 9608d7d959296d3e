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

func TestExtendMovesTheDeadlineAndTheExpiryOnTheNodes(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), "name", redlock.TTL(time.Minute))
		c.eventuallyHeld("name", lock.Token())
		before := lock.ValidUntil()
		require.NoError(t, lock.Extend(t.Context(), 10*time.Minute))
		require.Greater(t, lock.ValidUntil().Sub(before), 5*time.Minute)
		require.Greater(t, lock.Remaining(), 5*time.Minute)
		for i := range c.servers {
			eventually(t, func() bool { return c.ttl(i, "name") > 5*time.Minute }, "server %d", i)
		}
		require.NoError(t, lock.Err())
		require.NoError(t, lock.Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}

func TestExtendByLessThanIsLeftChangesNothing(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), "name", redlock.TTL(10*time.Minute))
		c.eventuallyHeld("name", lock.Token())
		before := lock.ValidUntil()
		require.NoError(t, lock.Extend(t.Context(), time.Second))
		require.Equal(t, before, lock.ValidUntil())
		require.NoError(t, lock.Unlock(t.Context())) // behind the extends on every node
		c.eventuallyEmpty()

		lock = take(t, c.locker(), "name", redlock.TTL(10*time.Minute))
		c.eventuallyHeld("name", lock.Token())
		require.NoError(t, lock.Extend(t.Context(), time.Second))
		require.NoError(t, lock.Extend(t.Context(), 2*time.Second))
		for i := range c.servers {
			require.Greater(t, c.ttl(i, "name"), 5*time.Minute)
		}
	})
}

func TestExtendNeedsAMajorityThatStillHoldsTheLock(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), "name", redlock.TTL(time.Minute))
		c.eventuallyHeld("name", lock.Token())
		c.do(0, "DEL", "name")
		c.do(1, "SET", "name", "theirs", "PX", long.Milliseconds())
		require.NoError(t, lock.Extend(t.Context(), 10*time.Minute), "three of five hold it")
		eventually(t, func() bool { return c.value(0, "name") == lock.Token() }, "what had lost it is given it again")

		c.do(0, "DEL", "name")
		c.do(2, "DEL", "name")
		before := lock.ValidUntil()
		err := lock.Extend(t.Context(), 20*time.Minute)
		require.ErrorIs(t, err, redlock.ErrLost)
		refusal := c.refused(err)
		require.Equal(t, "extend", refusal.Op)
		require.ErrorIs(t, refusal.Nodes[0].Err, pool.ErrPlanted, "given again is no yes: another may have had it meanwhile")
		require.ErrorIs(t, refusal.Nodes[1].Err, pool.ErrHeld)
		require.ErrorIs(t, refusal.Nodes[2].Err, pool.ErrPlanted)

		receive(t, lock.Done(), "the end of a lock that is lost")
		require.ErrorIs(t, lock.Err(), redlock.ErrLost)
		require.Equal(t, before, lock.ValidUntil())
		require.Zero(t, lock.Remaining())
		eventually(t, func() bool { return c.holding("name", "") == 4 }, "what is left of it is released")
		require.Equal(t, "theirs", c.value(1, "name"))

		require.ErrorIs(t, lock.Extend(t.Context(), long), redlock.ErrLost)
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
		require.ErrorIs(t, lock.Err(), redlock.ErrLost, "the first ending stays")
	})
}

// Trap 7: an extension that brings back a lock that had lapsed or was released.
func TestExtendDoesNotBringBackALockThatIsGone(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lapsed := take(t, c.locker(), "name", redlock.TTL(time.Minute))
		c.eventuallyHeld("name", lapsed.Token())
		c.doAll("DEL", "name")
		require.ErrorIs(t, lapsed.Extend(t.Context(), long), redlock.ErrLost)
		c.eventuallyEmpty()

		seen := &recorder{}
		released := take(t, c.locker(redlock.WithObserver(seen)), "name")
		require.NoError(t, released.Unlock(t.Context()))
		require.ErrorIs(t, released.Extend(t.Context(), long), redlock.ErrReleased)
		require.Empty(t, seen.votesOn("extend", ""), "nothing is sent")
		c.eventuallyEmpty()
	})
}

// Trap 7: an extension that is under way while the lock is released. Nor may its clean-up take away what Unlock is about to
// find: Unlock would speak of an overlap that never was.
func TestExtendBesideUnlockDoesNotLeaveTheKey(t *testing.T) {
	onBoth(t, 4, func(t *testing.T, c *cluster) {
		locker := c.locker()
		for range 100 {
			lock := take(t, locker, "name", redlock.TTL(time.Minute))
			var both sync.WaitGroup
			var extended, unlocked error
			both.Go(func() { extended = lock.Extend(t.Context(), long) })
			both.Go(func() { unlocked = lock.Unlock(t.Context()) })
			both.Wait()
			require.NoError(t, unlocked)
			if extended != nil {
				require.ErrorIs(t, extended, redlock.ErrReleased)
			}
			require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
			require.Zero(t, lock.Remaining())
			c.eventuallyEmpty()
		}
	})
}

// Trap 8: a partial extension that leaves longer TTLs behind than anyone accounts for.
func TestExtendThatFailsDoesNotLeaveLongerTTLs(t *testing.T) {
	const ttl = 10 * time.Minute
	c := onReal(t, 5)
	seen := &recorder{}
	locker := lockerOver(t, c.nodes(pool.WithTimeout(brief), pool.WithMaxOverdue(long)), redlock.WithObserver(seen))
	lock := seen.takeOnAll(t, locker, 5, redlock.TTL(ttl))
	before := lock.ValidUntil()
	for _, p := range c.processes[2:] {
		p.Freeze()
	}

	for range 2 {
		err := lock.Extend(t.Context(), long)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		for i, node := range c.refused(err).Nodes {
			if i >= 2 {
				require.Error(t, node.Err)
			} else if node.Err != nil {
				require.ErrorIs(t, node.Err, redlock.ErrPending)
			}
		}
		require.Equal(t, before, lock.ValidUntil(), "the old deadline stands")
		require.NoError(t, lock.Err(), "it is still held")
		for i := range 2 {
			eventually(t, func() bool { return c.ttl(i, lock.Name()) <= ttl }, "server %d keeps it longer than before", i)
			require.Greater(t, c.ttl(i, lock.Name()), ttl/2, "nor is it cut short")
		}
	}

	for _, p := range c.processes[2:] {
		p.Thaw()
	}
	for i := range c.servers {
		eventually(t, func() bool { return c.ttl(i, lock.Name()) <= ttl }, "server %d keeps it longer than before", i)
	}
	require.NoError(t, lock.Unlock(t.Context()))
	c.eventuallyEmpty()
}

func TestExtendThatFailedMayBeTriedAgainOnceTheNodesAreBack(t *testing.T) {
	for how, overdue := range map[string]time.Duration{"on the same connections": long, "on new connections": time.Millisecond} {
		t.Run(how, func(t *testing.T) {
			c := onReal(t, 5)
			seen := &recorder{}
			locker := lockerOver(t, c.nodes(pool.WithTimeout(brief), pool.WithMaxOverdue(overdue)), redlock.WithObserver(seen))
			lock := seen.takeOnAll(t, locker, 5)
			for _, p := range c.processes[2:] {
				p.Freeze()
			}
			require.ErrorIs(t, lock.Extend(t.Context(), 2*long), redlock.ErrNoQuorum)
			seen.waitForVotes(t, "extend", lock.Name(), 5)
			for _, p := range c.processes[2:] {
				p.Thaw()
			}
			eventually(t, func() bool { return lock.Extend(t.Context(), 2*long) == nil }, "the nodes are back")
			require.Greater(t, lock.Remaining(), long)
			require.NoError(t, lock.Unlock(t.Context()))
			c.eventuallyEmpty()
		})
	}
}

// Trap 8: the release of a lock whose extension may have arrived is owed for the longer TTL.
func TestUnlockAfterAPartialExtensionDoesNotLeaveIt(t *testing.T) {
	c := onReal(t, 3)
	seen := &recorder{}
	locker := lockerOver(t, c.nodes(pool.WithTimeout(brief), pool.WithMaxOverdue(long)), redlock.WithObserver(seen))
	lock := seen.takeOnAll(t, locker, 3, redlock.TTL(10*time.Minute))
	c.processes[0].Freeze()
	c.processes[1].Freeze()
	require.ErrorIs(t, lock.Extend(t.Context(), long), redlock.ErrNoQuorum)
	require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNoQuorum)
	c.processes[0].Thaw()
	c.processes[1].Thaw()
	c.eventuallyEmpty()
}

func TestExtendThatItsContextEndsLeavesTheOldTTL(t *testing.T) {
	const ttl = 10 * time.Minute
	c := onReal(t, 3)
	seen := &recorder{}
	locker := lockerOver(t, c.nodes(), redlock.WithObserver(seen))
	lock := take(t, locker, "name", redlock.TTL(ttl))
	c.eventuallyHeld("name", lock.Token())
	before := lock.ValidUntil()
	c.processes[0].Freeze()
	c.processes[1].Freeze()

	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- lock.Extend(ctx, long) }()
	seen.waitForVotes(t, "extend", "", 1)
	tired := errors.New("tired")
	cancel(tired)
	err := receive(t, ended, "the end of Extend")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, tired)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorIs(t, c.refused(err).Nodes[0].Err, redlock.ErrPending)
	require.NoError(t, lock.Err())
	require.Equal(t, before, lock.ValidUntil())
	eventually(t, func() bool { return c.ttl(2, "name") <= ttl }, "the node that took the longer TTL has the old one back")

	c.processes[0].Thaw()
	c.processes[1].Thaw()
	for i := range c.servers {
		eventually(t, func() bool { return c.ttl(i, "name") <= ttl }, "server %d", i)
	}
	require.NoError(t, lock.Extend(t.Context(), long), "and it can be extended again")
	require.NoError(t, lock.Unlock(t.Context()))
	c.eventuallyEmpty()
}

func TestExtendOnAContextThatHasEndedSendsNothing(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		seen := &recorder{}
		lock := take(t, c.locker(redlock.WithObserver(seen)), "name")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 {
			require.ErrorIs(t, lock.Extend(ctx, long), context.Canceled)
		}
		require.Empty(t, seen.votesOn("extend", ""))
		require.NoError(t, lock.Err())
	})
}

func TestExtendsOfOneLockDoNotOverlap(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), "name", redlock.TTL(time.Minute))
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if err := lock.Extend(t.Context(), time.Minute+time.Duration(i)*time.Second); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.NoError(t, lock.Err())
		require.NoError(t, lock.Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}
