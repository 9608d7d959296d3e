package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// onTerminal is the tool as a program on a terminal of its own.
type onTerminal struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	mu     sync.Mutex
	shown  bytes.Buffer
	ended  chan struct{} // closed when it has
}

// startOnTerminal starts the tool on a terminal of 70 x 12 characters.
func startOnTerminal(t *testing.T, args ...string) *onTerminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("there are no pseudo terminals: " + err.Error())
	}
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: 70, Row: 12}))
	slave, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	c := &onTerminal{t: t, master: master, cmd: exec.Command(os.Args[0], args...), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), mainEnv+"=1")
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = slave, slave, slave
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, c.cmd.Start())
	require.NoError(t, slave.Close())
	var reading sync.WaitGroup
	reading.Go(func() {
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			c.mu.Lock()
			c.shown.Write(buffer[:n])
			c.mu.Unlock()
			if err != nil {
				return // nobody has the terminal any more
			}
		}
	})
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // has ended, as a rule
		reading.Wait()
		assert.NoError(t, master.Close())
		if t.Failed() {
			t.Logf("the terminal: %q", c.text())
		}
	})
	go func() {
		defer close(c.ended)
		_ = c.cmd.Wait() // how it ended is in cmd.ProcessState
	}()
	return c
}

// text returns what was written to the terminal.
func (c *onTerminal) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown.String()
}

// await waits until a text was written n times.
func (c *onTerminal) await(text string, n int) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return strings.Count(c.text(), text) >= n }, 30*time.Second, time.Millisecond, "%q", text)
}

// enter types text.
func (c *onTerminal) enter(text string) {
	c.t.Helper()
	_, err := c.master.WriteString(text)
	require.NoError(c.t, err)
}

// code waits for the exit code.
func (c *onTerminal) code() int {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(time.Minute):
		require.Fail(c.t, "it does not end")
	}
	return c.cmd.ProcessState.ExitCode()
}

func TestUnlock_AsksOnTheTerminal(t *testing.T) {
	on, flags := real5(t)
	ms := eternity.Milliseconds()
	set := func() { do(t, on[:3], "SET", "name", "tok\x1b[2Jen", "PX", ms) }
	set()
	for answer, code := range map[string]int{"\n": exitTaken, "n\n": exitTaken, "yup\n": exitTaken, "\x04": exitTaken, "\x03": exitSignal + 2} {
		c := startOnTerminal(t, with(flags, "unlock", "name", "--force")...)
		c.await("Remove it? [y/N] ", 1)
		require.Contains(t, c.text(), `tok\x1b[2Jen`)
		require.Contains(t, c.text(), on[4].Addr())
		c.enter(answer)
		require.Equal(t, code, c.code(), "%q", answer)
		c.await("Nothing was removed.", 1)
		require.NotContains(t, c.text(), "\x1b[2J")
		require.Equal(t, "tok\x1b[2Jen", values(t, on, "name")[0])
	}
	for _, answer := range []string{"y\n", "YES\n"} {
		set()
		c := startOnTerminal(t, with(flags, "unlock", "name", "--force")...)
		c.await("Remove it? [y/N] ", 1)
		c.enter(answer)
		require.Zero(t, c.code())
		c.await("Removed:", 1)
		require.Equal(t, make([]string, 5), values(t, on, "name"))
	}
}

func TestUnlock_DoesNotRemoveWhatItHasNotShown(t *testing.T) {
	on, flags := real5(t)
	do(t, on, "SET", "name", "first", "PX", eternity.Milliseconds())
	c := startOnTerminal(t, with(flags, "unlock", "name", "--force")...)
	c.await("Remove it? [y/N] ", 1)
	do(t, on, "SET", "name", "second", "PX", eternity.Milliseconds())
	c.enter("y\n")
	require.Equal(t, exitTaken, c.code())
	c.await("another holds the lock by now", 1)
	require.Equal(t, "second", values(t, on, "name")[0])
}

func TestWatch_DrawsOverWhatItHasDrawn(t *testing.T) {
	on, flags := real5(t)
	do(t, on, "SET", "name", "first", "PX", eternity.Milliseconds())
	for _, command := range [][]string{{"inspect", "name"}, {"list"}} {
		do(t, on, "SET", "name", "first", "PX", eternity.Milliseconds())
		c := startOnTerminal(t, with(flags, append(command, "--watch", "--interval=100ms")...)...)
		c.await("\x1b[H", 3)
		c.await("first", 3)
		do(t, on, "SET", "name", "second", "PX", eternity.Milliseconds())
		c.await("second", 2)
		c.enter("\x03")
		require.Equal(t, exitSignal+2, c.code())
		require.NotContains(t, c.text(), "error")
	}
}

func TestWatch_FitsOnTheTerminal(t *testing.T) {
	on, flags := real5(t)
	for i := range 30 {
		do(t, on, "SET", fmt.Sprintf("name-%02d-%s", i, strings.Repeat("日本", 30)), "token", "PX", eternity.Milliseconds())
	}
	c := startOnTerminal(t, with(flags, "list", "--watch")...)
	c.await("\x1b[J", 1)
	c.enter("\x03")
	require.Equal(t, exitSignal+2, c.code())
	frame, _, _ := strings.Cut(c.text(), "\x1b[J")
	require.Contains(t, frame, "… and ")
	rows := strings.Split(frame, "\x1b[K\r\n")
	require.LessOrEqual(t, len(rows), 12)
	for _, row := range rows {
		require.LessOrEqual(t, textWidth(colors.ReplaceAllString(row, "")), 70, "%q", row)
	}
}
