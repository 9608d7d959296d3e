package redlock_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

func TestForceUnlock_FreesALockWhoeverHoldsIt(t *testing.T) {
	t.Parallel()
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		var log bytes.Buffer
		locker := c.locker(redlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		lock := take(t, c.locker(), "ours")
		c.eventuallyHeld("ours", lock.Token())
		require.NoError(t, locker.ForceUnlock(t.Context(), "ours"))
		require.Contains(t, log.String(), "level=WARN")
		require.Contains(t, log.String(), "name=ours")
		require.NotContains(t, log.String(), lock.Token())
		c.doAll("SET", "theirs", "any text")
		require.NoError(t, locker.ForceUnlock(t.Context(), "theirs"))
		require.NoError(t, locker.ForceUnlock(t.Context(), "nobody's"))
		c.eventuallyEmpty()
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
	})
}

// The danger: somebody's data under the name.
func TestForceUnlock_LeavesDataOfAnotherTypeAlone(t *testing.T) {
	t.Parallel()
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.doAll("RPUSH", "name", "data")
		err := c.locker().ForceUnlock(t.Context(), "name")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		for i, node := range c.refused(err).Nodes {
			require.ErrorContains(t, node.Err, "WRONGTYPE")
			require.EqualValues(t, 1, c.do(i, "LLEN", "name"))
		}
	})
}

func TestForceUnlock_WithoutAMajorityIsUnknown(t *testing.T) {
	t.Parallel()
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.servers[0].Stop()
		require.NoError(t, c.locker().ForceUnlock(t.Context(), "name"))
		c.servers[1].Stop()
		err := c.locker().ForceUnlock(t.Context(), "name")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.Equal(t, redlock.OpForceUnlock, c.refused(err).Op)
	})
}
