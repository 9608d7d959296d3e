package pool_test

import (
	"context"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
)

// network carries connections to real servers, and can hold back what a client says.
type network struct {
	mu    sync.Mutex
	lines []*line
}

// line is the client's end of one connection. To the server it stays open when the
// client closes it, as it does when the packets of the close are lost.
type line struct {
	net.Conn

	mu      sync.Mutex
	holding bool
	held    []byte
	closed  bool
}

func newNetwork(t testing.TB) *network {
	n := &network{}
	t.Cleanup(func() {
		for _, l := range n.lines {
			_ = l.Conn.Close()
		}
	})
	return n
}

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, kind, address)
	if err != nil {
		return nil, err
	}
	l := &line{Conn: conn}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, l)
	return l, nil
}

func (n *network) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.lines)
}

func (n *network) line(i int) *line {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lines[i]
}

// hold keeps from the server what the client says on line i from now on.
func (n *network) hold(i int) {
	l := n.line(i)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holding = true
}

// deliver hands the server what was held back on line i, and returns when it has taken it or hung up.
func (n *network) deliver(i int) {
	l := n.line(i)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.Conn.Write(l.held); err != nil {
		return
	}
	_ = l.Conn.SetReadDeadline(time.Now().Add(bound))
	_, _ = l.Conn.Read(make([]byte, 1)) // its answer, or the end
}

func (l *line) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return 0, net.ErrClosed
	case l.holding:
		l.held = append(l.held, p...)
		return len(p), nil
	}
	return l.Conn.Write(p)
}

func (l *line) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if os.IsTimeout(err) {
		return n, io.EOF
	}
	return n, err
}

// Close ends the reader and writer of the client, and says nothing to the server.
func (l *line) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.Conn.SetReadDeadline(time.Unix(1, 0))
}

func (l *line) SetReadDeadline(at time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	return l.Conn.SetReadDeadline(at)
}

// clients returns the numbers of the server's normal connections, without the one that asks.
func clients(t testing.TB, server redistest.Server) []string {
	t.Helper()
	list, err := redis.String(do(t, server, "CLIENT", "LIST"), nil)
	require.NoError(t, err)
	var numbers []string
	for client := range strings.Lines(list) {
		if !strings.Contains(client, " cmd=client|list ") {
			number, _, _ := strings.Cut(client, " ")
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// calls says how often the server has carried out a command.
func calls(t testing.TB, server redistest.Server, command string) string {
	t.Helper()
	stats, err := redis.String(do(t, server, "INFO", "commandstats"), nil)
	require.NoError(t, err)
	_, after, _ := strings.Cut(stats, "cmdstat_"+command+":calls=")
	count, _, _ := strings.Cut(after, ",")
	if count == "" {
		return "0"
	}
	return count
}

// requireCalls waits until the server has carried out a command that often.
func requireCalls(t testing.TB, server redistest.Server, command string, want int) {
	t.Helper()
	require.Eventually(t, func() bool { return calls(t, server, command) == strconv.Itoa(want) }, bound, tick)
}
