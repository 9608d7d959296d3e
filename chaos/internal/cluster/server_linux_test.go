package cluster_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/chaos/internal/cluster"
)

func set(t *testing.T, s *cluster.Server, value string) {
	t.Helper()
	_, err := s.Do("SET", "key", value)
	require.NoError(t, err)
}

func TestServer_LosesItsDataUnlessItIsDurable(t *testing.T) {
	c := start(t, 0, cluster.ServerConfig{}, cluster.ServerConfig{Durable: true})
	for i, s := range c.Servers() {
		for _, end := range []func(){s.Stop, func() { require.NoError(t, s.Shutdown()) }} {
			set(t, s, "1")
			end()
			_, err := s.Do("PING")
			require.Error(t, err)
			require.NoError(t, s.Start())
			assert.Equal(t, i == 1, has(s, "key", "1")(), s.Addr())
		}
		s.Stop()
		require.NoError(t, s.Wipe())
		require.NoError(t, s.Start())
		assert.False(t, has(s, "key", "1")())
		require.Error(t, s.Wipe(), "it runs")
	}
}

func TestServer_RestoresASnapshotOnce(t *testing.T) {
	c := start(t, 0, cluster.ServerConfig{}, cluster.ServerConfig{Durable: true})
	require.ErrorContains(t, c.Server(1).Restore(), "durable")
	s := c.Server(0)
	set(t, s, "old")
	require.NoError(t, s.Snapshot())
	set(t, s, "new")
	require.Error(t, s.Restore(), "it runs")
	s.Stop()
	require.NoError(t, s.Start())
	require.False(t, has(s, "key", "old")(), "not without Restore")
	s.Stop()
	require.NoError(t, s.Restore())
	require.NoError(t, s.Start())
	require.True(t, has(s, "key", "old")())
	s.Stop()
	require.NoError(t, s.Start())
	require.False(t, has(s, "key", "old")())
}

func TestServer_StandsStillWhileItIsFrozen(t *testing.T) {
	c := start(t, 1, cluster.ServerConfig{Args: []string{"--maxmemory", "100mb"}})
	s := c.Server(0)
	require.NoError(t, s.Freeze())
	p := connect(t, c, 0, 0)
	p.prints("connected")
	p.send("SET key 1")
	p.isSilent()
	require.NoError(t, s.Thaw())
	p.prints("OK")
	require.NoError(t, s.Freeze())
	s.Stop()
	p.send("PING")
	p.ends()
	require.ErrorIs(t, s.Freeze(), os.ErrProcessDone)
	require.NoError(t, s.Start())
	assert.False(t, has(s, "key", "1")())
}

func TestAddServer_IsReachedByAllClients(t *testing.T) {
	c := start(t, 2)
	for range 9 {
		_, err := c.AddServer(t.Context(), cluster.ServerConfig{})
		require.NoError(t, err)
	}
	_, err := c.AddServer(t.Context(), cluster.ServerConfig{})
	require.Error(t, err)
	p := connect(t, c, 1, 8)
	p.prints("connected")
	p.send("SET key 1")
	p.prints("OK")
	assert.True(t, has(c.Server(8), "key", "1")())
}

func TestServer_SaysWhyItDoesNotStart(t *testing.T) {
	c := start(t, 0)
	_, err := c.AddServer(t.Context(), cluster.ServerConfig{Args: []string{"--no-such-option", "1"}})
	require.ErrorContains(t, err, "no-such-option")
}

func TestPostgres_IsReachedByClients(t *testing.T) {
	c := start(t, 1)
	db, err := c.StartPostgres(t.Context())
	if err != nil && os.Getenv("CI") != "true" {
		require.ErrorIs(t, err, cluster.ErrNoPostgres)
		t.Skip(err)
	}
	require.NoError(t, err)
	run(t, c, 0, "postgres", db.DSN()).prints("1")
	require.NoError(t, db.Close())
	require.NoError(t, db.Close())
}
