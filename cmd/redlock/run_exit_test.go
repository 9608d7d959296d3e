//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

func TestRun_ExitsAsTheCommandDoesAndReleasesTheLock(t *testing.T) {
	servers := three(t)
	for script, want := range map[string]int{
		"exit 0":        0,
		"exit 7":        7,
		"exit 255":      255,
		"kill -KILL $$": 137,
		"kill -USR1 $$": 138,
	} {
		p := runTool(t, servers, "job", "--", "sh", "-c", script)
		assert.Equal(t, want, p.code(), script)
		p.event("released")
		assert.Equal(t, want, *p.event("exit").Code)
		assert.Zero(t, keys(t, servers, "job"))
	}
}

// As flock(1) has it.
func TestRun_GivesAStringToTheShell(t *testing.T) {
	servers := three(t)
	for name, args := range map[string][]string{
		"behind the name":        {"job", "-c", "echo $0 $REDLOCK_NAME | cat; exit 7"},
		"before it":              {"-c", "echo $0 $REDLOCK_NAME | cat; exit 7", "job"},
		"in the long form":       {"job", "--command", "echo $0 $REDLOCK_NAME | cat; exit 7"},
		"with a shared lock":     {"--shared", "job", "-c", "echo $0 $REDLOCK_NAME | cat; exit 7"},
		"with a slot":            {"--slots=2", "job", "-c", "echo $0 $REDLOCK_NAME | cat; exit 7"},
		"with several names":     {"--also=b", "job", "-c", "echo $0 $REDLOCK_NAME | cat; exit 7"},
		"for a command's own -c": {"job", "/bin/sh", "-c", "echo $0 $REDLOCK_NAME | cat; exit 7"},
	} {
		t.Run(name, func(t *testing.T) {
			p := runTool(t, servers, args...)
			p.says("/bin/sh job")
			require.Equal(t, 7, p.code())
		})
	}
	require.Zero(t, runTool(t, servers, "job", "-c", "").code())
	code, _, problem := call(t.Context(), "run", "--nodes=redis://127.0.0.1:1", "job", "--", "-c", "true")
	require.Equal(t, exitNotFound, code, problem)
}

func TestRun_HoldsTheLockWhileTheCommandRuns(t *testing.T) {
	servers := three(t)
	p := runTool(t, servers, "--key-prefix=lock:", "job", "cat")
	p.event("started")
	assert.GreaterOrEqual(t, keys(t, servers, "lock:job"), 2)
	p.endsWith(0)
	requireFree(t, servers, "lock:job")
}

func TestRun_HoldsSeveralLocksAllOrNone(t *testing.T) {
	servers := three(t)
	p := runTool(t, servers, "--fencing", "--also=b", "--also", "a,c", "job", "cat")
	p.event("started")
	for _, name := range []string{"job", "b", "a,c"} {
		assert.GreaterOrEqual(t, keys(t, servers, name), 2, name)
	}
	denied := runTool(t, servers, "-n", "--also=b", "other", "true")
	assert.Equal(t, exitTaken, denied.code())
	assert.Contains(t, denied.event("exit").Error, `"b"`)
	requireFree(t, servers, "other")
	waiting := runTool(t, servers, "--at-least=1h", "--also=b", "other", "sh", "-c", "echo $REDLOCK_NAME")
	assert.Contains(t, waiting.event("blocked").Holder, "pid")
	assert.Equal(t, "b", waiting.event("blocked").Lock)
	p.endsWith(0)
	for _, name := range []string{"job", "a,c"} {
		requireFree(t, servers, name)
	}
	waiting.says("other")
	assert.Zero(t, waiting.code())
	waiting.event("kept")
	for _, name := range []string{"other", "b"} {
		assert.GreaterOrEqual(t, keys(t, servers, name), 2, name)
	}
}

