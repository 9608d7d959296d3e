package cluster_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// launchOwn runs a program with namespaces and a cluster of its own, as root or as another account, and returns when it is up.
func launchOwn(t *testing.T, uid uint32) *exec.Cmd {
	t.Helper()
	needCluster(t)
	if _, err := testredis.Program(); err != nil && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = withoutEnv("QUORUMLOCK_CHAOS_ISOLATED", roleEnv+"=cluster")
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if int(uid) != os.Getuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	return cmd
}

// processes returns the IDs of all processes in this PID namespace and those in it.
func processes(t *testing.T) []int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	var ids []int
	for _, dir := range dirs {
		status, err := os.ReadFile(dir + "/stat")
		if err != nil || bytes.Contains(status, []byte(") Z ")) {
			continue // it has ended
		}
		id, err := strconv.Atoi(filepath.Base(dir))
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return ids
}

func TestIsolate_LeavesNothingWhenItIsKilled(t *testing.T) {
	accounts := map[string]uint32{"own account": uint32(os.Getuid())}
	if os.Getuid() == 0 {
		accounts["without root"] = 65534 // nobody: PostgreSQL wants an account that there is
	}
	for name, uid := range accounts {
		t.Run(name, func(t *testing.T) {
			before := processes(t)
			cmd := launchOwn(t, uid)
			assert.Greater(t, len(processes(t)), len(before)+3)
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait()
			eventually(t, func() bool { return assert.ObjectsAreEqual(before, processes(t)) })
			files, err := filepath.Glob("/dev/shm/*")
			require.NoError(t, err)
			assert.Empty(t, files, "of a cluster that had a mount of its own")
		})
	}
}

func TestIsolate_PassesOnSignalsAndTheExitCode(t *testing.T) {
	cmd := launchOwn(t, uint32(os.Getuid()))
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	assert.Equal(t, 7, cmd.ProcessState.ExitCode())
}
