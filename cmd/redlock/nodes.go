package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// The kinds of nodes.
const (
	remoteKind   = "your own"
	processKind  = "redis-server processes of its own"
	embeddedKind = "inside this program (miniredis)"
)

const mostOwnNodes = 15

// checkNodes checks the flags that are about nodes and faults.
func (c *benchCmd) checkNodes() error {
	if c.Nodes != nil { // also if it is empty
		urls, err := checkURLs(c.Nodes)
		if err != nil {
			return err
		}
		c.Nodes = urls
		if c.Count != ownNodes || c.Freeze > 0 || c.Kill > 0 || c.Latency > 0 {
			return errors.New("--nodes cannot be combined with --count, --freeze, --kill and --latency: these are for nodes that the bench starts")
		}
	}
	if err := errors.Join(
		between("--count", c.Count, 1, mostOwnNodes),
		between("--freeze", c.Freeze, 0, mostOwnNodes),
		between("--kill", c.Kill, 0, mostOwnNodes),
		between("--latency", c.Latency, 0, maxTTL),
		between("--slow", c.Slow, 1, mostOwnNodes),
	); err != nil {
		return err
	}
	faulty := c.Freeze + c.Kill + c.slow()
	switch {
	case c.Slow > 1 && c.Latency == 0:
		return errors.New("--slow needs --latency: it is the number of nodes that --latency applies to")
	case c.Nodes == nil && faulty > c.Count:
		return fmt.Errorf("--freeze %d, --kill %d and --slow %d need %d nodes, but --count is %d", c.Freeze, c.Kill, c.slow(), faulty, c.Count)
	case c.Freeze > 0:
		if _, err := testredis.Program(); err != nil {
			return fmt.Errorf("--freeze needs redis-server processes: %w", err)
		}
	}
	return nil
}

// slow returns how many nodes answer later.
func (c *benchCmd) slow() int {
	if c.Latency == 0 {
		return 0
	}
	return c.Slow
}

// benchNodes are the nodes under load. Of those that the bench has started, the first ones are
// slow, the next ones will be frozen, and the next ones killed.
type benchNodes struct {
	kind    string
	urls    []string
	servers []testredis.Server // those that the bench has started
	faults  map[string]string  // by address
	slow    []string           // addresses
	latency time.Duration      // of the slow ones
	begin   []func()           // the faults that begin after the warm-up
	failed  error              // why a fault did not begin
}

// startNodes starts the nodes, unless they are given.
func startNodes(ctx context.Context, c *benchCmd) (*benchNodes, error) {
	n := &benchNodes{kind: remoteKind, urls: c.Nodes, faults: map[string]string{}, latency: c.Latency}
	if c.Nodes != nil {
		return n, nil
	}
	report := func(err error) { n.failed = errors.Join(n.failed, err) }
	_, err := testredis.Program()
	if err != nil {
		n.kind = embeddedKind + ", as redis-server is not installed"
		n.servers, err = testredis.Embed(c.Count, report)
	} else {
		n.kind = processKind
		var processes []*testredis.Process
		processes, err = testredis.Launch(ctx, c.Count, report)
		n.servers = testredis.Servers(processes)
	}
	for i, s := range n.servers {
		switch slow := c.slow(); {
		case i < slow:
			n.slow = append(n.slow, s.Addr())
			n.faults[s.Addr()] = c.Latency.String() + " later"
		case i < slow+c.Freeze:
			n.begin = append(n.begin, s.(*testredis.Process).Freeze)
			n.faults[s.Addr()] = "frozen"
		case i < slow+c.Freeze+c.Kill:
			n.begin = append(n.begin, s.Stop)
			n.faults[s.Addr()] = "killed"
		}
	}
	n.urls = testredis.URLs(n.servers)
	return n, err
}

// inject makes the faults begin.
func (n *benchNodes) inject() error {
	for _, begin := range n.begin {
		begin()
	}
	return n.failed
}

// dial connects to a node.
func (n *benchNodes) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err == nil && slices.Contains(n.slow, addr) {
		conn = delayed(conn, n.latency)
	}
	return conn, err
}

// mostChunks is how many chunks of one connection are delayed at a time. The server is not read
// while there are more.
const mostChunks = 4096

// delayed returns a connection to the same server, as if it was further away: every chunk that
// comes from it is delayed. Chunks do not wait for each other, so that the bandwidth stays the same.
// Two goroutines pass on the answers until the server or the client closes the connection, and one
// the requests.
func delayed(server net.Conn, delay time.Duration) net.Conn {
	type chunk struct {
		data []byte
		due  time.Time // at the client
	}
	client, far := net.Pipe()
	chunks := make(chan chunk, mostChunks)
	left := make(chan struct{}) // closed when the client is gone
	go func() {
		defer close(left)
		_, _ = io.Copy(server, far)
		_ = server.Close()
	}()
	go func() {
		defer close(chunks)
		buffer := make([]byte, 16<<10)
		for {
			n, err := server.Read(buffer)
			if err != nil {
				return
			}
			select {
			case chunks <- chunk{bytes.Clone(buffer[:n]), time.Now().Add(delay)}:
			case <-left:
				return
			}
		}
	}()
	go func() {
		defer far.Close()
		for c := range chunks {
			select {
			case <-time.After(time.Until(c.due)):
				_, _ = far.Write(c.data) // fails only if the client is gone
			case <-left:
				return
			}
		}
	}()
	return client
}
