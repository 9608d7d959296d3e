package process_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/process"
)

// child starts this program again.
func child(t *testing.T) (p *process.Process, in io.WriteCloser, out *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	p, err = process.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	out = bufio.NewScanner(pipe)
	require.True(t, out.Scan())
	require.Equal(t, "hello", out.Text())
	return p, in, out
}

func TestAProcessThatEndsIsDoneAndSaysHow(t *testing.T) {
	p, in, _ := child(t)
	assert.NotZero(t, p.PID())
	require.NoError(t, in.Close())
	<-p.Done()
	require.NoError(t, p.Err())
	p.Kill() // ended already

	p, _, _ = child(t)
	p.Kill()
	<-p.Done()
	require.Error(t, p.Err())
}

func TestAFrozenProcessDoesNothingUntilItIsThawed(t *testing.T) {
	p, in, out := child(t)
	if !process.CanFreeze {
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
}

func TestAFrozenProcessCanBeKilled(t *testing.T) {
	p, _, _ := child(t)
	if process.CanFreeze {
		require.NoError(t, p.Freeze())
	}
	p.Kill()
	require.Error(t, p.Err())
}

func TestWhatIsNoProgramIsAnError(t *testing.T) {
	_, err := process.Start(exec.Command(t.TempDir() + "/missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
