//go:build unix

package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// signalled runs the tool as a program, sends it a signal when it prints a line with text, and returns that line.
func signalled(t *testing.T, sig syscall.Signal, text string, args ...string) (line, failure string, err error) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), mainEnv+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }() // has ended, as a rule
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if line == "" && strings.Contains(lines.Text(), text) {
			line = lines.Text()
			require.NoError(t, cmd.Process.Signal(sig))
		}
	}
	err = cmd.Wait()
	require.NotEmpty(t, line, "%q was never printed: %s", text, &stderr)
	return line, stderr.String(), err
}

// A broken connection may raise SIGPIPE, whoever has it.
func TestMain_BrokenPipeOfAConnectionDoesNotEndTheProgram(t *testing.T) {
	_, failure, err := signalled(t, syscall.SIGPIPE, "A has the lock", "demo", "--timeout=500ms")
	require.NoError(t, err, failure)
	require.Empty(t, failure)
}
