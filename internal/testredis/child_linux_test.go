package testredis_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const parentEnv = "QUORUMLOCK_TEST_PARENT"

// state returns the letter for what a process does; "" if there is none.
func state(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return rest[:1]
}

func requireStopped(t *testing.T, pid int) {
	t.Helper()
	require.Equal(t, "T", state(pid))
}

// runAgain runs the test once more, as a program of its own with an environment that is added to. It returns what the
// program prints, and what kills it at the latest at the end of the test.
func runAgain(t *testing.T, env ...string) (out io.Reader, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	kill = sync.OnceFunc(func() {
		assert.NoError(t, cmd.Process.Kill())
		assert.Error(t, cmd.Wait())
	})
	t.Cleanup(kill)
	return out, kill
}

func TestChild_FrozenDoesNotOutliveAKilledProgram(t *testing.T) {
	if os.Getenv(parentEnv) != "" { // the program that gets killed
		p, _, _ := startChild(t)
		require.NoError(t, p.Freeze())
		fmt.Println("frozen", p.PID())
		select {}
	}
	out, kill := runAgain(t, parentEnv+"=1")
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "frozen %d", &pid)
	}
	requireStopped(t, pid)

	kill()
	require.Eventually(t, func() bool {
		s := state(pid)
		return s == "" || s == "Z" // or nobody has asked how it ended
	}, 10*time.Second, time.Millisecond)
}
