//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

const (
	ctrlC = "\x03"
	ctrlD = "\x04"
	ctrlZ = "\x1a"
)

// openShell starts an interactive shell on a terminal.
func openShell(t *testing.T) (*terminalProgram, []*testredis.Process) {
	t.Helper()
	servers := three(t)
	path, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash: ", err)
	}
	cmd := exec.Command(path, "--norc", "--noprofile", "--noediting", "-i")
	cmd.Env = toolEnv(servers, "PS1=prompt> ", "TOOL="+os.Args[0], "HISTFILE=", "TERM=dumb")
	term := startOnTerminal(t, cmd)
	term.expect("prompt> ")
	term.enter("stty -echo; set -o pipefail")
	term.expect("prompt> ")
	return term, servers
}

// stop stops the job in the foreground.
func (term *terminalProgram) stop() {
	term.t.Helper()
	term.press(ctrlZ)
	term.expect("Stopped")
	term.expect("prompt> ")
}

// resume continues the job in the foreground, whose command line has a text.
func (term *terminalProgram) resume(line string) {
	term.t.Helper()
	term.enter("fg")
	term.expect(line)
}

// exited waits for the end of the job in the foreground, which has an exit code.
func (term *terminalProgram) exited(code int) {
	term.t.Helper()
	term.expect("prompt> ")
	term.enter("echo code=$?.")
	term.expect(fmt.Sprintf("code=%d.", code))
}

// jobs waits until the shell lists a job with a text.
func (term *terminalProgram) jobs(text string) {
	term.t.Helper()
	for late := time.Now().Add(runPatience); ; <-time.After(50 * time.Millisecond) {
		term.enter("jobs")
		if strings.Contains(term.expect("prompt> "), text) {
			return
		}
		require.True(term.t, time.Now().Before(late), "no job is %q", text)
	}
}

// stays requires that the lock is held for longer than its TTL.
func stays(t *testing.T, servers []*testredis.Process, ttl time.Duration) {
	t.Helper()
	for end := time.Now().Add(ttl + ttl/2); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		require.GreaterOrEqual(t, keys(t, servers, "job"), 2, "the lock is over")
	}
}

func TestRun_JobControlStopsAndContinues(t *testing.T) {
	sh, servers := openShell(t)
	sh.enter(`$TOOL run --ttl=2s --timeout=500ms job -- sh -c 'echo "ready"; exec sed -u s/^/./'`)
	sh.expect("ready")
	sh.enter("first line") // the command reads from the terminal
	sh.expect(".first line")

	sh.stop()
	sh.enter("jobs -l | sed 's/run.*//'")
	assert.Contains(t, sh.expect("prompt> "), "Stopped")
	stays(t, servers, 2*time.Second)

	sh.resume("run")
	sh.enter("second line")
	sh.expect(".second line")

	sh.stop()
	sh.enter("bg") // where it reads from the terminal
	sh.expect("prompt> ")
	sh.jobs("Stopped")
	sh.resume("run")
	sh.enter("third line")
	sh.expect(".third line")

	sh.press(ctrlC)
	sh.exited(130)
	requireFree(t, servers, "job")
}

func TestRun_InTheBackgroundIsStoppedWhenItReadsTheTerminal(t *testing.T) {
	sh, _ := openShell(t)
	sh.enter(`$TOOL run job -- sh -c 'echo "ready"; cat; echo "the" end; exit 7' &`)
	sh.expect("ready")
	sh.jobs("Stopped")
	sh.resume("run")
	sh.enter("a line")
	sh.expect("a line")
	sh.press(ctrlD)
	sh.expect("the end")
	sh.exited(7)
}

// The command gets the terminal when it reads from it.
func TestRun_InAPipelineReadsTheTerminal(t *testing.T) {
	sh, servers := openShell(t)
	sh.enter(`$TOOL run job -- sh -c 'echo "ready"; while read x; do echo "got $x"; done </dev/tty' | sed -u 's/^/> /'`)
	sh.expect("> ready")
	for range 2 {
		sh.enter("a line")
		sh.expect("> got a line")
		sh.stop()
		sh.resume("run")
	}
	sh.enter("a line")
	sh.expect("> got a line")
	sh.press(ctrlC)
	sh.exited(130)
	requireFree(t, servers, "job")
}

