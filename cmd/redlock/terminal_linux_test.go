package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminalProgram is a pseudo-terminal with a program that has it as its controlling terminal.
type terminalProgram struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd
	ended  chan struct{}

	mu   sync.Mutex
	text string
	read int // of text, by expect
	news chan struct{}
}

// startOnTerminal starts a command on a terminal. It ends with the test.
func startOnTerminal(t *testing.T, cmd *exec.Cmd) *terminalProgram {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	require.NoError(t, err)
	master := os.NewFile(uintptr(fd), "ptmx")
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: 70, Row: 12}))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	require.NoError(t, slave.Close())
	term := &terminalProgram{t: t, master: master, cmd: cmd, ended: make(chan struct{}), news: make(chan struct{})}
	var reading sync.WaitGroup
	reading.Go(term.listen)
	go func() {
		_ = cmd.Wait()
		close(term.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-term.ended
		require.NoError(t, master.Close())
		reading.Wait()
		if t.Failed() {
			t.Logf("terminal: %q", term.text[max(0, len(term.text)-2000):])
		}
	})
	return term
}

func (term *terminalProgram) listen() {
	for buf := make([]byte, 4096); ; {
		n, err := term.master.Read(buf)
		term.mu.Lock()
		term.text += string(buf[:n])
		close(term.news)
		term.news = make(chan struct{})
		term.mu.Unlock()
		if err != nil {
			return // EIO: the last process has closed the terminal
		}
	}
}

// press types characters.
func (term *terminalProgram) press(text string) {
	term.t.Helper()
	_, err := term.master.WriteString(text)
	require.NoError(term.t, err)
}

// enter types a line.
func (term *terminalProgram) enter(line string) {
	term.t.Helper()
	term.press(line + "\n")
}

// expect waits for a text behind what was expected before, and returns what came until then.
func (term *terminalProgram) expect(text string) string {
	term.t.Helper()
	for late := time.After(runPatience); ; {
		term.mu.Lock()
		rest, news := term.text[term.read:], term.news
		if before, _, found := strings.Cut(rest, text); found {
			term.read += len(before) + len(text)
			term.mu.Unlock()
			return before
		}
		term.mu.Unlock()
		select {
		case <-news:
		case <-late:
			require.Fail(term.t, "not on the terminal", "%q: %q", text, rest)
		}
	}
}

// toolOnTerminal starts the tool on a terminal.
func toolOnTerminal(t *testing.T, args ...string) *terminalProgram {
	t.Helper()
	return startOnTerminal(t, toolProgram(args...))
}

// all returns what was written to the terminal.
func (term *terminalProgram) all() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.text
}

// await waits until a text was written n times.
func (term *terminalProgram) await(text string, n int) {
	term.t.Helper()
	require.Eventually(term.t, func() bool { return strings.Count(term.all(), text) >= n }, runPatience, time.Millisecond, "%q", text)
}

// code waits for the exit code.
func (term *terminalProgram) code() int {
	term.t.Helper()
	select {
	case <-term.ended:
	case <-time.After(runPatience):
		require.Fail(term.t, "it does not end")
	}
	return term.cmd.ProcessState.ExitCode()
}
