package cluster_test

import (
	"bufio"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/chaos/internal/cluster"
)

const (
	soon  = 20 * time.Second       // what has to happen happens much earlier
	tick  = 5 * time.Millisecond   // between looks
	pause = 300 * time.Millisecond // in which what must not happen would
)

// client is a process in a client's network, with a connection to a server.
type client struct {
	t     *testing.T
	stdin io.WriteCloser
	lines chan string // what it prints, closed when it has ended
}

// connect starts a client, which has connected when it prints "connected".
func connect(t *testing.T, c *cluster.Cluster, i, j int) *client {
	t.Helper()
	return run(t, c, i, "redis", c.Addr(i, j))
}

func run(t *testing.T, c *cluster.Cluster, i int, role, argument string) *client {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := c.Command(i, self, argument)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	p := &client{t, stdin, make(chan string, 100)}
	go func() {
		defer close(p.lines)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.lines <- lines.Text()
		}
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for range p.lines { // until it has ended
		}
	})
	return p
}

func (p *client) send(line string) {
	p.t.Helper()
	_, err := io.WriteString(p.stdin, line+"\n")
	require.NoError(p.t, err)
}

func (p *client) prints(line string) {
	p.t.Helper()
	select {
	case got := <-p.lines:
		require.Equal(p.t, line, got)
	case <-time.After(soon):
		require.Failf(p.t, "the client is silent", "not %q", line)
	}
}

// ends checks that the client prints an error and ends.
func (p *client) ends() {
	p.t.Helper()
	select {
	case got := <-p.lines:
		require.Regexp(p.t, "EOF|reset", got)
	case <-time.After(soon):
		require.Fail(p.t, "the client does not end")
	}
}

func (p *client) isSilent() {
	p.t.Helper()
	select {
	case got := <-p.lines:
		require.Failf(p.t, "the client is not silent", "%q", got)
	case <-time.After(pause):
	}
}

// has returns a condition: the server has a value for a key.
func has(s *cluster.Server, key, value string) func() bool {
	return func() bool {
		got, err := s.Do("GET", key)
		bytes, _ := got.([]byte)
		return err == nil && string(bytes) == value
	}
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, soon, tick)
}

func never(t *testing.T, condition func() bool) {
	t.Helper()
	assert.Never(t, condition, pause, tick)
}
