package redlock_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

func TestAHandleThatIsUnlockedIsOverThoughTheLockIsHeld(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		outer := take(t, locker, "name", redlock.TTL(2*time.Second))
		ctx, cancel := outer.Context(t.Context())
		defer cancel()
		inner, err := locker.TryLock(ctx, "name", redlock.Reentrant(), redlock.TTL(2*time.Second))
		require.NoError(t, err)

		require.NoError(t, outer.Unlock(t.Context()))
		receive(t, outer.Done(), "the end of the outer handle")
		require.ErrorIs(t, outer.Err(), redlock.ErrReleased)
		require.Zero(t, outer.Remaining())
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrReleased)
		require.NoError(t, inner.Err())

		receive(t, inner.Done(), "the deadline")
		require.ErrorIs(t, inner.Err(), redlock.ErrExpired)
		require.ErrorIs(t, outer.Err(), redlock.ErrReleased, "what came first stays")
	})
}

func TestDoKeepsALockThatItFindsTaken(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		seen := &recorder{}
		locker := lockerOver(t, c.nodes(), redlock.WithObserver(seen))
		lock := take(t, locker, "name", redlock.TTL(2*time.Second))
		outer, cancel := lock.Context(t.Context())
		defer cancel()
		require.NoError(t, locker.Do(outer, "name", func(ctx context.Context, _ *redlock.Lock) error {
			before := len(seen.verdictsOn("extend"))
			eventually(t, func() bool { return len(seen.verdictsOn("extend")) >= before+2 }, "two renewals")
			return context.Cause(ctx)
		}, redlock.Reentrant(), redlock.TTL(2*time.Second)))

		receive(t, lock.Done(), "the end of what nobody renews any more")
		require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
	})
}

func TestTakingALockAgainDoesNotOutdoMaxHold(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		begin := time.Now()
		lock := take(t, locker, "name", redlock.TTL(time.Second), redlock.AutoExtend(), redlock.MaxHold(time.Second))
		taken := time.Now()
		ctx, cancel := lock.Context(t.Context())
		defer cancel()
		for lock.Err() == nil {
			inner, err := locker.TryLock(ctx, "name", redlock.Reentrant(), redlock.TTL(time.Second))
			if err != nil {
				break
			}
			require.Less(t, inner.Remaining(), time.Second-time.Since(taken)+taken.Sub(begin), "from the acquire on")
			_ = inner.Unlock(t.Context())
			pass(50 * time.Millisecond)
		}
		receive(t, lock.Done(), "the end of MaxHold")
	})
}

// Trap 8: what renewals that failed have made longer does not outlive the lock by a TTL.
func TestALockThatIsRenewedInVainLeavesNothingWhenItExpires(t *testing.T) {
	c := onReal(t, 3)
	locker := c.locker()
	lock := take(t, locker, "name", redlock.TTL(time.Minute))
	c.eventuallyHeld("name", lock.Token())
	require.NoError(t, lock.Unlock(t.Context()))
	lock = take(t, locker, "name", redlock.TTL(2*time.Second), redlock.AutoExtend())
	c.eventuallyHeld("name", lock.Token())
	for _, p := range c.processes[:2] {
		p.Freeze()
	}
	eventually(t, func() bool { return lock.Err() != nil }, "the end")
	for _, p := range c.processes[:2] {
		p.Thaw()
	}
	c.eventuallyEmpty()
}

// Trap 19: one server that is reached under two names is no majority of three.
func TestAServerUnderTwoNamesIsLookedAtOnce(t *testing.T) {
	c := onReal(t, 1)
	_, port, err := net.SplitHostPort(c.servers[0].Addr())
	require.NoError(t, err)
	nodes := open(t, []string{c.servers[0].URL(), "redis://localhost:" + port, "redis://127.0.0.1:1"})
	locker := lockerOver(t, nodes)
	c.do(0, "SET", "name", "token", "PX", long.Milliseconds())
	var state *redlock.State
	eventually(t, func() bool { // both are connected
		state, err = locker.Inspect(t.Context(), "name")
		return errors.Is(err, redlock.ErrSameServer)
	}, "the server is known")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.False(t, state.Held())
	_, err = locker.Attach(t.Context(), "name", "token")
	require.ErrorIs(t, err, redlock.ErrSameServer)
	require.ErrorIs(t, locker.ForceUnlock(t.Context(), "name"), redlock.ErrNoQuorum)
}
