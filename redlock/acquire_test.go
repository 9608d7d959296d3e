package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestTryLock_StoresTheTokenUnderTheNameOnEveryNode(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 4, 5, 7} {
		t.Run(fmt.Sprintf("N=%d", n), func(t *testing.T) {
			onBoth(t, n, func(t *testing.T, c *cluster) {
				lock := take(t, c.locker(), "name")
				require.Equal(t, "name", lock.Name())
				require.GreaterOrEqual(t, len(lock.Token()), 20)
				require.NoError(t, lock.Err())
				c.eventuallyHeld("name", lock.Token())

				unlock(t, lock)
				require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
			})
		})
	}
}

func TestTryLock_OfALockThatIsHeldIsRefused(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		locker, other := c.locker(), c.locker()
		lock := c.everywhere(take(t, locker, "name"))

		for _, contender := range []*redlock.Locker{locker, other} {
			_, err := contender.TryLock(t.Context(), "name")
			refusal := c.refused(err, redlock.ErrTaken, not{redlock.ErrNoQuorum})
			require.Equal(t, "acquire", refusal.Op)
			require.Equal(t, "name", refusal.Name)
			held := 0
			for _, node := range refusal.Nodes {
				require.Error(t, node.Err, "nobody said yes")
				if !errors.Is(node.Err, nodeerr.ErrUnneeded) {
					require.ErrorIs(t, node.Err, nodeerr.ErrHeld)
					held++
				}
			}
			require.GreaterOrEqual(t, held, 3)
		}
		require.Equal(t, 5, c.holding("name", lock.Token()), "the clean-up of the losers has left it alone")

		take(t, other, "another name")
	})
}

func TestTryLock_LeavesTheKeyOfAnotherClientAlone(t *testing.T) {
	t.Parallel()
	for n, theirs := range map[int]int{4: 2, 5: 3} { // a split vote, and a majority
		t.Run(fmt.Sprint(n, " nodes"), func(t *testing.T) {
			onBoth(t, n, func(t *testing.T, c *cluster) {
				locker := c.locker()
				c.doFirst(theirs, "SET", "name", "theirs", "PX", long.Milliseconds())
				_, err := locker.TryLock(t.Context(), "name")
				_ = c.refused(err, redlock.ErrTaken)
				require.Equal(t, theirs, c.holding("name", "theirs"))
				eventually(t, func() bool { return c.holding("name", "") == 2 }, "what was taken is given back")

				c.do(0, "DEL", "name")
				require.NoError(t, take(t, locker, "name").Unlock(t.Context()), "the others do not stand in the way")
				require.Equal(t, theirs-1, c.holding("name", "theirs"))
				eventually(t, func() bool { return c.holding("name", "") == 3 }, "released where it was held")
			})
		})
	}
}

func TestTryLock_OnAContextThatHasEndedSendsNothing(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		var dials atomic.Int64
		nodes := c.nodes(throughWires(func(string, *tapped) { dials.Add(1) }))
		locker := lockerOver(t, nodes)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("tired"))
		for _, call := range []func(context.Context, string, ...redlock.LockOption) (*redlock.Lock, error){locker.TryLock, locker.Lock} {
			_, err := call(ctx, "name")
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, redlock.ErrNoQuorum, "it would look like an outage")
			require.EqualError(t, err, `redlock: acquire "name": context canceled (tired)`)
		}
		require.NoError(t, locker.Close())
		for _, node := range nodes {
			require.NoError(t, node.Close()) // waits for a dial that has begun
		}
		require.Zero(t, dials.Load(), "not even the release of what was never asked for")
	})
}

