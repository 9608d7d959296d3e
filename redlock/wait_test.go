package redlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// held is what a call of Lock on another goroutine returns.
type held struct {
	lock *redlock.Lock
	err  error
}

func lockBeside(ctx context.Context, locker *redlock.Locker, name string, opts ...redlock.LockOption) <-chan held {
	result := make(chan held, 1)
	go func() {
		lock, err := locker.Lock(ctx, name, opts...)
		result <- held{lock, err}
	}()
	return result
}

// waiting makes a Locker whose refused rounds can be waited for.
func (c *cluster) waiting(nodes []*pool.Node, opts ...redlock.Option) (*redlock.Locker, *recorder) {
	seen := &recorder{}
	opts = append([]redlock.Option{redlock.WithObserver(seen), redlock.WithBackoff(time.Millisecond, 10*time.Millisecond)}, opts...)
	return lockerOver(c.tb, nodes, opts...), seen
}

// waitForRefusals waits until n rounds have been refused.
func (r *recorder) waitForRefusals(tb testing.TB, n int) {
	tb.Helper()
	eventually(tb, func() bool { return len(r.verdictsOn("acquire")) >= n }, "%d refused rounds", n)
}

func TestLockWaitsUntilTheHolderReleases(t *testing.T) {
	onBothSilent(t, 5, func(t *testing.T, c *cluster) {
		first := take(t, c.locker(), "name")
		locker, seen := c.waiting(c.nodes())
		waiter := lockBeside(t.Context(), locker, "name")
		seen.waitForRefusals(t, 3)
		require.NoError(t, first.Err())
		require.NoError(t, first.Unlock(t.Context()))

		second := receive(t, waiter, "the lock")
		require.NoError(t, second.err)
		require.NotEqual(t, first.Token(), second.lock.Token())
		require.NoError(t, second.lock.Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}

// Trap 15: a waiter that gives up before a crashed holder's TTL is over.
func TestLockDoesNotGiveUpBeforeTheTTLOfACrashedHolderIsOver(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		crashed := take(t, c.locker(), "name", redlock.TTL(500*time.Millisecond))
		locker, seen := c.waiting(c.nodes())
		second, err := locker.Lock(t.Context(), "name")
		require.NoError(t, err)
		require.ErrorIs(t, crashed.Err(), redlock.ErrExpired, "no sooner than the holder knew")
		require.Greater(t, len(seen.verdictsOn("acquire")), 1)
		require.NoError(t, second.Unlock(t.Context()))
	})
}

func TestLockWaitsUntilAMajorityIsBack(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.servers[0].Stop()
		c.servers[2].Stop()
		locker, seen := c.waiting(c.nodes())
		waiter := lockBeside(t.Context(), locker, "name")
		seen.waitForRefusals(t, 3)
		for _, v := range seen.verdictsOn("acquire") {
			require.ErrorIs(t, v.Err, redlock.ErrNoQuorum)
		}
		c.servers[0].Start()
		second := receive(t, waiter, "the lock")
		require.NoError(t, second.err)
		require.NoError(t, second.lock.Unlock(t.Context()))
		c.servers[2].Start()
		c.eventuallyEmpty()
	})
}

func TestLockThatItsContextEndsSaysSoAndWhy(t *testing.T) {
	tired := errors.New("tired")
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		holder := take(t, c.locker(), "name")
		c.eventuallyHeld("name", holder.Token())
		t.Run("cancelled", func(t *testing.T) {
			locker, seen := c.waiting(c.nodes())
			ctx, cancel := context.WithCancelCause(t.Context())
			waiter := lockBeside(ctx, locker, "name")
			seen.waitForRefusals(t, 1)
			cancel(tired)
			end := receive(t, waiter, "the end of Lock")
			require.Nil(t, end.lock)
			require.ErrorIs(t, end.err, context.Canceled)
			require.ErrorIs(t, end.err, tired)
			require.ErrorIs(t, end.err, redlock.ErrTaken)
			require.ErrorIs(t, end.err, pool.ErrHeld)
			require.ErrorIs(t, c.refused(end.err), redlock.ErrTaken)
		})
		t.Run("timed out", func(t *testing.T) {
			locker, _ := c.waiting(c.nodes())
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, err := locker.Lock(ctx, "name")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, redlock.ErrTaken)
			_ = c.refused(err)
		})
		t.Run("while pausing", func(t *testing.T) {
			locker, seen := c.waiting(c.nodes(), redlock.WithBackoff(long, long))
			ctx, cancel := context.WithCancel(t.Context())
			waiter := lockBeside(ctx, locker, "name")
			seen.waitForRefusals(t, 1)
			cancel()
			end := receive(t, waiter, "the end of Lock")
			require.ErrorIs(t, end.err, context.Canceled)
			require.ErrorIs(t, end.err, redlock.ErrTaken)
		})
		require.NoError(t, holder.Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}

