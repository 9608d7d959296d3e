//go:build darwin || freebsd || linux

package supervise_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/supervise"
)

// A frozen process reads nothing, and the other one has to watch the deadline meanwhile.
func TestLink_SendsWithoutWaitingForAReader(t *testing.T) {
	writer, reader := supervise.NewLinks(t)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := range 10_000 { // more than a socket holds
			writer.Send(supervise.Message{Signal: unix.SIGWINCH})
			writer.Send(supervise.Message{Continue: i + 1})
			writer.Send(supervise.Message{Stopped: unix.SIGTSTP, After: i + 1})
		}
		writer.Send(supervise.Message{Signal: unix.SIGTERM})
	}()
	select {
	case <-sent:
	case <-time.After(30 * time.Second):
		require.Fail(t, "send waits")
	}
	go writer.Report(supervise.Report{Code: 5})

	var last, signal supervise.Message
	for m := range reader.Messages() {
		switch {
		case m.Report != nil:
			assert.Equal(t, 5, m.Report.Code)
			assert.Equal(t, supervise.Message{Stopped: unix.SIGTSTP, After: 10_000}, last)
			assert.Equal(t, unix.SIGTERM, signal.Signal)
			return
		case m.Signal != 0:
			signal = m
		default:
			last = m
		}
	}
	require.Fail(t, "no report")
}

// For kill(2), 0 is the caller's own group, and -1 is everybody.
func TestGroup_IsNeverTheCallersOwn(t *testing.T) {
	const env = "SUPERVISE_TEST_GROUP"
	if os.Getenv(env) != "" {
		g := supervise.NewGroup(0)
		g.Signal(unix.SIGKILL)
		if g.Empty() {
			os.Exit(42)
		}
		os.Exit(1)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestGroup_IsNeverTheCallersOwn$")
	child.Env = append(os.Environ(), env+"=1")
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	_ = child.Run()
	assert.Equal(t, 42, child.ProcessState.ExitCode(), child.ProcessState)
}
