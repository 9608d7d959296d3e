package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/client"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// parsed returns what flags, variables and files make of serverFlags.
func parsed(t *testing.T, args ...string) (serverFlags, error) {
	t.Helper()
	var flags serverFlags
	parser, err := kong.New(&flags)
	require.NoError(t, err)
	if _, err = parser.Parse(args); err == nil {
		err = flags.check()
	}
	return flags, err
}

// file makes a file and returns its path.
func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestServerFlags_AFlagGoesBeforeItsVariableAndThatBeforeTheFile(t *testing.T) {
	config := file(t, `{"nodes": ["redis://file", "redis://file2"], "key-prefix": "file:", "timeout": "2s", "username": "file", "password-file": "/file"}`)
	t.Setenv("REDLOCK_KEY_PREFIX", "variable:")
	t.Setenv("REDLOCK_USERNAME", "variable")
	for _, args := range [][]string{{"--config", config}, {}} {
		if len(args) == 0 {
			t.Setenv("REDLOCK_CONFIG", config)
		}
		flags, err := parsed(t, append(args, "--username=flag")...)
		require.NoError(t, err)
		require.Equal(t, []string{"redis://file", "redis://file2"}, flags.Nodes)
		require.Equal(t, "variable:", flags.KeyPrefix)
		require.Equal(t, "flag", flags.Username)
		require.Equal(t, 2*time.Second, flags.Timeout)
	}
	t.Setenv("REDLOCK_NODES", "redis://a,redis://b")
	flags, err := parsed(t)
	require.NoError(t, err)
	require.Equal(t, []string{"redis://a", "redis://b"}, flags.Nodes)
}

// The danger: a forced unlock on the nodes of one file, under the prefix of another.
func TestServerFlags_OneFileCountsWhateverOtherCommandsHave(t *testing.T) {
	const first, second = "127.0.0.1:1 ", "127.0.0.1:2 "
	one, other := file(t, `{"nodes": ["redis://127.0.0.1:1"]}`), file(t, `{"nodes": ["redis://127.0.0.1:2"], "key-prefix": "b:"}`)
	t.Setenv("REDLOCK_CONFIG", one)
	_, out, _ := call(t.Context(), "inspect", "x")
	require.Contains(t, out, "Lock x,")
	require.Contains(t, out, first)
	for _, variable := range []string{one, "/nowhere"} {
		t.Setenv("REDLOCK_CONFIG", variable)
		_, out, _ = call(t.Context(), "inspect", "x", "--config", other)
		require.Contains(t, out, "Lock b:x,")
		require.Contains(t, out, second)
		require.NotContains(t, out, first)
	}
	for _, needsNone := range []string{"version", "man"} {
		code, _, errors := call(t.Context(), needsNone)
		require.Zero(t, code, errors)
	}
	code, _, errors := call(t.Context(), "inspect", "x")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errors, "--config: open /nowhere: no such file")
}

func TestServerFlags_WhatIsWrongIsNamedWithoutPasswords(t *testing.T) {
	const nodes = "--nodes=redis://a"
	for want, args := range map[string][]string{
		"no nodes: set --nodes or $REDLOCK_NODES":  {},
		"node 2 is the same server as node 1":      {"--nodes=redis://:hunter2@a,redis://a"},
		"node 2 is the same server as node 1: a:":  {"--nodes=redis://a.,valkey://a"},
		"did you mean redis:// before it?":         {"--nodes=:hunter2@a:6379"},
		"--timeout must be at least 1ms, not 10µs": {nodes, "--timeout=10us"},
		"--username needs a password":              {nodes, "--username=u"},
		"--tls-cert and --tls-key belong together": {nodes, "--tls-cert=x"},
		`"nodse" is not the name of a flag`:        {"--config=" + file(t, `{"nodse": ["redis://:hunter2@a"]}`)},
		"must be a JSON object, such as":           {"--config=" + file(t, `nodes = redis://:hunter2@a`)},
		"must be a single JSON object":             {"--config=" + file(t, `{} {}`)},
		"--config: open /nowhere: no such file":    {"--config=/nowhere"},
		"--config: the name of the file is empty":  {"--config="},
		`"nodes" must be a text, a number`:         {"--config=" + file(t, `{"nodes": {"a": "redis://:hunter2@a"}}`)},
	} {
		_, err := parsed(t, args...)
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}

func TestServerFlags_CredentialsAreReadForEachConnection(t *testing.T) {
	s := testredis.Real(t, 1, "--requirepass", "first")[0]
	path := file(t, "first\r\nsecond line")
	flags, err := parsed(t, "--nodes=redis://:unused@"+s.Addr(), "--password-file="+path)
	require.NoError(t, err)
	servers, err := flags.servers()
	require.NoError(t, err)
	connect := func() error {
		c, err := client.Connect(t.Context(), servers[0])
		if err == nil {
			c.Close()
		}
		return err
	}
	require.NoError(t, connect())
	require.NoError(t, os.WriteFile(path, []byte("hunter2"), 0o600))
	require.ErrorContains(t, connect(), "WRONGPASS")
	require.NoError(t, os.Remove(path))
	require.ErrorContains(t, connect(), "--password-file")

	t.Setenv("REDLOCK_PASSWORD", "first")
	flags, err = parsed(t, "--nodes=redis://"+s.Addr())
	require.NoError(t, err)
	servers, err = flags.servers()
	require.NoError(t, err)
	require.NoError(t, connect())
}
