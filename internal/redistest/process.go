package redistest

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/quorumlock/quorumlock/internal/redisserver"
)

// Process is a redis-server process of its own, without persistence.
type Process struct {
	*redisserver.Server
	tb testing.TB
}

// Real starts n redis-server processes at once, on free ports of 127.0.0.1, and returns when all of them answer.
//
// The args go to every server after its own: for example "--requirepass", "secret" (Do logs in with it),
// or "--unixsocket", "redis.sock" (each server runs in its own Dir). The port given by Addr has to stay open without TLS.
//
// Where redis-server is not installed the test is skipped, or fails if CI=true.
// The log of each server is added to that of a test that failed.
func Real(tb testing.TB, n int, args ...string) []*Process {
	tb.Helper()
	servers, err := redisserver.Launch(context.Background(), n, args...)
	if errors.Is(err, redisserver.ErrMissing) && os.Getenv("CI") != "true" {
		tb.Skip(err.Error() + ": tests on real servers are left out")
	}
	if err != nil {
		tb.Fatal(err)
	}
	processes := make([]*Process, n)
	for i, server := range servers {
		processes[i] = &Process{Server: server, tb: tb}
		tb.Cleanup(processes[i].cleanUp)
	}
	return processes
}

// Start runs the server again, empty and on the same address, and returns when it answers.
// It does nothing when the server is running. A server that does not come up fails the test.
func (p *Process) Start() {
	p.tb.Helper()
	p.check(p.Server.Start())
}

// Freeze stops the process in its tracks (SIGSTOP) and returns when it stands still: connections stay open
// and can still be made, but nothing is answered. It does nothing when the server is frozen already.
func (p *Process) Freeze() {
	p.tb.Helper()
	p.check(p.Server.Freeze())
}

// Thaw lets a frozen process go on (SIGCONT). Commands that reached it meanwhile are carried out.
func (p *Process) Thaw() {
	p.tb.Helper()
	p.check(p.Server.Thaw())
}

func (p *Process) check(err error) {
	p.tb.Helper()
	if err != nil {
		p.tb.Errorf("redistest: %v", err)
	}
}

// cleanUp leaves nothing behind.
func (p *Process) cleanUp() {
	p.Stop()
	if p.tb.Failed() {
		p.tb.Logf("redis-server %s:\n%s", p.Addr(), p.Log())
	}
	if err := p.Close(); err != nil {
		p.tb.Error(err)
	}
}
