package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

func TestALockIsHandedOverToAnotherProcessByItsToken(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		seen := &recorder{}
		first := lockerOver(t, c.nodes(), redlock.WithObserver(seen))
		lock := take(t, first, "name", redlock.TTL(2*time.Second), redlock.AutoExtend())
		seen.waitForRenewals(t, 1)
		token, err := lock.Detach(t.Context())
		require.NoError(t, err)
		require.Equal(t, lock.Token(), token)
		receive(t, lock.Done(), "the end of the first handle")
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrReleased)
		require.ErrorIs(t, lock.Extend(t.Context(), long), redlock.ErrReleased)
		_, err = lock.Detach(t.Context())
		require.ErrorIs(t, err, redlock.ErrReleased)
		sent := len(seen.verdictsOn("extend")) + len(seen.verdictsOn("unlock"))

		same, err := c.locker().Attach(t.Context(), "name", token)
		require.NoError(t, err)
		require.NoError(t, same.Extend(t.Context(), long))
		pass(2 * time.Second) // the first one's lease would be over
		require.NoError(t, same.Err())
		require.GreaterOrEqual(t, c.holding("name", token), 2)
		require.Equal(t, sent, len(seen.verdictsOn("extend"))+len(seen.verdictsOn("unlock")), "the first sends nothing more")
		require.NoError(t, same.Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}

func TestALockThatOthersHoldTooIsNotHandedOver(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		lock := take(t, locker, "name")
		ctx, cancel := lock.Context(t.Context())
		defer cancel()
		inner, err := locker.TryLock(ctx, "name", redlock.Reentrant())
		require.NoError(t, err)
		_, err = lock.Detach(t.Context())
		require.ErrorIs(t, err, redlock.ErrReentered)
		require.NoError(t, lock.Err())
		require.NoError(t, inner.Unlock(t.Context()))
		_, err = lock.Detach(t.Context())
		require.NoError(t, err)
	})
}

// An old TTL that may still arrive would cut off what the next holder was granted.
func TestALockWhoseFailedExtensionIsNotSettledIsNotHandedOver(t *testing.T) {
	c := onReal(t, 3)
	seen := &recorder{}
	locker := lockerOver(t, c.nodes(), redlock.WithObserver(seen))
	seen.connect(t, locker, 3)
	lock := take(t, locker, "name", redlock.TTL(long))
	c.eventuallyHeld("name", lock.Token())
	for _, p := range c.processes[:2] {
		p.Freeze()
	}
	require.ErrorIs(t, lock.Extend(t.Context(), 2*long), redlock.ErrNoQuorum)
	_, err := lock.Detach(t.Context())
	require.ErrorIs(t, err, redlock.ErrRestoring)
	for _, p := range c.processes[:2] {
		p.Thaw()
	}
	eventually(t, func() bool {
		_, err = lock.Detach(t.Context())
		return err == nil
	}, "the extension is settled")
}
