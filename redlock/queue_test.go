package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestWaitersGetTheLockInTheOrderInWhichTheyCame(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		for name, take := range map[string]func(testing.TB, *redlock.Locker) *redlock.Lock{
			"behind Lock":                 func(tb testing.TB, l *redlock.Locker) *redlock.Lock { return waits(tb, l, "name") },
			"behind TryLock":              func(tb testing.TB, l *redlock.Locker) *redlock.Lock { return take(tb, l, "name") },
			"behind a holder far from it": func(tb testing.TB, _ *redlock.Locker) *redlock.Lock { return take(tb, c.locker(), "name") },
		} {
			t.Run(name, func(t *testing.T) {
				locker := c.locker()
				holder := take(t, locker)
				l := &line{tb: t}
				var order []string
				for i := range 40 { // more than get it in a row
					order = append(order, fmt.Sprint(i))
					l.join(locker, order[i])
				}
				require.NoError(t, holder.Unlock(t.Context()))
				require.Equal(t, order, l.end())
				c.eventuallyEmpty()
			})
		}
	})
}

// Trap 24: waiters of one process that all contend over the network.
func TestOfManyWaitersInOneLockerOneAsksTheNodes(t *testing.T) {
	c := onReal(t, 3)
	holder := take(t, c.locker(), "name")
	c.eventuallyHeld("name", holder.Token())
	locker, seen := c.waiting(c.nodes())
	l := &line{tb: t}
	l.join(locker, "")
	seen.waitForRefusals(t, 1)
	c.eventuallyTracked()
	before := c.settled()
	for range 99 {
		l.join(locker, "")
	}
	require.Equal(t, before, c.settled(), "99 more waiters, and no command of them")
	refused := len(seen.verdictsOn("acquire"))
	require.Less(t, refused, 10)

	require.NoError(t, holder.Unlock(t.Context()))
	l.end()
	require.Less(t, len(seen.verdictsOn("acquire")), refused+100+100/12+10, "a round for each, and what the turns of others cost")
	c.eventuallyEmpty()
}

func TestAWaiterInTheLineThatIsCancelledIsPassedOver(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		holder := waits(t, locker, "name")
		tired := errors.New("tired")
		ctx, cancel := context.WithCancelCause(t.Context())
		l := &line{tb: t}
		l.join(locker, "first")
		gone := queue(t, ctx, locker, "name")
		l.join(locker, "second")
		cancel(tired)
		end := receive(t, gone, "the end of a wait")
		require.Nil(t, end.lock)
		require.ErrorIs(t, end.err, context.Canceled)
		require.ErrorIs(t, end.err, tired)
		require.ErrorIs(t, end.err, redlock.ErrTaken)
		for _, node := range c.refused(end.err).Nodes {
			require.ErrorIs(t, node.Err, redlock.ErrQueued, "it never went a round")
		}
		require.NoError(t, holder.Unlock(t.Context()))
		require.Equal(t, []string{"first", "second"}, l.end())
		c.eventuallyEmpty()
	})
}

func TestTheFirstInTheLineThatIsCancelledPassesItsTurnOn(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		holder := take(t, c.locker(), "name")
		c.eventuallyHeld("name", holder.Token())
		locker, seen := c.waiting(c.nodes())
		ctx, cancel := context.WithCancel(t.Context())
		first := queue(t, ctx, locker, "name")
		seen.waitForRefusals(t, 1)
		l := &line{tb: t}
		l.join(locker, "second")
		l.join(locker, "third")
		cancel()
		end := receive(t, first, "the end of a wait")
		require.ErrorIs(t, end.err, context.Canceled)
		require.ErrorIs(t, end.err, redlock.ErrTaken)
		require.ErrorIs(t, end.err, pool.ErrHeld, "the reason of the last round")

		require.NoError(t, holder.Unlock(t.Context()))
		require.Equal(t, []string{"second", "third"}, l.end())
		c.eventuallyEmpty()
	})
}

// The round of the one who gives up is under way then.
func TestTheFirstInTheLineThatIsCancelledInItsRoundPassesItsTurnOn(t *testing.T) {
	c := onReal(t, 3)
	seen := &recorder{}
	locker := lockerOver(t, c.nodes(), redlock.WithObserver(seen))
	seen.connect(t, locker, 3)
	for _, p := range c.processes[1:] {
		p.Freeze()
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := queue(t, ctx, locker, "name")
	seen.waitForVotes(t, "acquire", "name", 1)
	second := queue(t, t.Context(), locker, "name")
	cancel()
	require.ErrorIs(t, receive(t, first, "the end of a wait").err, context.Canceled)
	for _, p := range c.processes[1:] {
		p.Thaw()
	}
	require.NoError(t, won(t, second).Unlock(t.Context()))
	c.eventuallyEmpty()
}

// Whoever is cancelled at the moment of its turn has the lock or passes it on, and never both or neither.
func TestNoTurnIsLostWhenWaitersGiveUpAtAnyMoment(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		for range 20 {
			holder := waits(t, locker, "name")
			var waiters []<-chan held
			var cancels []context.CancelFunc
			for range 6 {
				ctx, cancel := context.WithCancel(t.Context())
				waiters = append(waiters, queue(t, ctx, locker, "name"))
				cancels = append(cancels, cancel)
			}
			last := queue(t, t.Context(), locker, "name")
			for _, cancel := range cancels {
				go cancel()
			}
			require.NoError(t, holder.Unlock(t.Context()))
			for _, waiter := range waiters {
				if h := receive(t, waiter, "the end of a wait"); h.err == nil {
					require.NoError(t, h.lock.Unlock(t.Context()))
				} else {
					require.ErrorIs(t, h.err, context.Canceled)
				}
			}
			require.NoError(t, won(t, last).Unlock(t.Context()))
		}
		c.eventuallyEmpty()
	})
}

func TestWaitersOfDifferentNamesDoNotWaitForEachOther(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		holder := waits(t, locker, "name")
		waiter := queue(t, t.Context(), locker, "name")
		for i := range 100 { // more than are kept in mind
			name := fmt.Sprintf("other %d", i)
			other := waits(t, locker, name)
			next := queue(t, t.Context(), locker, name)
			require.NoError(t, other.Unlock(t.Context()))
			require.NoError(t, won(t, next).Unlock(t.Context()))
		}
		require.NoError(t, holder.Unlock(t.Context()))
		require.NoError(t, won(t, waiter).Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}

func TestCloseEndsEveryWaitInTheLine(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker, err := redlock.New(c.nodes(), redlock.WithTTL(long))
		require.NoError(t, err)
		holder := waits(t, locker, "name")
		var waiters []<-chan held
		for range 20 {
			waiters = append(waiters, queue(t, t.Context(), locker, "name"))
		}
		require.NoError(t, locker.Close())
		for _, waiter := range waiters {
			require.ErrorIs(t, receive(t, waiter, "the end of a wait").err, redlock.ErrClosed)
		}
		require.NoError(t, holder.Err())
		require.NoError(t, holder.Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}
