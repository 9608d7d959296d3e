package cluster_test

import (
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/chaos/internal/cluster"
)

func TestFailOver_LeadsConnectionsToTheStandbyAndLeavesTheOthers(t *testing.T) {
	c := start(t, 1, cluster.ServerConfig{})
	require.False(t, c.HasStandby(0))
	require.NoError(t, c.AddStandby(0))
	require.True(t, c.HasStandby(0))
	for _, lags := range []bool{false, true} {
		former, early := c.Server(0), connect(t, c, 0, 0)
		early.prints("connected")
		set(t, former, "kept")
		eventually(t, func() bool { return isFollowed(former) })
		_, err := redis.Int(former.Do("WAIT", 1, 0))
		require.NoError(t, err)
		if lags {
			require.NoError(t, c.Lag(0))
			set(t, former, "lost")
		}
		require.NoError(t, c.FailOver(0))
		require.True(t, has(c.Server(0), "key", "kept")())
		require.NotEqual(t, former.Addr(), c.Server(0).Addr())
		early.send("SET key 1")
		early.prints("READONLY You can't write against a read only replica.")
		late := connect(t, c, 0, 0)
		late.prints("connected")
		late.send("SET key 1")
		late.prints("OK")
	}
}

// isFollowed reports whether a standby has attached to the server.
func isFollowed(s *cluster.Server) bool {
	info, err := redis.String(s.Do("INFO", "replication"))
	return err == nil && strings.Contains(info, "state=online")
}
