package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// typist is a shell with the completion of the tool, on a terminal. Its redlock writes its arguments to a file.
type typist struct {
	*terminalProgram
	args, canary string
}

func newTypist(t *testing.T, servers []*testredis.Process, shell string, flags ...string) *typist {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Skip("not installed: ", shell)
	}
	dir := t.TempDir()
	y := &typist{args: filepath.Join(dir, "args"), canary: filepath.Join(dir, "canary")}
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = __names ] || [ \"$1\" = completion ] || { printf '%%s\\n' \"$@\" >%[1]s.new; mv %[1]s.new %[1]s; exit; }\nexec %[2]s \"$@\"\n", y.args, os.Args[0])
	require.NoError(t, os.WriteFile(filepath.Join(dir, "redlock"), []byte(script), 0o755))
	home, err := os.MkdirTemp("", "home")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(home) }) // fish may still write there
	cmd := exec.Command(path, flags...)
	cmd.Dir = dir
	cmd.Env = toolEnv(servers, "PATH="+dir+":/usr/bin:/bin", "HOME="+home, "PS1=prompt> ", "TERM=xterm", "HISTFILE=", "LC_ALL=C.UTF-8")
	y.terminalProgram = startOnTerminal(t, cmd)
	return y
}

// completes requires that the command gets some arguments if the line is completed, and that nothing else was run. On a machine that is
// busy the nodes may have no time to answer: then nothing is offered, and the line is typed again.
func (y *typist) completes(line string, want ...string) {
	y.t.Helper()
	var args []byte
	for range 10 {
		_ = os.Remove(y.args)
		y.press(line + "\t\r")
		require.Eventually(y.t, func() (found bool) {
			var err error
			args, err = os.ReadFile(y.args)
			return err == nil
		}, runPatience, 5*time.Millisecond, line)
		require.NoFileExists(y.t, y.canary)
		if string(args) == strings.Join(want, "\n")+"\n" {
			return
		}
	}
	assert.Fail(y.t, "it completes otherwise", "%s: %q, not %q", line, args, want)
}

// Names are what others have put on the nodes.
func TestCompletion_OffersNamesOfLocksThatNoShellRuns(t *testing.T) {
	servers := three(t)
	names := []string{
		"plain", "with:colon=x", "two words", `quo"te's`, "$(touch canary)", "`touch canary`", "x;touch canary", "x|touch canary&",
		"$HOME", "*", "!!", `back\slash`, "#x", "ünï", "{a,b}", "(touch canary)", "<canary", ">canary", "%q%s", "[a]", "=ls", "a^b",
	}
	for i, name := range names {
		do(t, servers, "SET", fmt.Sprintf("p%d:%s", i, name), "token", "PX", eternity.Milliseconds())
	}
	for shell, start := range map[string]struct {
		flags []string
		setup string
	}{
		"bash": {[]string{"--norc", "--noprofile", "-i"}, "source <(redlock completion bash); echo rea''dy\r"},
		"zsh":  {[]string{"-f", "-i"}, "autoload -U compinit; compinit -u -D; source <(redlock completion zsh); echo rea''dy\r"},
		"fish": {[]string{"--private"}, "redlock completion fish | source; echo rea''dy\r"},
	} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			y := newTypist(t, servers, shell, start.flags...)
			y.press(start.setup)
			y.expect("ready")
			for i, name := range names {
				flag := fmt.Sprintf("--key-prefix=p%d:", i)
				y.completes("redlock inspect "+flag+" ", "inspect", flag, name)
			}
			y.completes("redlock inspect --key-prefix p1: with:co", "inspect", "--key-prefix", "p1:", "with:colon=x")
			y.completes("redlock run -n --key-prefix=p0: p", "run", "-n", "--key-prefix=p0:", "plain")
			y.completes(`redlock inspect --key-prefix=p2: two\ w`, "inspect", "--key-prefix=p2:", "two words")
			y.completes("redlock inspect --key-prefix=p0: other", "inspect", "--key-prefix=p0:", "other") // as it was typed
		})
	}
}

// offered returns the names that scripts get for a line.
func offered(t *testing.T, words ...string) []string {
	t.Helper()
	_, out, _ := call(t.Context(), append([]string{completeNames}, words...)...)
	return strings.Fields(out)
}

func TestCompletion_OffersNamesWhereOneIsDue(t *testing.T) {
	servers := three(t)
	nodes := "--nodes=" + strings.Join(testredis.URLs(servers), ",")
	for _, name := range []string{"a1", "a2", "b", "-n", "~root", "new\nline", "\x1b[31m", "no\xffutf8"} {
		do(t, servers, "SET", name, "token", "PX", eternity.Milliseconds())
	}
	do(t, servers, "HSET", "data", "of", "another program")
	config := filepath.Join(t.TempDir(), "redlock.json")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `{"nodes": ["%s"], "ttl": "1m"}`, strings.Join(testredis.URLs(servers), `","`)), 0o600))
	all, none := []string{"a1", "a2", "b"}, []string{}
	for line, want := range map[string][]string{
		"inspect NODES ":                       all,
		"unlock NODES ":                        all,
		"extend NODES --token x ":              all,
		"release NODES ":                       all,
		"try NODES --json ":                    all,
		"run NODES -n -E 0 --ttl 1m ":          all,
		"run --config CONFIG a":                {"a1", "a2"},
		"inspect NODES a":                      {"a1", "a2"},
		"inspect NODES c":                      none,
		`inspect NODES "a`:                     all, // the shell chooses
		"inspect NODES a1 ":                    none,
		"run NODES a1 -- ":                     none,
		"extend NODES --token ":                none,
		"list NODES ":                          none,
		"bench ":                               none,
		"":                                     none,
		"nothing ":                             none,
		"inspect ":                             none, // no nodes
		"inspect --nodes=redis://localhost:1 ": none,
	} {
		words := strings.Split(strings.NewReplacer("NODES", nodes, "CONFIG", config).Replace(line), " ")
		require.Equal(t, want, offered(t, words...), line)
	}
	require.Equal(t, none, offered(t))
}
