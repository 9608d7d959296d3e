package redlock_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// childPlan is the environment variable that makes this test program another process of a test.
const childPlan = "QUORUMLOCK_TEST_CHILD"

// plan is what a process of a test does until its standard input ends.
type plan struct {
	Who        string
	URLs       []string
	Judge      string // address of the server that sees who is inside
	Goroutines int    // that take the lock again and again
	Hold       bool   // take it once instead, keep it, and tell its token
	Batch      int    // take so many locks for each line that comes in, one after the other, and tell when it is done
	TTL        time.Duration
	Fencing    bool
	Shift      time.Duration // of the wall clock
}

// child is a process of a test.
type child struct {
	tb   testing.TB
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	done chan struct{} // closed when it has ended
	err  error
}

// spawn starts a process that ends with the test, or with this process.
func spawn(tb testing.TB, p plan) *child {
	tb.Helper()
	return spawnTo(tb, p, os.Stderr)
}

// spawnTo is spawn for a process with another standard error.
func spawnTo(tb testing.TB, p plan, stderr io.Writer) *child {
	tb.Helper()
	text := must(json.Marshal(p))(tb)
	self := must(os.Executable())(tb)
	c := &child{tb: tb, cmd: exec.Command(self), done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), childPlan+"="+string(text))
	c.cmd.Stderr = stderr
	in := must(c.cmd.StdinPipe())(tb)
	out, err := c.cmd.StdoutPipe()
	require.NoError(tb, err)
	c.in, c.out = in, bufio.NewReader(out)
	require.NoError(tb, c.cmd.Start())
	go func() {
		defer close(c.done)
		c.err = c.cmd.Wait()
	}()
	tb.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.done
	})
	return c
}

// end has the process end, and wants it to have gone well.
func (c *child) end() {
	c.tb.Helper()
	_ = c.in.Close()
	receive(c.tb, c.done, "the end of a process")
	require.NoError(c.tb, c.err)
}

// runChild is the main function of such a process.
func runChild(text string) (code int) {
	var p plan
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = p.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", p.Who, err)
		return 1
	}
	return 0
}

func (p plan) run() error {
	nodes, err := pool.Open(p.URLs, pool.WithTimeout(patient), pool.WithDialTimeout(patient))
	if err != nil {
		return err
	}
	opts := []redlock.Option{redlock.TTL(p.TTL), redlock.WithWallClock(func() time.Time { return time.Now().Add(p.Shift) })}
	if p.Fencing {
		opts = append(opts, redlock.WithFencing())
	}
	locker, err := redlock.New(nodes, opts...)
	if err != nil {
		return err
	}
	if p.Batch > 0 {
		return p.batches(locker)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if p.Hold {
		lock, err := locker.Lock(ctx, "name", redlock.RenewFor(redlock.NoLimit))
		if err != nil {
			return err
		}
		fmt.Println(string(lock.Token()))
		<-ctx.Done()
		return lock.Unlock(context.WithoutCancel(ctx))
	}
	if err := p.contend(ctx, locker); err != nil {
		return err
	}
	if err := locker.Close(); err != nil {
		return err
	}
	for _, node := range nodes {
		if err := node.Close(); err != nil {
			return err
		}
	}
	return nil
}

// contend takes the lock again and again on several goroutines, and goes inside while it holds it, until ctx ends.
func (p plan) contend(ctx context.Context, locker *redlock.Locker) error {
	errs := make(chan error, p.Goroutines)
	var all sync.WaitGroup
	for range p.Goroutines {
		all.Go(func() {
			judge, err := redis.Dial("tcp", p.Judge)
			if err != nil {
				errs <- err
				return
			}
			defer judge.Close()
			for ctx.Err() == nil {
				lock, err := locker.Lock(context.WithoutCancel(ctx), "name")
				if err == nil {
					err = p.inside(judge, lock)
				}
				if err == nil {
					err = lock.Unlock(context.WithoutCancel(ctx))
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

// inside is what the lock protects: the judge writes down who comes with which fencing token, and who goes.
func (p plan) inside(judge redis.Conn, lock *redlock.Lock) error {
	if _, err := judge.Do("RPUSH", "visits", "+"+p.Who); err != nil {
		return err
	}
	if p.Fencing {
		if _, err := judge.Do("RPUSH", "fences", lock.Fence()); err != nil {
			return err
		}
	}
	_, err := judge.Do("RPUSH", "visits", "-"+p.Who)
	return err
}

// batches takes locks whenever it is told to.
func (p plan) batches(locker *redlock.Locker) error {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		for i := range p.Batch {
			lock, err := locker.TryLock(context.Background(), fmt.Sprint("name-", i%10))
			if err != nil {
				return err
			}
			if err := lock.Unlock(context.Background()); err != nil {
				return err
			}
		}
		fmt.Println("done")
	}
	return nil
}
