package redlock_test

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestClose_RefusesEveryLaterCallButUnlock(t *testing.T) {
	t.Parallel()
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		seen := &recorder{}
		nodes := c.nodes()
		locker := lockerOver(t, nodes, redlock.WithObserver(seen))
		lock := take(t, locker, "name")
		seen.waitForVotes(t, "acquire", "", 3)
		require.NoError(t, locker.Close())
		require.NoError(t, locker.Close(), "closing twice is fine")

		_, err := locker.TryLock(t.Context(), "other")
		require.ErrorIs(t, err, redlock.ErrClosed)
		_, err = locker.Lock(t.Context(), "other")
		require.ErrorIs(t, err, redlock.ErrClosed)
		require.ErrorIs(t, lock.Extend(t.Context(), 2*long), redlock.ErrClosed)
		require.Len(t, seen.votesOn("acquire", ""), 3, "nothing is sent")
		require.Empty(t, seen.votesOn("extend", ""))

		require.NoError(t, lock.Err(), "a lock that is held stays held")
		require.Positive(t, lock.Remaining())
		require.NoError(t, lock.Unlock(t.Context()))
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
		c.eventuallyEmpty()

		other := lockerOver(t, nodes)
		require.NoError(t, take(t, other, "name").Unlock(t.Context()), "the nodes are still open")
	})
}

func TestClose_EndsTheCallsThatWait(t *testing.T) {
	t.Parallel()
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		holder := take(t, c.locker(), "name")
		locker, seen := c.waiting(c.nodes())
		pausing, seenPausing := c.waiting(c.nodes(), redlock.WithBackoff(long, long))
		waiters := []<-chan held{
			lockBeside(t.Context(), locker, "name"),
			lockBeside(t.Context(), locker, "name"),
			lockBeside(t.Context(), pausing, "name"),
		}
		seen.waitForRefusals(t, 1)
		seenPausing.waitForRefusals(t, 1)
		require.NoError(t, locker.Close())
		require.NoError(t, pausing.Close())
		for _, waiter := range waiters {
			require.ErrorIs(t, receive(t, waiter, "the end of Lock").err, redlock.ErrClosed)
		}
		require.NoError(t, holder.Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}

func TestClose_DoesNotWaitForNodesThatHang(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	seen := &recorder{}
	locker := lockerOver(t, c.nodes(pool.WithTimeout(long)), redlock.WithObserver(seen))
	lock := take(t, locker, "held")
	c.eventuallyHeld("held", lock.Token())
	c.processes[0].Freeze()
	c.processes[1].Freeze()
	waiter := lockBeside(t.Context(), locker, "name")
	extended := make(chan error, 1)
	go func() { extended <- lock.Extend(t.Context(), 2*long) }()
	seen.waitForVotes(t, "acquire", "", 4)
	seen.waitForVotes(t, "extend", "", 1)

	closed := make(chan error, 1)
	go func() { closed <- locker.Close() }()
	require.NoError(t, receive(t, closed, "the end of Close"))
	require.ErrorIs(t, receive(t, waiter, "the end of Lock").err, redlock.ErrClosed)
	require.ErrorIs(t, receive(t, extended, "the end of Extend"), redlock.ErrClosed)

	c.processes[0].Thaw()
	c.processes[1].Thaw()
	require.NoError(t, lock.Err())
	require.NoError(t, lock.Unlock(t.Context()))
	c.eventuallyEmpty()
}

func TestClose_CallsBesideItEndInALockOrErrClosed(t *testing.T) {
	t.Parallel()
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		nodes := c.nodes()
		for range 20 {
			locker, err := redlock.New(nodes, redlock.TTL(long), redlock.WithBackoff(time.Millisecond, time.Millisecond))
			require.NoError(t, err)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for {
						lock, err := locker.Lock(t.Context(), "name")
						if err != nil {
							if !errors.Is(err, redlock.ErrClosed) {
								t.Error(err)
							}
							return
						}
						if err := lock.Unlock(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			lock, err := locker.Lock(t.Context(), "name")
			require.NoError(t, err)
			require.NoError(t, lock.Unlock(t.Context()))
			require.NoError(t, locker.Close())
			all.Wait()
			c.eventuallyEmpty()
		}
	})
}

func TestNew_LockersShareNodes(t *testing.T) {
	t.Parallel()
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		nodes := c.nodes()
		first, second := lockerOver(t, nodes), lockerOver(t, nodes)
		lock := take(t, first, "name")
		_, err := second.TryLock(t.Context(), "name")
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NoError(t, first.Close())
		require.NoError(t, lock.Unlock(t.Context()))
		require.NoError(t, take(t, second, "name").Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}

func TestTryLock_OnClosedNodesEndsAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		nodes := c.nodes(pool.WithTimeout(long))
		locker := lockerOver(t, nodes)
		lock := take(t, locker, "name")
		c.eventuallyHeld("name", lock.Token())
		for _, node := range nodes {
			require.NoError(t, node.Close())
		}
		_, err := locker.TryLock(t.Context(), "other")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		for _, node := range c.refused(err).Nodes {
			require.ErrorIs(t, node.Err, nodeerr.ErrClosed)
		}
		require.ErrorIs(t, lock.Extend(t.Context(), 2*long), redlock.ErrNoQuorum)
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNoQuorum)
		require.Equal(t, 3, c.holding("name", lock.Token()))
	})
}

func TestOpen_MakesNodesThatCloseCloses(t *testing.T) {
	t.Parallel()
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.opened()
		lock := take(t, locker, "name")
		require.NoError(t, lock.Unlock(t.Context()))
		c.eventuallyEmpty()
		require.NoError(t, locker.Close()) // the leak check of the package finds nodes that are left
		require.NoError(t, locker.Close(), "twice")
	})
}

func TestOpen_RefusesWhatPoolOpenAndNewRefuse(t *testing.T) {
	t.Parallel()
	_, err := redlock.Open(nil)
	require.Error(t, err)
	_, err = redlock.Open([]string{"redis://a", "redis://a"})
	require.Error(t, err)
	_, err = redlock.Open([]string{"redis://a"}, redlock.WithPoolOptions(pool.WithTimeout(-1)))
	require.ErrorContains(t, err, "WithTimeout")
	_, err = redlock.Open([]string{"redis://a"}, redlock.TTL(-1))
	require.ErrorContains(t, err, "TTL -1ns")
}

func TestNew_RefusesPoolOptions(t *testing.T) {
	t.Parallel()
	_, err := redlock.New(onMini(t, 1).nodes(), redlock.WithPoolOptions(pool.WithTimeout(time.Second)))
	require.ErrorContains(t, err, "redlock: WithPoolOptions")
}

func TestClose_EndsTheExtensionsThatWaitForTheirTurn(t *testing.T) {
	c := onReal(t, 3)
	seen := &recorder{}
	locker := c.locker(redlock.WithObserver(seen))
	lock := seen.takeOnAll(t, locker, 3)
	for _, p := range c.processes {
		p.Freeze()
		t.Cleanup(p.Thaw) // before the nodes are closed
	}
	var extends sync.WaitGroup
	for range 5 {
		extends.Go(func() { require.ErrorIs(t, lock.Extend(t.Context(), 2*long), redlock.ErrClosed) })
	}
	eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "(*Lock).Extend(") == 5
	}, "all extends are under way")
	require.NoError(t, locker.Close())
	extends.Wait()
	require.LessOrEqual(t, len(seen.verdictsOn("extend")), 1, "the others asked nobody")
}
