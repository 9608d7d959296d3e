//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// signalled runs the tool as a program, sends it a signal when it prints a line with text, and returns that line.
func signalled(t *testing.T, sig syscall.Signal, text string, args ...string) (line, failure string, err error) {
	t.Helper()
	cmd := toolProgram(args...)
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

func TestTry_HoldsALockOverSeveralCommandsOfAScript(t *testing.T) {
	on, flags := real5(t)
	const script = `
		redlock() { "$TOOL" "$@"; }
		TOKEN=$(redlock try job --ttl 10m) || exit
		trap 'redlock release job --token "$TOKEN"' EXIT
		redlock extend job --token "$TOKEN" --ttl 10h >extended || exit
		cat extended
		(TOKEN=$(redlock try job) || exit; echo a second script has it)
		echo another got $?
		redlock inspect job --full`
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), mainEnv+"=1", "TOOL="+os.Args[0], "REDLOCK_NODES="+strings.TrimPrefix(flags[0], "--nodes="))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `^9h5\d+m`, string(out))
	require.Contains(t, string(out), "another got 75")
	require.Contains(t, string(out), "Held by a majority: 5 of 5")
	require.NotContains(t, string(out), "a second script has it")
	eventuallyHeld(t, on, "job", "")
}

// colors matches what sets a color, or the cursor.
var colors = regexp.MustCompile("\x1b\\[[0-9;]*[mH]")

func TestWatch_PrintsBlocksToAPipeUntilInterrupted(t *testing.T) {
	on, flags := real5(t)
	do(t, on, "SET", "name", "token", "PX", eternity.Milliseconds())
	for _, command := range [][]string{{"inspect", "name"}, {"list"}, {"inspect", "name", "--json"}, {"list", "--json"}} {
		for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
			line, failure, err := signalled(t, sig, "token", with(flags, append(command, "--watch", "--interval=100ms")...)...)
			exit := (*exec.ExitError)(nil)
			require.ErrorAs(t, err, &exit)
			require.Equal(t, code, exit.ExitCode())
			require.Empty(t, failure)
			require.NotContains(t, line, "\x1b")
			if strings.Contains(strings.Join(command, " "), "--json") {
				require.True(t, json.Valid([]byte(line)), line)
			}
		}
	}
}

func TestWatch_GoesOnWhileThereIsNoQuorum(t *testing.T) {
	on, flags := real5(t)
	each(on[:3], (*testredis.Process).Stop)
	cmd := toolProgram(with(flags, "inspect", "name", "--watch", "--interval=100ms")...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }() // has ended, as a rule
	lines := bufio.NewScanner(out)
	until := func(text string) {
		for lines.Scan() && !strings.HasPrefix(lines.Text(), text) {
		}
		require.True(t, strings.HasPrefix(lines.Text(), text), "never printed %q", text)
	}
	until("Unknown: 2 of 5 nodes answered")
	each(on[:3], (*testredis.Process).Start)
	until("Held by nobody: nothing on 5.")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_, _ = io.Copy(io.Discard, out) // up to its end
	require.Error(t, cmd.Wait())
	require.Equal(t, 143, cmd.ProcessState.ExitCode())
}
