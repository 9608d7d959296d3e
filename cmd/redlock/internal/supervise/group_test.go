//go:build darwin || freebsd || linux

package supervise_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/supervise"
)

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
