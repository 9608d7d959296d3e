package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/fatih/color"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
)

const (
	embeddedNodes = 5
	minNodes      = 3           // so that a majority is left without one of them
	minTTL        = time.Second // so that no lock expires before its step is over
	demoPrefix    = "redlock-demo:"
)

// demoCmd is the subcommand demo.
type demoCmd struct {
	Nodes   []string      `placeholder:"URL" help:"URLs of your nodes, at least 3."`
	TTL     time.Duration `default:"10s" help:"TTL of a lock, from 1s to 1m."`
	Timeout time.Duration `default:"200ms" help:"How long one node may take; at most --ttl/4."`
	NoColor bool          `help:"No colours; also if NO_COLOR is set."`

	name string // of the lock; empty means a new one
}

// Validate checks the flags before anything is started or connected.
func (c *demoCmd) Validate() error {
	if c.Nodes != nil { // also if it is empty
		urls, err := checkURLs(c.Nodes)
		if err != nil {
			return err
		}
		c.Nodes = urls
		if failsOver(urls) {
			return errors.New("--nodes: the demo needs servers, and no groups or clusters, which fail over: it cuts single nodes off")
		}
		if len(c.Nodes) < minNodes {
			return fmt.Errorf("--nodes: the demo needs at least %d nodes, so that a majority is left without one of them", minNodes)
		}
	}
	if err := between("--ttl", c.TTL, minTTL, maxTTL); err != nil {
		return err
	}
	return checkTimeout(c.Timeout, c.TTL)
}

// Run returns nil if every step went as it should. In any case nothing of the demo is left.
func (c *demoCmd) Run(ctx context.Context, to streams) (err error) {
	urls, about := c.Nodes, "your nodes; they keep running, the demo closes its own connections"
	if urls == nil {
		servers, err := testredis.Embed(embeddedNodes, nil)
		if err != nil {
			return err
		}
		defer testredis.Close(servers)
		urls, about = testredis.URLs(servers), embeddedKind
	}
	if c.NoColor {
		color.NoColor = true
	}
	nodes, err := pool.Open(urls)
	if err != nil {
		return err
	}
	s := &scenario{
		show: &show{w: to.out}, urls: urls, about: about, network: newNetwork(), servers: serversOf(nodes),
		name: c.name, ttl: c.TTL, timeout: c.Timeout,
	}
	for _, n := range nodes {
		s.show.addrs = append(s.show.addrs, n.Addr())
	}
	closeAll(nodes) // none was connected
	if s.name == "" {
		s.name = demoPrefix + strings.ToLower(rand.Text()[:8])
	}
	defer func() { err = errors.Join(err, s.close()) }()
	err = s.run(ctx)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("interrupted in step %d: %w", s.number, ctx.Err())
	}
	return err
}

// errUnreachable is the error of dialing a node that the demo made unreachable.
var errUnreachable = errors.New("unreachable")

// network dials nodes, and makes them unreachable and reachable again. The servers keep
// running: only the connections that were made here are closed.
type network struct {
	mu    sync.Mutex
	down  map[string]bool       // by address
	conns map[string][]net.Conn // by address; some may be closed already
}

func newNetwork() *network {
	return &network{down: map[string]bool{}, conns: map[string][]net.Conn{}}
}

// dial is the dialer of the demo's nodes.
func (n *network) dial(ctx context.Context, transport, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, transport, addr)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down[addr] {
		_ = conn.Close()
		return nil, errUnreachable
	}
	n.conns[addr] = append(n.conns[addr], conn)
	return conn, nil
}

// disconnect makes a node unreachable, and closes its connections.
func (n *network) disconnect(addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down[addr] = true
	for _, conn := range n.conns[addr] {
		_ = conn.Close() // its owner notices, and closes it again
	}
	n.conns[addr] = nil
}

// reconnect makes all nodes reachable again.
func (n *network) reconnect() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.down)
}