// Another program of the pipeline has the terminal, and the signals of Ctrl-Z and Ctrl-C reach the command all the same.
func TestRun_InAPipelineWithoutTheTerminalGetsItsSignals(t *testing.T) {
	sh, servers := openShell(t)
	// It does not fork: a process that is stopped between vfork and exec keeps its parent from stopping, with redlock or without.
	fifo := t.TempDir() + "/fifo"
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	sh.enter(`$TOOL run job -- bash -c 'exec 3<>'` + fifo + `'; while :; do echo "tick"; read -t 0.05 -u 3; done' | { read x </dev/tty; echo "got $x"; exec cat; }`)
	sh.enter("a line")
	sh.expect("got a line")
	for range 2 {
		sh.expect("tick")
		sh.stop()
		sh.resume("run")
		sh.expect("exec cat")
	}
	sh.expect("tick")
	sh.press(ctrlC)
	sh.exited(130)
	requireFree(t, servers, "job")
}

// The script is stopped and continued with the command, and has the terminal again when the command has ended.
func TestRun_WithinAScript(t *testing.T) {
	sh, servers := openShell(t)
	sh.enter(`bash -c '"$0" run job -- sh -c "echo \"ready\"; exec cat"; read x; echo "script got $x"' $TOOL`)
	sh.expect("ready")
	sh.enter("first line")
	sh.expect("first line")
	sh.stop()
	sh.resume("bash")
	sh.enter("a line")
	sh.expect("a line")
	sh.press(ctrlD)
	requireFree(t, servers, "job")
	sh.enter("the rest")
	sh.expect("script got the rest")
}

func TestRun_GivesTheTerminalBackWhenItsHolderIsKilled(t *testing.T) {
	sh, _ := openShell(t)
	sh.enter(`bash -c '"$0" run job -- sh -c "echo \"pid \$PPID.\"; exec cat"; read x; echo "script got $x"' $TOOL`)
	sh.expect("pid ")
	var holder int
	_, err := fmt.Sscan(sh.expect("."), &holder)
	require.NoError(t, err)
	require.NoError(t, unix.Kill(holder, unix.SIGKILL))
	sh.expect("was killed")
	sh.enter("the rest")
	sh.expect("script got the rest")
}

func TestRun_RestoresTheTerminalOfACommandThatWasKilled(t *testing.T) {
	sh, _ := openShell(t)
	// A script, and not the interactive shell, which would set the modes itself.
	sh.enter(`bash -c 'stty sane; "$0" run job -- sh -c "stty raw -echo; kill -9 \$\$"; stty -a; stty -echo' $TOOL`)
	shown := sh.expect("prompt> ")
	assert.Contains(t, shown, " echo ")
	assert.Contains(t, shown, " icanon ")
}

func TestRun_StoppedWhileItWaitsTakesNoLock(t *testing.T) {
	sh, servers := openShell(t)
	first := holding(t, servers)
	sh.enter(`$TOOL run --verbose job -- sh -c 'echo "ready"; exit 5'`)
	sh.expect("waiting for the lock")
	sh.stop()
	first.endsWith(0)
	third := runTool(t, servers, "job", "cat")
	third.event("started") // and the one that is stopped has not
	third.endsWith(0)
	assert.Zero(t, keys(t, servers, "job"))
	sh.resume("ready")
	sh.exited(5)
}

// In a container without a shell nobody would continue what a Ctrl-Z stops.
func TestRun_WithoutAShellIsNotStopped(t *testing.T) {
	servers := three(t)
	cmd := toolCommand(servers, "run", "job", "--", "sh", "-c", "echo ready; exec cat")
	term := startOnTerminal(t, cmd)
	term.expect("ready")
	for _, line := range []string{"first", "second"} {
		term.press(ctrlZ)
		term.enter(line)
		term.expect(line + "\r\n")
		term.expect(line + "\r\n") // the terminal's echo, and cat's
	}
	term.press(ctrlC)
	<-term.ended
	assert.Equal(t, 130, cmd.ProcessState.ExitCode())
}

func TestRun_StoppedCommandIsContinuedByOthers(t *testing.T) {
	sh, _ := openShell(t)
	sh.enter(`$TOOL run job -- sh -c 'echo "pid $$."; while :; do sleep 0.05; done'`)
	sh.expect("pid ")
	var pid int
	_, err := fmt.Sscan(sh.expect("."), &pid)
	require.NoError(t, err)
	require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
	sh.expect("Stopped")
	sh.expect("prompt> ")
	require.NoError(t, unix.Kill(pid, unix.SIGCONT))
	sh.jobs("Running")
	sh.enter("kill %1")
	sh.jobs("Exit 143")
}

func TestRun_EndsAStoppedJobIfTheLockIsLost(t *testing.T) {
	sh, servers := openShell(t)
	sh.enter(`$TOOL run --ttl=2s --timeout=500ms job -- sh -c 'trap "echo \"cleaned\"; exit" TERM; echo "ready"; read x'`)
	sh.expect("ready")
	sh.stop()
	each(servers, (*testredis.Process).Freeze)
	sh.expect("cleaned")
	sh.jobs("Exit 79")
}