func TestRun_SharedRunsBesideOthersThatAreShared(t *testing.T) {
	servers := three(t)
	first := runTool(t, servers, "--shared", "--metadata=first", "job", "cat")
	first.event("started")
	second := runTool(t, servers, "--shared", "-n", "job", "cat")
	second.event("started")
	denied := runTool(t, servers, "-n", "job", "true")
	assert.Equal(t, exitTaken, denied.code())
	writer := runTool(t, servers, "job", "sh", "-c", "echo $REDLOCK_NAME")
	assert.Equal(t, "2 readers", writer.event("blocked").Holder)
	late := runTool(t, servers, "--shared", "-n", "job", "true")
	assert.Equal(t, exitTaken, late.code(), "a writer waits")
	first.endsWith(0)
	second.endsWith(0)
	writer.says("job")
	assert.Zero(t, writer.code())
	requireFree(t, servers, "job")
}

func TestRun_AtMostSoManyWithSlotsRunAtATime(t *testing.T) {
	servers := three(t)
	first := runTool(t, servers, "--slots=2", "job", "cat")
	first.event("started")
	second := runTool(t, servers, "--slots=2", "-n", "job", "cat")
	second.event("started")
	for _, args := range [][]string{{"--slots=2", "-n", "job", "true"}, {"-n", "job", "true"}, {"--shared", "-n", "job", "true"}} {
		assert.Equal(t, exitTaken, runTool(t, servers, args...).code(), args)
	}
	third := runTool(t, servers, "--slots=2", "job", "sh", "-c", "echo $REDLOCK_NAME")
	assert.Equal(t, "2 slots", third.event("blocked").Holder)
	first.endsWith(0)
	third.says("job")
	assert.Zero(t, third.code())
	second.endsWith(0)
	requireFree(t, servers, "job")
}

func TestRun_EndsTheCommandWhenItsReadLockIsLost(t *testing.T) {
	servers := three(t)
	p := runTool(t, servers, "--shared", "job", "cat")
	token := p.event("acquired").Token
	p.event("started")
	for _, s := range servers {
		_, err := s.Do("ZREM", "{job}:sharers", token)
		require.NoError(t, err)
		_, err = s.Do("DEL", "job")
		require.NoError(t, err)
	}
	p.event("lost")
	assert.Equal(t, exitLost, p.code())
}

// Whatever the command does without one of its locks it may do beside another holder.
func TestRun_EndsTheCommandWhenOneOfItsLocksIsLost(t *testing.T) {
	servers := three(t)
	p := runTool(t, servers, "--also=b", "job", "cat")
	p.event("started")
	for _, s := range servers {
		_, err := s.Do("DEL", "b")
		require.NoError(t, err)
	}
	assert.Equal(t, "b", p.event("lost").Lock)
	assert.Equal(t, exitLost, p.code())
	assert.Contains(t, p.event("exit").Error, `the lock "b" was lost`)
	requireFree(t, servers, "job")
}

func TestRun_PassesStdinStdoutAndStderrThrough(t *testing.T) {
	servers := three(t)
	cmd := toolCommand(servers, "run", "job", "--", "sh", "-c", "cat; echo problem >&2")
	cmd.Stdin = strings.NewReader(strings.Repeat("0123456789", 100_000))
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	require.NoError(t, err)
	assert.Equal(t, strings.Repeat("0123456789", 100_000), string(out))
	assert.Equal(t, "problem\n", problems.String())
}

