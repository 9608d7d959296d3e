//go:build unix

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// colors matches what sets a color, or the cursor.
var colors = regexp.MustCompile("\x1b\\[[0-9;]*[mH]")

func TestWatch_PrintsBlocksToAPipeUntilInterrupted(t *testing.T) {
	on, flags := real5(t)
	do(t, on, "SET", "name", "token", "PX", eternity.Milliseconds())
	for _, command := range [][]string{{"inspect", "name"}, {"list"}, {"inspect", "name", "--json"}, {"list", "--json"}} {
		for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
			text := "token"
			line, failure, err := signalled(t, sig, text, with(flags, append(command, "--watch", "--interval=100ms")...)...)
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
	for _, s := range on[:3] {
		s.Stop()
	}
	cmd := exec.Command(os.Args[0], with(flags, "inspect", "name", "--watch", "--interval=100ms")...)
	cmd.Env = append(os.Environ(), mainEnv+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }() // has ended, as a rule
	lines := newLines(out)
	lines.until(t, "Unknown: 2 of 5 nodes answered")
	for _, s := range on[:3] {
		s.Start()
	}
	lines.until(t, "Held by nobody: nothing on 5.")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	lines.toTheEnd()
	require.Error(t, cmd.Wait())
	require.Equal(t, 143, cmd.ProcessState.ExitCode())
}
