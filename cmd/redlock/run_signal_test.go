//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

func TestRun_ForwardsSignals(t *testing.T) {
	servers := three(t)
	p := runTool(t, servers, "job", "--", "sh", "-c", `
		for sig in INT TERM HUP QUIT USR1 USR2 WINCH; do trap "echo got $sig" $sig; done
		echo ready
		while ! read -r line; do :; done
		exit 9`)
	p.says("ready")
	for name, sig := range map[string]syscall.Signal{
		"INT": unix.SIGINT, "TERM": unix.SIGTERM, "HUP": unix.SIGHUP, "QUIT": unix.SIGQUIT,
		"USR1": unix.SIGUSR1, "USR2": unix.SIGUSR2, "WINCH": unix.SIGWINCH,
	} {
		p.signal(sig)
		p.says("got " + name)
	}
	p.enter("end")
	assert.Equal(t, 9, p.code())
	requireFree(t, servers, "job")
}

func TestRun_ReportsTheSignalThatEndedTheCommand(t *testing.T) {
	servers := three(t)
	for _, sig := range []syscall.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2} {
		p := runTool(t, servers, "job", "--", "sh", "-c", "ulimit -c 0; echo ready; exec cat")
		p.says("ready")
		p.signal(sig)
		assert.Equal(t, 128+int(sig), p.code())
		p.event("released")
	}
}

// A user who sends TERM leaves it to the command how long it takes to end.
func TestRun_DoesNotKillACommandThatTakesItsTimeAfterTheUsersTerm(t *testing.T) {
	servers := three(t)
	p := runTool(t, servers, "--ttl=2s", "--kill-after=0", "job", "--", "sh", "-c",
		`trap "echo got TERM" TERM; echo ready; while ! read -r line; do :; done; exit 4`)
	p.says("ready")
	p.signal(unix.SIGTERM)
	p.says("got TERM")
	renewals(p, 3)
	p.enter("end")
	assert.Equal(t, 4, p.code())
}

// renewals waits for further renewals of the lock.
func renewals(p *process, n int) {
	p.t.Helper()
	seen := func() (n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, line := range p.lines["err"] {
			if len(line) > 20 && line[:19] == `{"event":"renewed",` {
				n++
			}
		}
		return n
	}
	begin := seen()
	require.Eventually(p.t, func() bool { return seen() >= begin+n }, runPatience, 10*time.Millisecond)
}

func TestRun_PassesTheUsersSignalsToTheCommandAlone(t *testing.T) {
	servers := three(t)
	p := runTool(t, servers, "job", "--", "sh", "-c", `
		trap "echo got USR1" USR1
		sleep 1000 &
		echo ready
		while ! read -r line; do :; done
		kill $!; wait $!; echo ended with $?; exit 3`)
	p.says("ready")
	p.signal(unix.SIGUSR1)
	p.says("got USR1")
	p.enter("end")
	p.says("ended with 143") // by TERM, and not by USR1
	assert.Equal(t, 3, p.code())
}

func TestRun_SignalsEndTheWait(t *testing.T) {
	servers := three(t)
	first := holding(t, servers)
	for _, sig := range []syscall.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT} {
		p := runTool(t, servers, "job", "echo", "ran")
		p.event("waiting")
		p.signal(unix.SIGUSR1) // there is nobody whom it could concern
		p.signal(sig)
		assert.Equal(t, 128+int(sig), p.code())
		assert.Empty(t, p.lines["out"])
	}
	first.endsWith(0)
	requireFree(t, servers, "job")
}

// runReading starts redlock run with a flag that names a file, and returns when a process of it reads that, which goes on until
// the writer is closed.
func runReading(t *testing.T, servers []*testredis.Process, flag string) (*process, *os.File) {
	t.Helper()
	path := t.TempDir() + "/file"
	require.NoError(t, unix.Mkfifo(path, 0o600))
	p := runTool(t, servers, flag+"="+path, "job", "cat")
	w, err := os.OpenFile(path, os.O_WRONLY, 0) // returns when somebody reads
	require.NoError(t, err)
	return p, w
}

