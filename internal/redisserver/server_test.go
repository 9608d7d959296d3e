package redisserver_test

import (
	"context"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisserver"
)

// What a single server does is tested through internal/redistest, which hands it to tests.

func launch(t *testing.T, n int) []*redisserver.Server {
	t.Helper()
	if err := redisserver.Installed(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	servers, err := redisserver.Launch(t.Context(), n)
	require.NoError(t, err)
	return servers
}

func gone(t *testing.T, server *redisserver.Server) {
	t.Helper()
	assert.Zero(t, server.PID())
	assert.NoDirExists(t, server.Dir())
	_, err := net.Dial("tcp", server.Addr())
	assert.Error(t, err)
}

func TestACloseLeavesNeitherProcessNorDirectory(t *testing.T) {
	servers := launch(t, 3)
	for _, server := range servers {
		_, err := server.Do("PING")
		require.NoError(t, err)
		require.DirExists(t, server.Dir())
	}
	require.NoError(t, servers[0].Freeze())
	servers[1].Stop()
	require.NoError(t, redisserver.Close(servers))
	for _, server := range servers {
		gone(t, server)
	}
}

func TestALaunchThatFailsLeavesNothing(t *testing.T) {
	launch(t, 0)
	t.Setenv("TMPDIR", t.TempDir())
	_, err := redisserver.Launch(t.Context(), 3, "--no-such-option", "1")
	require.ErrorContains(t, err, "no-such-option")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = redisserver.Launch(ended, 3)
	require.ErrorIs(t, err, context.Canceled)

	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestWhatIsStoppedCannotBeFrozen(t *testing.T) {
	server := launch(t, 1)[0]
	server.Stop()
	assert.ErrorContains(t, server.Freeze(), server.Addr()+" is not running")
	require.NoError(t, server.Close())
}

func TestAMissingProgramIsSaidSo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	assert.ErrorIs(t, redisserver.Installed(), redisserver.ErrMissing)
	_, err := redisserver.Launch(t.Context(), 1)
	assert.ErrorIs(t, err, redisserver.ErrMissing)
}