// The danger: rounds that pile up clean-up on nodes that are down, where nothing of them can be.
func TestTryLock_WithoutNodesDoesNotPileUpReleases(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		kill(c.servers...)
		var releases atomic.Int64
		locker, seen := observed(t, c.nodes(counting("\r\nEVAL", &releases)))
		isDown := func(err error) bool {
			down := 0
			for _, node := range c.refused(err).Nodes {
				if connect := (*nodeerr.ConnectError)(nil); errors.As(node.Err, &connect) {
					down++
				}
			}
			return down == 5
		}
		eventually(t, func() bool {
			_, err := locker.TryLock(t.Context(), "name")
			return isDown(err)
		}, "all nodes are known to be down")
		for range 100 {
			require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrNoQuorum)
		}
		restart(c.servers...)
		seen.connect(t, locker, 5)
		locker.Drain()
		rounds := len(seen.verdictsOn("acquire")) - 100
		require.Less(t, releases.Load(), int64(5*rounds+50), "more than the rounds before and after may have sent")
	})
}

// The danger: an early return that cancels the stragglers.
func TestTryLock_AnEarlyWinDoesNotCutOffTheStragglers(t *testing.T) {
	t.Parallel()
	c := onReal(t, 5)
	locker, seen := observed(t, c.nodes(pool.WithTimeout(brief), pool.WithMaxOverdue(long), pool.WithClientName("ours")))
	seen.connect(t, locker, 5)
	before := make([][]string, 5)
	for i := range before {
		before[i] = c.connections(i, "ours")
		require.Len(t, before[i], 1)
	}

	for round := range 3 {
		freeze(c.processes[1], c.processes[3])
		name := fmt.Sprintf("round %d", round)
		lock := take(t, locker, name)
		thaw(c.processes[1], c.processes[3])
		c.eventuallyHeld(name, lock.Token()) // not only on the bare majority
		unlock(t, lock)
		c.eventuallyEmpty()
		seen.waitForVotes(t, "acquire", name, 5)
	}
	for i := range before {
		require.Equal(t, before[i], c.connections(i, "ours"), "the connection to server %d was thrown away", i)
	}
}

// The danger: an acquire that lands after the release of its lock. It is a straggler on nodes that hang.
func TestUnlock_NoAcquireLandsAfterIt(t *testing.T) {
	t.Parallel()
	c := onReal(t, 5)
	locker := lockerOver(t, c.nodes())
	for range 5 {
		freeze(c.processes[0], c.processes[4])
		unlock(t, take(t, locker, "held and released"))
		c.processes[1].Freeze()
		require.Error(t, errOf(locker.TryLock(briefly(t), "refused")))
		thaw(c.processes[0], c.processes[1], c.processes[4])
		c.eventuallyEmpty()
	}
}

// What stragglers still write is not what the next round uses. The race detector watches.
func TestTryLock_StragglersDoNotWriteWhatTheNextLockReads(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		locker, _ := c.observed()
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				name := fmt.Sprintf("name %d", i)
				for range 100 {
					lock, err := locker.TryLock(t.Context(), name)
					if !assert.NoError(t, err) {
						return
					}
					_ = lock.ValidUntil()
					if _, err := locker.TryLock(t.Context(), name); err == nil {
						t.Error("taken twice")
					} else {
						_ = err.Error()
					}
					assert.NoError(t, lock.Unlock(t.Context()))
				}
			})
		}
		all.Wait()
	})
}

// The danger: a program that closes its nodes first, and then waits for ever.
func TestLock_DoesNotWaitForNodesThatAreClosed(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		nodes := c.nodes()
		locker := lockerOver(t, nodes)
		c.everywhere(take(t, c.locker(), "name"))
		require.NoError(t, nodes[0].Close())
		unlock(t, waits(t, locker, "one is missing"))
		waiters := []<-chan held{queue(t, t.Context(), locker, "name"), queue(t, t.Context(), locker, "name")}
		if c.processes != nil {
			eventually(t, func() bool { return c.info(1, "stats", "tracking_total_keys") != "0" }, "the first is asleep")
		}
		require.NoError(t, nodes[1].Close())
		for _, waiter := range append(waiters, lockBeside(t.Context(), locker, "name"), lockBeside(t.Context(), locker, "free")) {
			h := receive(t, waiter, "the end of a call")
			require.Nil(t, h.lock)
			_ = c.refused(h.err, nodeerr.ErrClosed, redlock.ErrNoQuorum, not{redlock.ErrClosed})
		}
	})
}
