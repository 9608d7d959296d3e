package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"

	"github.com/quorumlock/quorumlock/internal/redisserver"
	"github.com/quorumlock/quorumlock/internal/relay"
)

const (
	ownNodes     = 5
	mostOwnNodes = 15
)

// The kinds of nodes.
const (
	remoteKind   = "your own"
	processKind  = "redis-server processes of its own"
	embeddedKind = "inside this program (miniredis), as redis-server is not installed"
)

// count is how many nodes of its own the bench has.
func (c *benchCmd) count() int {
	if c.Count != nil {
		return *c.Count
	}
	return ownNodes
}

// slow is how many nodes answer later.
func (c *benchCmd) slow() int {
	switch {
	case c.Latency == 0:
		return 0
	case c.Slow != nil:
		return *c.Slow
	}
	return 1
}

// checkNodes checks the flags about nodes and what is done to them.
func (c *benchCmd) checkNodes() error {
	if c.Nodes != nil { // given, if only as nothing
		if _, err := checkURLs(c.Nodes); err != nil {
			return err
		}
	}
	switch {
	case c.Freeze < 0:
		return fmt.Errorf("--freeze: %d: must not be below zero", c.Freeze)
	case c.Kill < 0:
		return fmt.Errorf("--kill: %d: must not be below zero", c.Kill)
	case c.Latency < 0 || c.Latency > maxTTL:
		return fmt.Errorf("--latency: %s: must be from 0s to %s", c.Latency, maxTTL)
	case c.Slow != nil && *c.Slow < 1:
		return fmt.Errorf("--slow: %d: must be at least 1", *c.Slow)
	case c.Slow != nil && c.Latency == 0:
		return fmt.Errorf("--slow: %d: says how many nodes --latency is for, which is missing", *c.Slow)
	}
	if c.Nodes != nil {
		return c.checkRemote()
	}
	n := c.count()
	if n < 1 || n > mostOwnNodes {
		return fmt.Errorf("--count: %d: must be from 1 to %d", n, mostOwnNodes)
	}
	if faulty := c.Freeze + c.Kill + c.slow(); faulty > n {
		return fmt.Errorf("--freeze %d, --kill %d, --slow %d: these are %d nodes, and there are %d",
			c.Freeze, c.Kill, c.slow(), faulty, n)
	}
	if c.Freeze > 0 && runtime.GOOS == "windows" {
		return fmt.Errorf("--freeze: %d: Windows cannot stop a process in its tracks", c.Freeze)
	}
	if err := redisserver.Installed(); c.Freeze > 0 && err != nil {
		return fmt.Errorf("--freeze: %d: needs processes of its own: %w", c.Freeze, err)
	}
	return nil
}

// checkRemote refuses what cannot be done to the nodes of others.
func (c *benchCmd) checkRemote() error {
	const ours = "only for nodes that the bench has started, not with --nodes"
	switch {
	case c.Count != nil:
		return fmt.Errorf("--count: %d: %s", *c.Count, ours)
	case c.Freeze > 0:
		return fmt.Errorf("--freeze: %d: %s", c.Freeze, ours)
	case c.Kill > 0:
		return fmt.Errorf("--kill: %d: %s", c.Kill, ours)
	case c.Latency > 0:
		return fmt.Errorf("--latency: %s: %s", c.Latency, ours)
	}
	return nil
}

// benchNodes are the nodes under load. The first of its own are the slow ones; those
// to be frozen come next, then those to be killed.
type benchNodes struct {
	kind   string
	urls   []string
	prefix string            // of the keys
	faults map[string]string // what is done to a node, by its address

	freeze    []*redisserver.Server
	kill      []func()
	processes []*redisserver.Server
	embedded  embeddedServers
	relays    []*relay.Relay
}

// startNodes starts what is not there yet.
func startNodes(ctx context.Context, c *benchCmd) (_ *benchNodes, err error) {
	n := &benchNodes{kind: remoteKind, urls: c.Nodes, faults: map[string]string{}}
	if c.Nodes != nil {
		return n, nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	addrs, stops, err := n.launch(ctx, c.count())
	if err != nil {
		return nil, err
	}
	for i, addr := range addrs {
		slow, frozen := c.slow(), c.slow()+c.Freeze
		switch {
		case i < slow:
			if addr, err = n.relay(c, addr); err != nil {
				return nil, err
			}
			n.faults[addr] = c.Latency.String() + " later"
		case i < frozen:
			n.freeze = append(n.freeze, n.processes[i])
			n.faults[addr] = "frozen"
		case i < frozen+c.Kill:
			n.kill = append(n.kill, stops[i])
			n.faults[addr] = "killed"
		}
		n.urls = append(n.urls, "redis://"+addr)
	}
	return n, nil
}

// launch starts processes, or embedded nodes where there is no redis-server, and
// returns their addresses and what ends each of them.
func (n *benchNodes) launch(ctx context.Context, count int) (addrs []string, stops []func(), err error) {
	if redisserver.Installed() != nil {
		n.kind = embeddedKind
		n.embedded, err = newEmbedded(count)
		for i, s := range n.embedded {
			addrs, stops = append(addrs, s.Addr()), append(stops, func() { n.embedded.stop(i) })
		}
		return addrs, stops, err
	}
	n.kind = processKind
	n.processes, err = redisserver.Launch(ctx, count)
	for _, s := range n.processes {
		addrs, stops = append(addrs, s.Addr()), append(stops, s.Stop)
	}
	return addrs, stops, err
}

// relay puts a relay in front of a node and returns its address.
func (n *benchNodes) relay(c *benchCmd, addr string) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	r := relay.Start(l, addr, c.Latency)
	n.relays = append(n.relays, r)
	return r.Addr(), nil
}

// spoil does to the nodes what was asked for.
func (n *benchNodes) spoil() error {
	for _, s := range n.freeze {
		if err := s.Freeze(); err != nil {
			return err
		}
	}
	for _, kill := range n.kill {
		kill()
	}
	return nil
}

// close ends what was started. The connections must be closed by then.
func (n *benchNodes) close() error {
	for _, r := range n.relays {
		r.Close()
	}
	n.embedded.close()
	return redisserver.Close(n.processes)
}