// The tool reads its configuration before it catches all signals.
func TestRun_ASignalAtTheVeryBeginningEndsIt(t *testing.T) {
	servers := three(t)
	for _, sig := range []syscall.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		p, w := runReading(t, servers, "--config")
		p.signal(sig)
		_, err := w.WriteString("{}")
		require.NoError(t, err)
		require.NoError(t, w.Close())
		assert.Equal(t, 128+int(sig), p.code())
		for _, line := range p.lines["err"] {
			assert.NotContains(t, line, "error: ")
		}
	}
	requireFree(t, servers, "job")
}

// The tool reads the password before it takes the lock.
func TestRun_ASignalEndsItBeforeItTakesTheLock(t *testing.T) {
	servers := three(t)
	for _, sig := range []syscall.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		p, w := runReading(t, servers, "--password-file")
		p.signal(sig)
		assert.Equal(t, 128+int(sig), p.code())
		assert.Empty(t, p.exits().Error)
		require.NoError(t, w.Close())
	}
}

func TestRun_UnderNohupSurvivesAHangup(t *testing.T) {
	servers := three(t)
	tool := toolCommand(servers)
	cmd := exec.Command("sh", "-c", `trap "" HUP; exec "$0" run --json job -- sh -c 'kill -HUP $$; echo ready; cat; exit 6'`, os.Args[0])
	cmd.Env = tool.Env
	p := start(t, cmd)
	p.says("ready")
	p.signal(unix.SIGHUP)
	p.endsWith(6)
}

func TestRun_EndsWhatTheCommandLeavesBehind(t *testing.T) {
	servers := three(t)
	for name, test := range map[string]struct{ flag, script string }{
		"TERM ends it":         {"--kill-after=14s", `sleep 1000 & exit 5`},
		"it ignores TERM":      {"--kill-after=300ms", `trap "" TERM; sleep 1000 & exit 5`},
		"it is not even asked": {"--kill-after=0", `trap "" TERM; sleep 1000 & exit 5`},
		"it is stopped":        {"--kill-after=14s", `sleep 1000 & kill -STOP $!; exit 5`},
		"several generations":  {"--kill-after=14s", `(sh -c "sleep 1000 & sleep 1000" & sleep 1000) & exit 5`},
	} {
		p := runTool(t, servers, test.flag, "job", "--", "sh", "-c", "exec >/dev/null 2>&1; "+test.script)
		group := p.event("started").PID
		p.event("released")
		requireDead(t, group)
		assert.Equal(t, 5, p.code(), name)
		assert.Equal(t, group, p.event("left").PID, name)
		assert.NotZero(t, p.event("left").Processes, name)
	}
}

func TestRun_SaysWhatTheCommandHasLeftBehind(t *testing.T) {
	servers := three(t)
	const quiet = "exec >/dev/null 2>&1; "
	p := start(t, toolCommand(servers, "run", "job", "--", "sh", "-c", quiet+"sleep 1000 & sleep 1000 & exit 5"))
	assert.Equal(t, 5, p.code())
	require.Len(t, p.lines["err"], 1)
	assert.Regexp(t, `^redlock: the command has left 2 processes of its group \d+, which are ended now: `, p.lines["err"][0])

	p = runTool(t, servers, "job", "--", "sh", "-c", quiet+"sleep 0 & wait; exit 5")
	assert.Equal(t, 5, p.code())
	assert.False(t, p.happened("left"), "nothing is left")

	p = runTool(t, servers, "job", "--", "sh", "-c", "sleep 1000 & echo ready; exec cat")
	p.says("ready")
	p.signal(unix.SIGTERM)
	assert.Equal(t, 143, p.code())
	assert.False(t, p.happened("left"), "all of it was asked to end")
}

