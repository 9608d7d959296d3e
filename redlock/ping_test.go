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
		require.NoError(t, lock.Unlock(t.Context()))

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

// The danger: a program that reports that it is ready, and cannot take a lock.
func TestPing_NoticesAServerThatGrantsNoLocks(t *testing.T) {
	t.Parallel()
	for code, command := range map[string][]any{
		"NOREPLICAS": {"CONFIG", "SET", "min-replicas-to-write", 1},
		"OOM":        {"CONFIG", "SET", "maxmemory", 1},
		"READONLY":   {"REPLICAOF", "127.0.0.1", 1},
		"NOPERM":     {"ACL", "SETUSER", "default", "-set"},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			c := onReal(t, 1)
			locker := c.locker()
			c.do(0, command[0].(string), command[1:]...)
			require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrNoQuorum)
			var refusal *nodeerr.ServerError
			require.ErrorAs(t, locker.Ping(t.Context()), &refusal)
			require.Equal(t, code, refusal.Code)
		})
	}
	t.Run("quarantine", func(t *testing.T) {
		t.Parallel()
		c := onReal(t, 1)
		locker := lockerOver(t, c.nodes(pool.WithRestartGuard(time.Hour)))
		require.ErrorIs(t, locker.Ping(t.Context()), nodeerr.ErrQuarantined)
	})
}
