package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/internal/relay"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// The kinds of nodes.
const (
	remoteKind   = "your own"
	processKind  = "redis-server processes of its own"
	embeddedKind = "inside this program (miniredis)"
)

const mostOwnNodes = 15

// embeddedServers are Redis servers inside this program.
type embeddedServers []*testredis.Memory

// newEmbedded starts n servers on free ports of 127.0.0.1.
func newEmbedded(n int) (embeddedServers, error) {
	var servers embeddedServers
	for range n {
		s, err := testredis.NewMemory()
		if err != nil {
			servers.close()
			return nil, fmt.Errorf("embedded node: %w", err)
		}
		servers = append(servers, s)
	}
	return servers, nil
}

func (servers embeddedServers) close() {
	for _, s := range servers {
		s.Stop()
	}
}

// checkNodes checks the flags that are about nodes and faults.
func (c *benchCmd) checkNodes() error {
	if c.Nodes != nil { // also if it is empty
		if _, err := checkURLs(c.Nodes); err != nil {
			return err
		}
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
	case c.Freeze > 0 && testredis.Installed() != nil:
		return fmt.Errorf("--freeze needs redis-server processes: %w", testredis.Installed())
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
	kind   string
	urls   []string
	faults map[string]string // by address

	injections []func() error // the faults that begin after the warm-up
	closers    []func() error // what ends the servers and relays
}

// server is a redis-server process or an embedded server.
type server interface {
	Addr() string
	Stop()
}

// startNodes starts the nodes, unless they are given.
func startNodes(ctx context.Context, c *benchCmd) (*benchNodes, error) {
	n := &benchNodes{kind: remoteKind, urls: c.Nodes, faults: map[string]string{}}
	if c.Nodes != nil {
		return n, nil
	}
	servers, err := n.launch(ctx, c.Count)
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	for i, s := range servers {
		addr, slow := s.Addr(), c.slow()
		switch {
		case i < slow:
			r, err := relay.Start(addr, c.Latency)
			if err != nil {
				return nil, errors.Join(err, n.close())
			}
			n.closers = append(n.closers, func() error { r.Close(); return nil })
			addr = r.Addr()
			n.faults[addr] = c.Latency.String() + " later"
		case i < slow+c.Freeze:
			n.injections = append(n.injections, s.(*testredis.Instance).Freeze)
			n.faults[addr] = "frozen"
		case i < slow+c.Freeze+c.Kill:
			n.injections = append(n.injections, func() error { s.Stop(); return nil })
			n.faults[addr] = "killed"
		}
		n.urls = append(n.urls, "redis://"+addr)
	}
	return n, nil
}

// launch starts redis-server processes, or embedded servers if redis-server is not installed.
func (n *benchNodes) launch(ctx context.Context, count int) (servers []server, err error) {
	if testredis.Installed() != nil {
		n.kind = embeddedKind + ", as redis-server is not installed"
		list, err := newEmbedded(count)
		n.closers = append(n.closers, func() error { list.close(); return nil })
		return asServers(list), err
	}
	n.kind = processKind
	list, err := testredis.Launch(ctx, count)
	n.closers = append(n.closers, func() error { return testredis.Close(list) })
	return asServers(list), err
}

func asServers[S server](list []S) (servers []server) {
	for _, s := range list {
		servers = append(servers, s)
	}
	return servers
}

// inject makes the faults begin.
func (n *benchNodes) inject() error {
	for _, fault := range n.injections {
		if err := fault(); err != nil {
			return err
		}
	}
	return nil
}

// close ends what was started. The connections must be closed by then.
func (n *benchNodes) close() error {
	var failed []error
	for _, end := range slices.Backward(n.closers) {
		failed = append(failed, end())
	}
	return errors.Join(failed...)
}
