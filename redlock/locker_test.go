package redlock_test

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestClose_RefusesEveryLaterCallButUnlock(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		seen := &recorder{}
		nodes := c.nodes()
		locker := lockerOver(t, nodes, redlock.WithObserver(seen))
		lock := take(t, locker, "name")
		seen.waitForVotes(t, "acquire", "", 3)
		other := lockerOver(t, nodes)
		require.ErrorIs(t, errOf(other.TryLock(t.Context(), "name")), redlock.ErrTaken, "Lockers may share nodes")
		require.NoError(t, locker.Close())
		require.NoError(t, locker.Close(), "closing twice is fine")

		require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "other")), redlock.ErrClosed)
		require.ErrorIs(t, errOf(locker.Lock(t.Context(), "other")), redlock.ErrClosed)
		require.ErrorIs(t, lock.Extend(t.Context(), 2*long), redlock.ErrClosed)
		require.Len(t, seen.votesOn("acquire", ""), 3, "nothing is sent")
		require.Empty(t, seen.votesOn("extend", ""))

		require.NoError(t, lock.Err(), "a lock that is held stays held")
		require.Positive(t, lock.Remaining())
		require.NoError(t, lock.Unlock(t.Context()))
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
		c.eventuallyEmpty()

		require.NoError(t, take(t, other, "name").Unlock(t.Context()), "the nodes are still open")
	})
}

func TestClose_EndsTheCallsThatWait(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker, seen := c.waiting(c.nodes())
		pausing, seenPausing := c.waiting(c.nodes(), redlock.WithBackoff(long, long))
		take(t, c.locker(), "name")
		holder := waits(t, locker, "another")
		waiters := []<-chan held{lockBeside(t.Context(), locker, "name"), lockBeside(t.Context(), pausing, "name")}
		seen.waitForRefusals(t, 2) // with the round that was won
		seenPausing.waitForRefusals(t, 1)
		for range 20 {
			waiters = append(waiters, queue(t, t.Context(), locker, "name"), queue(t, t.Context(), locker, "another"))
		}
		require.NoError(t, locker.Close())
		require.NoError(t, pausing.Close())
		for _, waiter := range waiters {
			require.ErrorIs(t, receive(t, waiter, "the end of Lock").err, redlock.ErrClosed)
		}
		require.NoError(t, holder.Err())
	})
}

func TestClose_DoesNotWaitForNodesThatHang(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, seen := observed(t, c.nodes(pool.WithTimeout(long)))
	lock := c.everywhere(take(t, locker, "held"))
	freeze(c.processes[0], c.processes[1])
	waiter := lockBeside(t.Context(), locker, "name")
	extended := beside(func() error { return lock.Extend(t.Context(), 2*long) })
	seen.waitForVotes(t, "acquire", "", 4)
	seen.waitForVotes(t, "extend", "", 1)

	closed := beside(func() error { return locker.Close() })
	require.NoError(t, receive(t, closed, "the end of Close"))
	require.ErrorIs(t, receive(t, waiter, "the end of Lock").err, redlock.ErrClosed)
	require.ErrorIs(t, receive(t, extended, "the end of Extend"), redlock.ErrClosed)

	thaw(c.processes[0], c.processes[1])
	require.NoError(t, lock.Err())
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestClose_CallsBesideItEndInALockOrErrClosed(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		nodes := c.nodes()
		for range 20 {
			locker := must(redlock.New(nodes, redlock.TTL(long), redlock.WithBackoff(time.Millisecond, time.Millisecond)))(t)
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
						assert.NoError(t, lock.Unlock(t.Context()))
					}
				})
			}
			lock := waits(t, locker, "name")
			require.NoError(t, lock.Unlock(t.Context()))
			require.NoError(t, locker.Close())
			all.Wait()
			c.eventuallyEmpty()
		}
	})
}

func TestTryLock_OnClosedNodesEndsAtOnce(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		nodes := c.mayLeave().nodes(pool.WithTimeout(long))
		locker := lockerOver(t, nodes)
		lock := c.everywhere(take(t, locker, "name"))
		for _, node := range nodes {
			require.NoError(t, node.Close())
		}
		_, err := locker.TryLock(t.Context(), "other")
		for _, node := range c.refused(err, redlock.ErrNoQuorum).Nodes {
			require.ErrorIs(t, node.Err, nodeerr.ErrClosed)
		}
		require.ErrorIs(t, lock.Extend(t.Context(), 2*long), redlock.ErrNoQuorum)
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNoQuorum)
		require.Equal(t, 3, c.holding("name", lock.Token()))
	})
}

func TestOpen_RefusesWhatPoolOpenAndNewRefuse(t *testing.T) {
	t.Parallel()
	require.Error(t, errOf(redlock.Open(nil)))
	require.Error(t, errOf(redlock.Open([]string{"redis://a", "redis://a"})))
	require.ErrorContains(t, errOf(redlock.Open([]string{"redis://a"}, redlock.WithPoolOptions(pool.WithTimeout(-1)))), "WithTimeout")
	require.ErrorContains(t, errOf(redlock.Open([]string{"redis://a"}, redlock.TTL(-1))), "TTL -1ns")
}

func TestClose_EndsTheExtensionsThatWaitForTheirTurn(t *testing.T) {
	c := onReal(t, 3)
	locker, seen := c.observed()
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
