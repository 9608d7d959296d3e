package gocronlock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/adapters/gocronlock"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	envInstance = "GOCRONLOCK_TEST_INSTANCE" // what the instance uses: locker or elector
	envURLs     = "GOCRONLOCK_TEST_URLS"
	envSkew     = "GOCRONLOCK_TEST_SKEW"    // of its clock
	envSeconds  = "GOCRONLOCK_TEST_SECONDS" // how many ticks the tests watch

	bound = 30 * time.Second // for what is promised to happen without a date

	leaderTTL = time.Second
)

// skewed is a clock that is wrong.
type skewed struct {
	clockwork.Clock
	skew time.Duration
}

func (c skewed) Now() time.Time { return c.Clock.Now().Add(c.skew) }

// instance runs a job each second until stdin ends. It prints the second, by its clock, of each run.
func instance(what string) (err error) {
	skew, err := time.ParseDuration(os.Getenv(envSkew))
	if err != nil {
		return err
	}
	clock := skewed{clockwork.NewRealClock(), skew}
	servers, err := redlock.Open(strings.Split(os.Getenv(envURLs), ","), pool.WithTimeout(5*time.Second))
	if err != nil {
		return err
	}
	defer servers.Close()
	ctx := context.Background()
	options := []gocron.SchedulerOption{gocron.WithClock(clock)}
	switch what {
	case "locker":
		locker, err := gocronlock.New(servers, gocronlock.AtLeast(700*time.Millisecond))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, locker.Wait(ctx)) }()
		options = append(options, gocron.WithDistributedLocker(locker))
	default:
		elector, err := gocronlock.NewElector(ctx, servers, "leader", gocronlock.LockOptions(redlock.TTL(leaderTTL)))
		if err != nil {
			return err
		}
		defer elector.Close()
		options = append(options, gocron.WithDistributedElector(elector))
	}
	scheduler, err := gocron.NewScheduler(options...)
	if err != nil {
		return err
	}
	task := gocron.NewTask(func() { fmt.Println(clock.Now().Round(time.Second).Unix()) })
	if _, err := scheduler.NewJob(gocron.CronJob("* * * * * *", true), task, gocron.WithName("tick")); err != nil {
		return err
	}
	scheduler.Start()
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return scheduler.Shutdown()
}

// run is a run of the job.
type run struct {
	instance int
	tick     string
}

// child is an instance in a process of its own.
type child struct {
	*testredis.Child
	stop func() // it shuts down
}

// start starts an instance for each skew. The channel has their runs, and is closed when all have ended.
func start(t *testing.T, what string, servers []*testredis.Process, skews ...time.Duration) ([]child, <-chan run) {
	t.Helper()
	var commands []*exec.Cmd
	var insides []*os.File
	for _, skew := range skews {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envInstance+"="+what, envSkew+"="+skew.String(),
			envURLs+"="+strings.Join(testredis.URLs(servers), ","))
		stdin, inside, err := os.Pipe()
		require.NoError(t, err)
		defer stdin.Close()
		cmd.Stdin = stdin
		commands, insides = append(commands, cmd), append(insides, inside)
	}
	return startAll(t, commands, func(i int) { insides[i].Close() })
}

// startAll starts an instance for each command. stop makes the i-th shut down, and is called once.
func startAll(t *testing.T, commands []*exec.Cmd, stop func(i int)) ([]child, <-chan run) {
	t.Helper()
	runs := make(chan run, 10_000)
	var reading sync.WaitGroup
	var children []child
	for i, cmd := range commands {
		cmd.Stderr = os.Stderr
		out, stdout, err := os.Pipe()
		require.NoError(t, err)
		cmd.Stdout = stdout
		process, err := testredis.StartChild(cmd)
		require.NoError(t, err)
		require.NoError(t, stdout.Close())
		c := child{process, sync.OnceFunc(func() { stop(i) })}
		t.Cleanup(func() {
			c.stop()
			c.Kill()
			<-c.Done()
		})
		children = append(children, c)
		reading.Go(func() {
			defer out.Close()
			for lines := bufio.NewScanner(out); lines.Scan(); {
				runs <- run{i, lines.Text()}
			}
		})
	}
	go func() {
		reading.Wait()
		close(runs)
	}()
	return children, runs
}

// next returns the next run.
func next(t *testing.T, runs <-chan run) run {
	t.Helper()
	select {
	case r, ok := <-runs:
		require.True(t, ok, "the instances have ended")
		return r
	case <-time.After(bound):
		require.Fail(t, "no instance runs the job")
		return run{}
	}
}