// The process that has ended stays in the group, as its parent has left that and never asks how it has ended.
func TestRun_DoesNotWaitForAProcessThatHasEndedAndIsNotReaped(t *testing.T) {
	servers := testredis.Real(t, 3)
	p := runTool(t, servers, "--kill-after=200ms", "--descendants=ignore", "job", "--", "sh", "-c",
		`exec 3>&1 >/dev/null 2>&1; (sleep 0 3>&- & exec setsid sleep 1000 3>&-) & echo $! >&3; while ! read -r line; do :; done; exit 5`)
	var parent int
	p.line("out", "number", func(line string) bool { _, err := fmt.Sscan(line, &parent); return err == nil })
	t.Cleanup(func() { _ = unix.Kill(parent, unix.SIGKILL) })
	group := p.event("started").PID
	eventually(t, func() bool {
		for _, s := range processes() {
			if s.parent == parent && s.group == group && s.state == "Z" {
				return true
			}
		}
		return false
	}, "no zombie")
	p.enter("end")
	p.event("released")
	assert.Equal(t, 5, p.code())
}

func TestRun_FrontKilledEndsTheCommandAndReleasesTheLock(t *testing.T) {
	servers := three(t)
	p := runTool(t, servers, "job", "--", "sh", "-c", `trap "" TERM INT HUP; sleep 1000 & echo ready; wait; sleep 1000`)
	p.says("ready")
	group, holder := p.event("started").PID, p.holder()
	p.signal(unix.SIGKILL)
	p.event("released")
	requireDead(t, group)
	requireFree(t, servers, "job")
	eventually(t, func() bool { s := stateOf(holder); return s == "" || s == "Z" }, "the holder is left")
}

func TestRun_FrontKilledWhileItWaitsTakesNoLock(t *testing.T) {
	servers := three(t)
	first := holding(t, servers)
	p := runTool(t, servers, "job", "echo", "ran")
	p.event("waiting")
	p.signal(unix.SIGKILL)
	p.code()
	first.endsWith(0)
	requireFree(t, servers, "job")
	assert.Empty(t, p.lines["out"])
}

func TestRun_HolderKilledEndsTheCommand(t *testing.T) {
	servers := three(t)
	p := runTool(t, servers, "--on-lost=warn", "job", "--", "sh", "-c", `trap "" TERM INT HUP; sleep 1000 & echo ready; wait; sleep 1000`)
	p.says("ready")
	group := p.event("started").PID
	require.NoError(t, unix.Kill(p.holder(), unix.SIGKILL))
	assert.Equal(t, exitInternal, p.code())
	requireDead(t, group)
	p.complains("the process that held the lock was killed")
}

// As process 1 of a container, the tool gets the orphans of all programs in it; here, children of the shell whose process it becomes.
func TestRun_ReapsStraysWhileTheCommandRuns(t *testing.T) {
	servers := three(t)
	cmd := exec.Command("sh", "-c", `true & true & exec "$@"`, "sh", os.Args[0], "run", "--json", "--ttl=2s", "job", "--", "sh", "-c", "cat; exit 8")
	cmd.Env = toolEnv(servers)
	p := start(t, cmd)
	p.event("started")
	eventually(t, func() bool {
		return !slices.ContainsFunc(processes(), func(s stat) bool { return s.parent == cmd.Process.Pid && s.state == "Z" })
	}, "strays are left")
	p.endsWith(8)
}

func TestRun_HolderDisregardsSignalsThatAreNotFromTheFront(t *testing.T) {
	servers := three(t)
	p := runTool(t, servers, "job", "--", "sh", "-c", "echo ready; cat; exit 8")
	p.says("ready")
	for _, sig := range []unix.Signal{
		unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE,
	} {
		require.NoError(t, unix.Kill(p.holder(), sig))
	}
	renewals(p, 1)
	p.endsWith(8)
	p.event("released")
}

func eventually(t *testing.T, condition func() bool, message string) {
	t.Helper()
	require.Eventually(t, condition, runPatience, 20*time.Millisecond, message)
}
