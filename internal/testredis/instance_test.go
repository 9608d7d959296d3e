package testredis_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// What a single server does is tested through internal/testredis, which hands it to tests.

func launch(t *testing.T, n int) []*testredis.Instance {
	t.Helper()
	testredis.Real(t, 0) // skips the test if redis-server is missing
	servers, err := testredis.Launch(t.Context(), n)
	require.NoError(t, err)
	return servers
}

func gone(t *testing.T, server *testredis.Instance) {
	t.Helper()
	assert.Zero(t, server.PID())
	assert.NoDirExists(t, server.Dir())
	_, err := net.Dial("tcp", server.Addr())
	assert.Error(t, err)
}

func TestClose_LeavesNeitherProcessNorDirectory(t *testing.T) {
	servers := launch(t, 3)
	for _, server := range servers {
		_, err := server.Do("PING")
		require.NoError(t, err)
		require.DirExists(t, server.Dir())
	}
	require.NoError(t, servers[0].Freeze())
	servers[1].Stop()
	require.NoError(t, testredis.Close(servers))
	for _, server := range servers {
		gone(t, server)
	}
}

func TestLaunch_LeavesNothingWhenItFails(t *testing.T) {
	launch(t, 0)
	t.Setenv("TMPDIR", t.TempDir())
	_, err := testredis.Launch(t.Context(), 3, "--no-such-option", "1")
	require.ErrorContains(t, err, "no-such-option")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = testredis.Launch(ended, 3)
	require.ErrorIs(t, err, context.Canceled)

	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestLaunch_TriesAnotherPortIfOneIsTaken(t *testing.T) {
	launch(t, 0)
	real, err := exec.LookPath("redis-server")
	require.NoError(t, err)
	taken := filepath.Join(t.TempDir(), "taken")
	t.Setenv("QUORUMLOCK_REDIS_SERVER", script(t,
		"[ -e "+taken+" ] && exec "+real+" \"$@\"; touch "+taken+"; echo bind: Address already in use; exit 1\n"))
	servers, err := testredis.Launch(t.Context(), 1)
	require.NoError(t, err)
	assert.Contains(t, servers[0].Log(), "bind: Address already in use")
	require.NoError(t, testredis.Close(servers))
}

func TestInstance_CannotBeFrozenWhileStopped(t *testing.T) {
	server := launch(t, 1)[0]
	server.Stop()
	assert.ErrorContains(t, server.Freeze(), server.Addr()+": not running")
	require.NoError(t, server.Close())
}

func TestInstalled_ReportsAMissingProgram(t *testing.T) {
	t.Setenv("QUORUMLOCK_REDIS_SERVER", "")
	t.Setenv("PATH", t.TempDir())
	assert.ErrorIs(t, testredis.Installed(), testredis.ErrMissing)
	_, err := testredis.Launch(t.Context(), 1)
	assert.ErrorIs(t, err, testredis.ErrMissing)
}

// script makes a server program that is a shell script.
func script(t *testing.T, text string) (path string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there are no shell scripts")
	}
	path = filepath.Join(t.TempDir(), "chosen-server")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700))
	return path
}

func TestLaunch_RunsTheProgramThatTheEnvironmentChooses(t *testing.T) {
	t.Setenv("QUORUMLOCK_REDIS_SERVER", script(t, "echo \"I was chosen: $*\"; exit 1\n"))
	_, err := testredis.Launch(t.Context(), 1)
	require.ErrorContains(t, err, "I was chosen: --bind 127.0.0.1 ")

	t.Setenv("QUORUMLOCK_REDIS_SERVER", filepath.Join(t.TempDir(), "missing"))
	err = testredis.Installed()
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "QUORUMLOCK_REDIS_SERVER: ")
	require.NotErrorIs(t, err, testredis.ErrMissing, "whoever chooses a program wants to be told that it is not there")
}

func TestNeedTLS_SkipsTheTestForAProgramBuiltWithoutTLS(t *testing.T) {
	needTLS := func(text string) string {
		t.Setenv("QUORUMLOCK_REDIS_SERVER", script(t, text))
		tb := &recorder{TB: t}
		tb.run(func() { testredis.NeedTLS(tb) })
		require.Empty(t, tb.errors)
		require.Empty(t, tb.fatal)
		return tb.skip
	}
	for _, without := range []string{
		"echo \">>> 'tls-port \\\"1\\\"'\"; echo Bad directive or wrong number of arguments; exit 1",      // Redis 6.2
		"echo '# Missing implement of connection type tls'; echo '# Failed finding TLS support.'; exit 1", // Redis 7.4, Valkey 8.0
	} {
		assert.Contains(t, needTLS(without+"\n"), "chosen-server was built without TLS: tests with TLS are left out")
	}
	assert.Empty(t, needTLS("echo '# No tls-cert-file configured!'; exit 1\n"))
}