// The command must not find out that redlock is there: its files, signals and limits are those that redlock was started with.
func TestRun_CommandInheritsWhatRedlockHas(t *testing.T) {
	servers := three(t)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("content of file 3"), 0o600))
	const report = `cat <&3; echo; cat /dev/fd/9 <&9; umask; ulimit -n; ulimit -c; pwd; ls -l /proc/self/fd | wc -l; ` +
		`grep -E "^Sig(Ign|Blk|Cgt)" /proc/self/status; echo "$0" "$@"`
	script := `trap "" HUP; ulimit -S -n 200; umask 027; exec 3<"$FILE" 9</dev/null; "$@" sh -c '` + report + `' name -- "a b" --help`
	output := func(args ...string) string {
		cmd := exec.Command("sh", append([]string{"-c", script, "sh"}, args...)...)
		cmd.Env = append(toolEnv(servers), "FILE="+file)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	want := output("env")
	require.Contains(t, want, "content of file 3")
	require.Contains(t, want, `name -- a b --help`)
	assert.Equal(t, want, output(os.Args[0], "run", "job", "--"))
	assert.Equal(t, want, output(os.Args[0], "run", "-n", "--ttl=20s", "job"))
}

// Names of files are bytes, and need not be UTF-8.
func TestRun_DoesNotChangeTheCommand(t *testing.T) {
	servers := testredis.Real(t, 3)
	program := filepath.Join(t.TempDir(), "pro\xffgram")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\nprintf '<%s>' \"${0##*/}\" \"$@\""), 0o755))
	args := []string{"--", "\xff\xfe", "", "-n", "--ttl=\x80", "--json", "-E", "--", "a=b", "ü\xc3", "--"}
	for _, before := range [][]string{{"job", "--"}, {"job"}, {"--ttl=20s", "--", "job"}, {"-n", "job"}, {"-w5s", "--", "job", "--"}} {
		out, err := toolCommand(servers, slices.Concat([]string{"run"}, before, []string{program}, args)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Equal(t, "<pro\xffgram><"+strings.Join(args, "><")+">", string(out), before)
	}
}

func TestRun_TellsTheCommandAboutTheLock(t *testing.T) {
	servers := three(t)
	began, last := time.Now().Unix(), uint64(0)
	for _, flags := range [][]string{nil, {"--fencing"}, {"--fencing"}} { // which numbers the holders
		p := runTool(t, servers, append(flags, "--ttl=20s", "job", "--", "sh", "-c",
			`echo "$REDLOCK_NAME $REDLOCK_TOKEN $REDLOCK_FENCE"; echo "until $REDLOCK_DEADLINE"`)...)
		require.Zero(t, p.code())
		acquired := p.event("acquired")
		p.says(fmt.Sprintf("job %s %d", acquired.Token, acquired.Fence))
		assert.Equal(t, flags != nil, acquired.Fence > last)
		last = acquired.Fence
		line := p.line("out", "until", func(line string) bool { return strings.HasPrefix(line, "until") })
		deadline, err := strconv.ParseInt(strings.TrimPrefix(line, "until "), 10, 64)
		require.NoError(t, err)
		assert.Greater(t, deadline, began)
		assert.LessOrEqual(t, deadline, time.Now().Unix()+20)
	}
}

