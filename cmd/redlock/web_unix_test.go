//go:build unix

package main

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const nobody = "--nodes=redis://:geheim@127.0.0.1:1,redis://:geheim@127.0.0.1:2"

func TestWeb_EndsWithASignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		line, failure, err := signalled(t, sig, "Ctrl-C", "web", nobody, "--listen=127.0.0.1:0")
		require.NoError(t, err, failure)
		require.Empty(t, failure)
		require.Regexp(t, `^redlock: http://127\.0\.0\.1:[1-9]\d*/ \(Ctrl-C ends it\)$`, line)
	}
}

func TestWeb_WarnsIfOtherMachinesCanReachIt(t *testing.T) {
	line, failure, err := signalled(t, syscall.SIGTERM, "Ctrl-C", "web", nobody, "--listen=0.0.0.0:0", "--allow-unlock")
	require.NoError(t, err, failure)
	require.Regexp(t, `^redlock: http://127\.0\.0\.1:[1-9]`, line)
	require.Contains(t, failure, "redlock: warning: other machines can reach ")
	require.Contains(t, failure, "see and free all locks")
	require.NotContains(t, failure, "geheim")
	_, failure, err = signalled(t, syscall.SIGTERM, "Ctrl-C", "web", nobody, "--listen=:0")
	require.NoError(t, err, failure)
	require.Contains(t, failure, "can see all locks")
}
