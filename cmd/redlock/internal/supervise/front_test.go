//go:build darwin || freebsd || linux

package supervise_test

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/supervise"
)

func TestFront_ReapsAllChildrenAndKnowsHowTheHolderHasEnded(t *testing.T) {
	in, out, err := os.Pipe()
	require.NoError(t, err)
	defer in.Close()
	defer out.Close()
	child := func(script string) int {
		pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{Files: []uintptr{in.Fd(), 1, 2}})
		require.NoError(t, err)
		return pid
	}
	f := supervise.NewFront(child("read -r line; kill -TERM $$"))
	stray := child("exit 0")
	require.Eventually(t, func() bool { return !f.Reap() && errors.Is(unix.Kill(stray, 0), unix.ESRCH) }, 30*time.Second, time.Millisecond)
	_, err = out.WriteString("end\n")
	require.NoError(t, err)
	require.Eventually(t, f.Reap, 30*time.Second, time.Millisecond)
	require.Equal(t, unix.SIGTERM, f.Await().Signal())
}
