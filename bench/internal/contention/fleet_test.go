package contention_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/internal/contention"
	"github.com/quorumlock/quorumlock/bench/internal/subject"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

func plan(t *testing.T, name string) contention.Plan {
	t.Helper()
	setup := subject.Setup{Callers: 2, Timeout: 5 * time.Second}
	for _, server := range testredis.Real(t, 3) {
		setup.Addrs = append(setup.Addrs, server.Addr())
	}
	return contention.Plan{Subject: name, Setup: setup, Names: oneName, Processes: 3}
}

func launch(t *testing.T, name string) *contention.Fleet {
	t.Helper()
	fleet, err := contention.Launch(t.Context(), plan(t, name))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, fleet.Close()) })
	return fleet
}

func TestProcessesShareALockAndReportWhatTheyGot(t *testing.T) {
	for _, name := range []string{"quorumlock", "redsync"} {
		t.Run(name, func(t *testing.T) {
			fleet := launch(t, name)
			require.NoError(t, fleet.Start())
			<-time.After(300 * time.Millisecond)
			result, err := fleet.Stop()
			require.NoError(t, err)
			require.Len(t, result, 3)
			acquired, waits := int64(0), int64(0)
			for _, shift := range result {
				require.Len(t, shift.Waiters, 2)
				assert.Positive(t, shift.Elapsed)
				for _, w := range shift.Waiters {
					acquired += w.Acquired
					waits += w.Waits.TotalCount()
				}
			}
			assert.NotZero(t, acquired)
			assert.Positive(t, result.Rate())
			assert.Equal(t, waits, result.Waits().TotalCount())
			assert.GreaterOrEqual(t, result.LuckOfProcesses(), 1.0)
			assert.GreaterOrEqual(t, result.LuckOfWaiters(), 1.0)
		})
	}
}

func TestTwoProcessesThatHoldALockAtOnceAreAnError(t *testing.T) {
	p := plan(t, everybodyAtOnce.Name)
	p.Setup.Callers = 1 // none of them meets another in its own process
	p.Processes = 8
	for range 20 { // they may miss each other, as they start one after the other
		fleet, err := contention.Launch(t.Context(), p)
		if err == nil {
			require.NoError(t, fleet.Start())
			<-time.After(50 * time.Millisecond)
			_, err = fleet.Stop()
			require.NoError(t, fleet.Close())
		}
		if err != nil {
			require.Regexp(t, "another one (got it|holds it) too", err)
			return
		}
	}
	assert.Fail(t, "two processes held the lock at once, and nobody noticed")
}

func TestWhatAChildSaysBeforeItFailsIsInTheError(t *testing.T) {
	_, err := contention.Launch(t.Context(), plan(t, nobody.Name))
	assert.ErrorContains(t, err, "file does not exist")
	_, err = contention.Launch(t.Context(), plan(t, "unheard-of"))
	assert.ErrorContains(t, err, `does not know the subject "unheard-of"`)
}

func TestNoProcessIsLeftBehindByAFleetThatIsNotStopped(t *testing.T) {
	for _, started := range []bool{false, true} {
		fleet := launch(t, "quorumlock")
		if started {
			require.NoError(t, fleet.Start())
		}
		require.NoError(t, fleet.Close()) // returns when they have ended
	}
}

func TestAContextEndsTheProcesses(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	fleet, err := contention.Launch(ctx, plan(t, "quorumlock"))
	require.NoError(t, err)
	require.NoError(t, fleet.Start())
	cancel()
	_, err = fleet.Stop()
	assert.Error(t, err)
	require.NoError(t, fleet.Close())
}

const orphanEnv = "CONTENTION_ORPHAN"

func TestProcessesDoNotOutliveAProgramThatWasKilled(t *testing.T) {
	if addr := os.Getenv(orphanEnv); addr != "" { // the program that gets killed
		setup := subject.Setup{Addrs: []string{addr}, Callers: 2, Timeout: 5 * time.Second}
		fleet, err := contention.Launch(context.Background(), contention.Plan{Subject: "quorumlock", Setup: setup, Names: oneName, Processes: 3})
		require.NoError(t, err)
		require.NoError(t, fleet.Start())
		fmt.Println("started")
		select {}
	}
	server := testredis.Real(t, 1)[0]
	clients := func() int {
		list, err := redis.String(server.Do("CLIENT", "LIST"))
		require.NoError(t, err)
		return strings.Count(list, "\n") - 1 // that which asks
	}
	before := clients()

	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), orphanEnv+"="+server.Addr())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // it was killed
	line, err := bufio.NewReader(out).ReadString('\n')
	seen := clients()
	require.NoError(t, cmd.Process.Kill())
	require.NoError(t, err)
	require.Equal(t, "started\n", line)
	require.GreaterOrEqual(t, seen, before+3, "one of each process")
	require.Eventually(t, func() bool { return clients() == before }, 10*time.Second, 5*time.Millisecond)
}
