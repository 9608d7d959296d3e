//go:build unix

package main

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// A full disk must not look like an empty list.
func TestOutput_ThatCannotBeWrittenIsAFailure(t *testing.T) {
	on, flags := real5(t)
	token := strings.TrimSpace(succeed(t, flags, "try", "held", "--ttl=1h"))
	eventuallyHeld(t, on, "held", token)
	commands := map[string][]string{
		"help":           {"help"},
		"help, no words": {},
		"help, command":  {"list", "--help"},
		"version":        {"version"},
		"man":            {"man"},
		"completion":     {"completion", "bash"},
		"demo":           {"demo"},
		"bench":          {"bench", flags[0], "--duration=10ms", "--warm-up=0", "--callers=1", "--timeout=1s"},
	}
	for name, args := range map[string][]string{ // which need the flags for servers
		"list":          {"list"},
		"list, JSON":    {"list", "--json"},
		"list again":    {"list", "--watch", "--interval=1h"},
		"inspect":       {"inspect", "held"},
		"inspect, JSON": {"inspect", "held", "--json"},
		"inspect again": {"inspect", "held", "--watch", "--interval=1h"},
		"doctor":        {"doctor", "--only=count"},
		"doctor, JSON":  {"doctor", "--only=count", "--json"},
		"try":           {"try", "free"},
		"try, JSON":     {"try", "free", "--json"},
		"extend":        {"extend", "held", "--token=" + token},
		"unlock":        {"unlock", "held", "--force", "--yes"},
		"nothing":       {"unlock", "free", "--force", "--yes"},
		"web":           {"web", "--listen=127.0.0.1:0"},
	} {
		commands[name] = with(flags, args...)
	}
	for name, args := range commands {
		t.Run(name, func(t *testing.T) {
			for why, want := range map[syscall.Errno]struct {
				code int
				text string
			}{
				syscall.ENOSPC: {exitOutput, "the output could not be written: no space left on device"},
				syscall.EPIPE:  {exitSignal + int(syscall.SIGPIPE), ""}, // as of a program that SIGPIPE ends
			} {
				var problems bytes.Buffer
				code := run(t.Context(), args, streams{failingWriter{why}, &problems})
				require.Equal(t, want.code, code, problems.String())
				require.Contains(t, problems.String(), want.text)
				require.Equal(t, min(1, len(want.text)), strings.Count(problems.String(), "\n"), problems.String())
			}
		})
	}
	require.Equal(t, []string{token, token, token, token, token}, values(t, on, "held"), "nobody saw what unlock would remove")
	eventuallyHeld(t, on, "free", "")
}

func TestOutput_ThatIsLostDoesNotHideAFailureOfTheCommand(t *testing.T) {
	on, flags := real5(t)
	each(on[:3], (*testredis.Process).Stop)
	const lost = "the output could not be written: no space left on device\n"
	for name, test := range map[string]struct {
		args []string
		code int
	}{
		"list":    {[]string{"list"}, exitUnavailable},
		"inspect": {[]string{"inspect", "name"}, exitUnavailable},
		"doctor":  {[]string{"doctor", "--only=reachable"}, exitFaults},
	} {
		var problems bytes.Buffer
		require.Equal(t, test.code, run(t.Context(), with(flags, test.args...), streams{failingWriter{syscall.ENOSPC}, &problems}), name)
		require.True(t, strings.HasSuffix(problems.String(), lost), "%s: %s", name, &problems)
		problems.Reset()
		require.Equal(t, test.code, run(t.Context(), with(flags, test.args...), streams{failingWriter{syscall.EPIPE}, &problems}), name)
		require.NotContains(t, problems.String(), "output", name)
	}
}

// As a process, on a device that is full and on a pipe that nobody reads.
func TestOutput_OfAProcess(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no device that is always full: ", err)
	}
	defer full.Close()
	r, unread, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	defer unread.Close()
	for _, args := range [][]string{{"version"}, {"man"}, {"list", "--help"}} {
		for to, want := range map[*os.File]struct {
			code int
			text string
		}{
			full:   {exitOutput, "redlock: error: the output could not be written: write /dev/stdout: no space left on device\n"},
			unread: {exitSignal + int(syscall.SIGPIPE), ""},
		} {
			cmd := toolProgram(args...)
			var problems bytes.Buffer
			cmd.Stdout, cmd.Stderr = to, &problems
			require.Error(t, cmd.Run())
			require.Equal(t, want.code, cmd.ProcessState.ExitCode(), args)
			require.Equal(t, want.text, problems.String(), args)
		}
	}
}
