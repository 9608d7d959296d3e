package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestPing_IsNilIfAMajorityWouldGrantALock(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker(prefixed)
		require.NoError(t, locker.Ping(t.Context()))
		c.eventuallyEmpty()
		lock := take(t, locker, "ping") // whatever its name
		require.NoError(t, locker.Ping(t.Context()))
		unlock(t, lock)

		c.servers[0].Stop()
		require.NoError(t, locker.Ping(t.Context()))
		c.servers[1].Stop()
		err := locker.Ping(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "redlock: ping: no quorum of nodes: 1 of 3 nodes said yes, 2 needed: ")
		require.Equal(t, "ping", c.refused(err).Op)

		require.EqualError(t, locker.Ping(over(t)), "redlock: ping: context canceled")
		require.NoError(t, locker.Close())
		require.ErrorIs(t, locker.Ping(t.Context()), redlock.ErrClosed)
	})
}

func TestPing_NoticesAQuarantine(t *testing.T) {
	t.Parallel()
	locker := lockerOver(t, onReal(t, 1).nodes(pool.WithRestartGuard(time.Hour)))
	require.ErrorIs(t, locker.Ping(t.Context()), nodeerr.ErrQuarantined)
}
