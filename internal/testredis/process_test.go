package testredis_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// What a single server does is tested through internal/testredis, which hands it to tests.

func launch(t *testing.T, n int) []*testredis.Process {
	t.Helper()
	testredis.Real(t, 0) // skips the test if redis-server is missing
	servers, err := testredis.Launch(t.Context(), n, func(err error) { t.Error(err) })
	require.NoError(t, err)
	return servers
}

func gone(t *testing.T, server *testredis.Process) {
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
	servers[0].Freeze()
	servers[1].Stop()
	require.NoError(t, testredis.Close(servers))
	for _, server := range servers {
		gone(t, server)
	}
}

func TestLaunch_LeavesNothingWhenItFails(t *testing.T) {
	launch(t, 0)
	t.Setenv("TMPDIR", t.TempDir())
	_, err := testredis.Launch(t.Context(), 3, nil, "--no-such-option", "1")
	require.ErrorContains(t, err, "no-such-option")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = testredis.Launch(ended, 3, nil)
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
	servers, err := testredis.Launch(t.Context(), 1, nil)
	require.NoError(t, err)
	assert.Contains(t, servers[0].Log(), "bind: Address already in use")
	require.NoError(t, testredis.Close(servers))
}

func TestProcess_KeepsItsConfigurationFileWhenItIsStartedAgain(t *testing.T) {
	server := testredis.Real(t, 1, "server.conf", "--maxclients", "100")[0]
	_, err := server.Do("CONFIG", "SET", "hz", "42")
	require.NoError(t, err)
	_, err = server.Do("CONFIG", "REWRITE")
	require.NoError(t, err)
	server.Stop()
	server.Start()
	for name, value := range map[string]string{"hz": "42", "maxclients": "100"} {
		is, err := redis.StringMap(server.Do("CONFIG", "GET", name))
		require.NoError(t, err)
		assert.Equal(t, value, is[name])
	}
}

func TestProcess_HasTheBusOfAClusterOnAPortBelowThoseOfOutgoingConnections(t *testing.T) {
	for _, server := range testredis.Real(t, 10, "--cluster-enabled", "yes") {
		_, port, err := net.SplitHostPort(server.Addr())
		require.NoError(t, err)
		n, err := strconv.Atoi(port)
		require.NoError(t, err)
		assert.Less(t, n+10000, 32768)
		l, err := net.ListenPacket("udp", net.JoinHostPort("127.0.0.1", strconv.Itoa(n+10000)))
		if err == nil {
			_ = l.Close()
		}
		assert.ErrorIs(t, err, syscall.EADDRINUSE, "no other server takes it")
	}
}

func TestProcess_CannotBeFrozenWhileStopped(t *testing.T) {
	launch(t, 0)
	var failed error
	servers, err := testredis.Launch(t.Context(), 1, func(err error) { failed = err })
	require.NoError(t, err)
	servers[0].Stop()
	servers[0].Freeze()
	require.ErrorIs(t, failed, os.ErrProcessDone)
	require.ErrorContains(t, failed, servers[0].Addr())
	require.NoError(t, servers[0].Close())
}

func TestProgram_MayBeMissing(t *testing.T) {
	t.Setenv("QUORUMLOCK_REDIS_SERVER", "")
	t.Setenv("PATH", t.TempDir())
	_, err := testredis.Program()
	assert.ErrorIs(t, err, testredis.ErrMissing)
	_, err = testredis.Launch(t.Context(), 1, nil)
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
	_, err := testredis.Launch(t.Context(), 1, nil)
	require.ErrorContains(t, err, "I was chosen: --bind 127.0.0.1 ")

	t.Setenv("QUORUMLOCK_REDIS_SERVER", filepath.Join(t.TempDir(), "missing"))
	_, err = testredis.Program()
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "QUORUMLOCK_REDIS_SERVER: ")
	require.NotErrorIs(t, err, testredis.ErrMissing, "whoever chooses a program wants to be told that it is not there")
}

func TestReal_SkipsATestWithTLSForAProgramBuiltWithoutIt(t *testing.T) {
	withTLS := func(text string) *recorder {
		t.Setenv("QUORUMLOCK_REDIS_SERVER", script(t, text))
		tb := &recorder{TB: t}
		tb.run(func() { testredis.Real(tb, 1, "--tls-port", "1") })
		return tb
	}
	for _, without := range []string{
		"echo \">>> 'tls-port \\\"1\\\"'\"; echo Bad directive or wrong number of arguments; exit 1",      // Redis 6.2
		"echo '# Missing implement of connection type tls'; echo '# Failed finding TLS support.'; exit 1", // Redis 7.4, Valkey 8.0
	} {
		tb := withTLS(without + "\n")
		assert.Contains(t, tb.skip, "tests on such servers are left out")
		assert.Empty(t, tb.fatal)
	}
	tb := withTLS("echo '# No tls-cert-file configured!'; exit 1\n")
	assert.Empty(t, tb.skip)
	assert.Contains(t, tb.fatal, "No tls-cert-file configured")
}
