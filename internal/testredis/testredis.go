// Package testredis starts Redis servers on free ports of 127.0.0.1, for tests, for the commands of
// redlock and for the bench: redis-server processes, or miniredis inside the program.
//
// Tests get theirs from [Real] and [Mini], and programs from [Launch] and [NewMemory]. [StartChild]
// starts any other child process that must not outlive the program.
package testredis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Server is a Redis server that a test owns. All methods may be called from any goroutine.
type Server interface {
	Addr() string // stays the same when the server is stopped and started again
	URL() string
	Do(cmd string, args ...any) (any, error)

	// Stop ends the server as a crash would: connections are cut, keys and cached scripts are lost.
	Stop()

	// Start runs a stopped server again, empty and on the same address, and returns when it answers.
	// A server that does not come up fails the test.
	Start()
}

// URLs returns the URL of each server, in the same order.
func URLs[S interface{ URL() string }](servers []S) []string {
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = s.URL()
	}
	return urls
}

// Servers returns processes as the interface that Mini returns too.
func Servers(processes []*Process) []Server {
	servers := make([]Server, len(processes))
	for i, p := range processes {
		servers[i] = p
	}
	return servers
}

// Mini starts n miniredis servers that live inside the test's process and end with the test.
func Mini(tb testing.TB, n int) []Server {
	tb.Helper()
	servers := make([]Server, n)
	for i := range servers {
		m, err := NewMemory()
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(m.Stop)
		servers[i] = &mini{m, tb}
	}
	return servers
}

// mini is a server in memory that loses its keys when it is stopped.
type mini struct {
	*Memory
	tb testing.TB
}

func (m *mini) Start() { check(m.tb, m.start(true)) }

// Process is a redis-server process that a test owns. What does not succeed fails the test.
type Process struct {
	*Instance
	tb testing.TB
}

// Real starts n redis-server processes for a test, as [Launch] does. They end with the test.
//
// If redis-server is not installed the test is skipped, or fails if CI=true.
// The log of each server is added to that of a test that failed.
func Real(tb testing.TB, n int, args ...string) []*Process {
	tb.Helper()
	instances, err := Launch(context.Background(), n, args...)
	if errors.Is(err, ErrMissing) && os.Getenv("CI") != "true" {
		tb.Skip(err.Error() + ": tests on real servers are left out")
	}
	if err != nil {
		tb.Fatal(err)
	}
	processes := make([]*Process, n)
	for i, instance := range instances {
		processes[i] = &Process{instance, tb}
		tb.Cleanup(func() {
			instance.Stop()
			if tb.Failed() {
				tb.Logf("redis-server %s:\n%s", instance.Addr(), instance.Log())
			}
			check(tb, instance.Close())
		})
	}
	return processes
}

// Start is [Instance.Start].
func (p *Process) Start() { check(p.tb, p.Instance.Start()) }

// Freeze is [Instance.Freeze].
func (p *Process) Freeze() { check(p.tb, p.Instance.Freeze()) }

// Thaw is [Instance.Thaw].
func (p *Process) Thaw() { check(p.tb, p.Instance.Thaw()) }

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Errorf("testredis: %v", err)
	}
}

// FreePort returns a port of 127.0.0.1 on which nothing listens, for a server that needs one more
// than its own, such as --tls-port. Another process may take it before the server does.
func FreePort(tb testing.TB) int {
	tb.Helper()
	e, err := freeEndpoint()
	if err != nil {
		tb.Fatal(err)
	}
	return e.port
}

// Servers listen below the ports that systems give to outgoing connections (from 32768 on Linux,
// from 49152 elsewhere): a client could be given the port of a server that is stopped for a while.
const firstPort, lastPort = 10000, 32767

// endpoint is where a server listens, on 127.0.0.1.
type endpoint struct {
	port     int
	password string // empty means none
}

// freeEndpoint returns one on which nothing listens.
func freeEndpoint() (e endpoint, err error) {
	for range 100 {
		var l net.Listener
		e.port = firstPort + rand.IntN(lastPort-firstPort+1)
		if l, err = net.Listen("tcp", e.Addr()); err == nil {
			return e, l.Close()
		}
	}
	return e, fmt.Errorf("no free port between %d and %d: %w", firstPort, lastPort, err)
}

// Addr returns 127.0.0.1:port. It stays the same when the server is stopped and started again.
func (e *endpoint) Addr() string { return fmt.Sprintf("127.0.0.1:%d", e.port) }

// URL returns redis://127.0.0.1:port, without a password.
func (e *endpoint) URL() string { return "redis://" + e.Addr() }

// Do runs one command on a connection of its own, logged in with the password of --requirepass if
// there is one. It fails after a few seconds if the server does not answer.
func (e *endpoint) Do(cmd string, args ...any) (any, error) {
	return e.do(5*time.Second, cmd, args...)
}

func (e *endpoint) do(timeout time.Duration, cmd string, args ...any) (any, error) {
	c, err := redis.Dial("tcp", e.Addr(), redis.DialPassword(e.password), redis.DialConnectTimeout(timeout),
		redis.DialReadTimeout(timeout), redis.DialWriteTimeout(timeout))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(cmd, args...)
}
