package gocronlock_test

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// The danger beside those of the Locker: an instance that ends leaves its lock, and ticks are skipped.
func TestFleet_OfThreeInstancesOneRunsEachTickAlsoIfAServerDiesAndAnInstanceEnds(t *testing.T) {
	t.Parallel()
	const every = 2 // seconds: an instance may be late by one of them
	program := filepath.Join(t.TempDir(), "fleet")
	out, err := exec.Command("go", "build", "-o", program, "./examples/fleet").CombinedOutput()
	require.NoError(t, err, "%s", out)
	servers := testredis.Real(t, 5)
	var commands []*exec.Cmd
	for range 3 {
		commands = append(commands, exec.Command(program, "-every", strconv.Itoa(every),
			"-nodes", strings.Join(testredis.URLs(servers), ",")))
	}
	children, runs := startAll(t, commands, func(i int) { _ = commands[i].Process.Signal(syscall.SIGTERM) })
	var all []run
	for n := range seconds(t) / every {
		r := next(t, runs)
		all = append(all, r)
		switch n {
		case 1:
			servers[2].Stop()
		case 3:
			children[r.instance].stop() // it has just taken the lock
		}
	}
	for _, c := range children {
		c.stop()
	}
	for r := range runs {
		all = append(all, r)
	}
	requireEachTickOnce(t, all, every)
	for i, c := range children {
		<-c.Done()
		require.Zero(t, commands[i].ProcessState.ExitCode())
	}
}