func TestLockWithoutAMajorityThatItsContextEndsSaysSoAndWhy(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.servers[0].Stop()
		c.servers[1].Stop()
		locker, seen := c.waiting(c.nodes())
		ctx, cancel := context.WithCancel(t.Context())
		waiter := lockBeside(ctx, locker, "name")
		seen.waitForRefusals(t, 3)
		cancel()
		end := receive(t, waiter, "the end of Lock")
		require.ErrorIs(t, end.err, context.Canceled)
		require.ErrorIs(t, end.err, redlock.ErrNoQuorum)
		refusal := c.refused(end.err)
		for i := range 2 {
			var down *pool.ConnectError
			require.ErrorAs(t, refusal.Nodes[i].Err, &down)
		}
	})
}

// Trap 1: a rollback that the end of the caller's context cuts short.
func TestARoundThatItsContextEndsDoesNotLeaveKeys(t *testing.T) {
	c := onReal(t, 5)
	for _, call := range []struct {
		name string
		lock func(*redlock.Locker, context.Context, string, ...redlock.LockOption) (*redlock.Lock, error)
	}{{"TryLock", (*redlock.Locker).TryLock}, {"Lock", (*redlock.Locker).Lock}} {
		t.Run(call.name, func(t *testing.T) {
			seen := &recorder{}
			locker := lockerOver(t, c.nodes(), redlock.WithObserver(seen))
			seen.connect(t, locker, 5)
			for _, p := range c.processes[2:] {
				p.Freeze()
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := call.lock(locker, ctx, "name")
				ended <- err
			}()
			seen.waitForVotes(t, "acquire", "name", 2) // two of five hold it, and the round is open
			cancel()
			err := receive(t, ended, "the end of the call")
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			for i, node := range c.refused(err).Nodes {
				if i < 2 {
					require.NoError(t, node.Err)
				} else {
					require.ErrorIs(t, node.Err, redlock.ErrPending)
				}
			}
			for i := range 2 {
				eventually(t, func() bool { return c.value(i, "name") == "" }, "server %d", i)
			}
			for _, p := range c.processes[2:] {
				p.Thaw()
			}
			c.eventuallyEmpty()
			seen.waitForVotes(t, "acquire", "name", 5) // the frozen ones had it too
		})
	}
}

// Trap 29: a context that was for acquiring and ends afterwards.
func TestTheEndOfTheAcquiringContextDoesNotTouchTheLock(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		for name, call := range map[string]func(context.Context, string, ...redlock.LockOption) (*redlock.Lock, error){
			"TryLock": locker.TryLock, "Lock": locker.Lock,
		} {
			ctx, cancel := context.WithCancel(t.Context())
			lock, err := call(ctx, name)
			require.NoError(t, err)
			done := lock.Done()
			cancel()
			c.eventuallyHeld(name, lock.Token()) // the stragglers have come in too
			require.NoError(t, lock.Extend(t.Context(), 2*long))
			require.NoError(t, lock.Err())
			require.Positive(t, lock.Remaining())
			select {
			case <-done:
				require.Fail(t, "the lock has ended")
			default:
			}
			require.NoError(t, lock.Unlock(t.Context()))
		}
		c.eventuallyEmpty()
	})
}
