package testredis_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// startChild starts this program again.
func startChild(t *testing.T) (p *testredis.Child, in io.WriteCloser, out *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	p, err = testredis.StartChild(cmd)
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	out = bufio.NewScanner(pipe)
	require.True(t, out.Scan())
	require.Equal(t, "hello", out.Text())
	return p, in, out
}

func TestChild_ReportsItsEnd(t *testing.T) {
	p, in, _ := startChild(t)
	assert.NotZero(t, p.PID())
	require.NoError(t, in.Close())
	<-p.Done()
	p.Kill() // ended already

	p, _, _ = startChild(t)
	p.Kill()
	<-p.Done()
}

func TestChild_DoesNothingWhileFrozen(t *testing.T) {
	p, in, out := startChild(t)
	if runtime.GOOS == "windows" {
		require.ErrorIs(t, p.Freeze(), errors.ErrUnsupported)
		return
	}
	require.NoError(t, p.Thaw())
	require.NoError(t, p.Freeze())
	require.NoError(t, p.Freeze())
	_, err := io.WriteString(in, "go\n")
	require.NoError(t, err)
	requireStopped(t, p.PID())
	require.NoError(t, p.Thaw())
	require.True(t, out.Scan())
	require.Equal(t, "go", out.Text())

	require.NoError(t, p.Freeze())
	requireStopped(t, p.PID())
}

func TestChild_CanBeKilledWhileFrozen(t *testing.T) {
	p, _, _ := startChild(t)
	if runtime.GOOS != "windows" {
		require.NoError(t, p.Freeze())
	}
	p.Kill()
	<-p.Done()
}

func TestStartChild_FailsWithoutAProgram(t *testing.T) {
	_, err := testredis.StartChild(exec.Command(t.TempDir() + "/missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