func TestRun_KeepsSecretsFromTheCommand(t *testing.T) {
	t.Parallel()
	const password = "geheim"
	servers := testredis.Real(t, 3, "--requirepass", password)
	var urls []string
	for _, s := range servers {
		urls = append(urls, "redis://:"+password+"@"+s.Addr())
	}
	for name, env := range map[string][]string{
		"in the URLs": {"REDLOCK_NODES=" + strings.Join(urls, ",")},
		"by itself":   {"REDLOCK_USERNAME=default", "REDLOCK_PASSWORD=" + password},
	} {
		cmd := toolCommand(servers, "run", "--verbose", "job", "--", "sh", "-c", "env; echo all of it")
		cmd.Env = append(cmd.Env, env...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
		assert.Contains(t, string(out), "all of it", name)
		assert.NotContains(t, string(out), password, name)
		assert.NotContains(t, string(out), "REDLOCK_NODES", name)
		assert.NotContains(t, string(out), "REDLOCK_HOLDER", name)
	}
}

// Both processes need the flags, and a configuration such as --config <(vault read ...) can be read once.
func TestRun_ReadsItsConfigurationOnce(t *testing.T) {
	servers := three(t)
	cmd := toolCommand(nil, "run", "--config=/dev/stdin", "job", "--", "echo", "done")
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"nodes": ["%s"], "ttl": "20s"}`, strings.Join(testredis.URLs(servers), `", "`)))
	cmd.Env = append(os.Environ(), mainEnv+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, "done\n", string(out))
}

func TestRun_DoesNotWaitIfItIsTold(t *testing.T) {
	servers := three(t)
	first := runTool(t, servers, "--metadata=the first", "job", "cat")
	first.event("started")
	for name, test := range map[string]struct {
		flags []string
		want  int
	}{
		"-n":                 {[]string{"-n"}, exitTaken},
		"a wait of 0":        {[]string{"-w", "0"}, exitTaken},
		"a wait":             {[]string{"-w", "1500ms"}, exitTaken},
		"another exit code":  {[]string{"--nonblock", "-E", "3"}, 3},
		"exit code 0":        {[]string{"--nonblock", "--conflict-exit-code=0"}, 0},
		"behind the name":    {[]string{"job", "-n", "--"}, exitTaken},
		"without separation": {[]string{"job", "-n"}, exitTaken},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"run"}, test.flags...)
			if args[1] != "job" {
				args = append(args, "job", "--")
			}
			p := start(t, toolCommand(servers, append(args, "echo", "ran")...))
			assert.Equal(t, test.want, p.code())
			assert.Empty(t, p.lines["out"])
			if test.want == exitTaken {
				p.complains(`the lock "job" is held by "the first"; see: redlock inspect --nodes redis://`)
			} else {
				assert.Empty(t, p.lines["err"])
			}
			if name == "a wait" {
				p.complains(`waiting for the lock "job", which is held by "the first"`)
			}
		})
	}
	first.endsWith(0)
}

func TestRun_WaitsUntilTheLockIsFree(t *testing.T) {
	servers := three(t)
	first := holding(t, servers)
	second := runTool(t, servers, "job", "echo", "second")
	assert.NotEmpty(t, second.event("blocked").Holder)
	assert.False(t, second.happened("acquired"))
	require.NoError(t, first.stdin.Close())
	assert.Zero(t, second.code())
	second.says("second")
}

func TestRun_QuotesWhatOthersWrote(t *testing.T) {
	servers := three(t)
	first := runTool(t, servers, "job", "cat")
	token := first.event("acquired").Token
	do(t, servers, "SET", "job", token[:37]+":\x1b]0;title\a\u009b31m", "PX", "60000")
	p := start(t, toolCommand(servers, "run", "--wait=1500ms", "job", "true"))
	assert.Equal(t, exitTaken, p.code())
	line := p.complains("waiting for the lock")
	assert.NotContains(t, line, "\x1b")
	assert.NotContains(t, line, "\u009b")
	assert.Contains(t, line, `\x1b]0;title`)
}

func TestRun_FailsWithoutTheLock(t *testing.T) {
	servers := three(t)
	do(t, servers, "LPUSH", "data", "of another program")
	for _, test := range []struct {
		flags []string
		name  string
		code  int
		text  string
	}{
		{[]string{"-n", "--restart-guard=1h"}, "job", exitUnavailable, "quarantined: the server may have forgotten locks"},
		{[]string{"-n"}, "data", exitUsage, inTheWay()},
		{[]string{"-n"}, strings.Repeat("long", 1000), exitUsage, "name"},
		{[]string{"-n"}, "job", exitUnavailable, servers[0].Addr()}, // from here on two nodes are down
		{[]string{"--wait=1500ms"}, "job", exitUnavailable, servers[0].Addr()},
	} {
		if test.text == servers[0].Addr() {
			servers[0].Stop()
			servers[1].Stop()
		}
		p := runTool(t, servers, append(test.flags, test.name, "echo", "ran")...)
		assert.Equal(t, test.code, p.code())
		assert.Empty(t, p.lines["out"])
		assert.Contains(t, p.event("exit").Error, test.text)
	}
}

// None of the nodes exists, so that any attempt to connect would fail with another code.
func TestRun_LooksForTheProgramBeforeItConnects(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "data"), []byte("no program"), 0o644))
	t.Setenv("PATH", dir)
	for program, want := range map[string]int{
		"data":          126,
		dir + "/data":   126,
		dir:             126,
		"missing":       127,
		dir + "/absent": 127,
	} {
		code, _, problem := call(t.Context(), "run", "--nodes=redis://127.0.0.1:1", "-n", "job", "--", program)
		assert.Equal(t, want, code, program)
		assert.Contains(t, problem, filepath.Base(program))
	}
}

func TestRun_FindsOutLaterIfAProgramCannotBeRun(t *testing.T) {
	servers := three(t)
	dir := t.TempDir()
	for name, test := range map[string]struct {
		content string
		want    int
	}{
		"unusable interpreter": {"#!/etc/passwd\n", 126},
		"missing interpreter":  {"#!/missing/interpreter\n", 127},
		"script without #!":    {"test \"$1\" = argument && exit 42\n", 42},
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		require.NoError(t, os.WriteFile(path, []byte(test.content), 0o755))
		p := runTool(t, servers, "job", "--", path, "argument")
		assert.Equal(t, test.want, p.code(), name)
		assert.Zero(t, keys(t, servers, "job"), name)
	}
}

func TestRun_GoesOnIfItsEventsCannotBeWritten(t *testing.T) {
	servers := three(t)
	r, unread, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	defer unread.Close()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	for _, to := range []*os.File{unread, full} {
		for _, flag := range []string{"--verbose", "--json"} {
			cmd := toolCommand(servers, "run", flag, "job", "--", "sh", "-c", "read -r x; echo got $x; exit 6")
			cmd.Stderr, cmd.Stdin = to, strings.NewReader("it\n")
			out, err := cmd.Output()
			assert.ErrorContains(t, err, "exit status 6")
			assert.Equal(t, "got it\n", string(out))
		}
	}
}

func TestRun_AtLeastKeepsTheLock(t *testing.T) {
	servers := three(t)
	for script, want := range map[string]int{"exit 0": 0, "exit 3": 3} {
		p := runTool(t, servers, "--at-least=1h", "job", "--", "sh", "-c", script)
		require.Equal(t, want, p.code())
		p.event("kept")
		kept := 0
		for _, s := range servers {
			ttl, err := s.Do("PTTL", "job")
			require.NoError(t, err)
			if ttl.(int64) > time.Hour.Milliseconds()-60_000 {
				kept++
			}
			_, err = s.Do("DEL", "job")
			require.NoError(t, err)
		}
		assert.GreaterOrEqual(t, kept, 2)
	}
	p := runTool(t, servers, "--at-least=1ms", "job", "--", "cat")
	p.event("renewed") // at least 0.1 s after the acquire
	p.endsWith(0)
	requireFree(t, servers, "job")
}

func TestRun_WithinRun(t *testing.T) {
	servers := three(t)
	nodes := "--nodes=" + strings.Join(testredis.URLs(servers), ",")
	p := runTool(t, servers, "outer", "--", os.Args[0], "run", nodes, "inner", "--", "sh", "-c", "env | grep REDLOCK_NAME; cat; exit 5")
	p.says("REDLOCK_NAME=inner")
	assert.GreaterOrEqual(t, keys(t, servers, "outer"), 2)
	assert.GreaterOrEqual(t, keys(t, servers, "inner"), 2)
	p.endsWith(5)
	assert.NotContains(t, p.lines["out"], "REDLOCK_NAME=outer")
	requireFree(t, servers, "outer")
	requireFree(t, servers, "inner")
}
