package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/quorumlock/quorumlock/internal/embedded"
	"github.com/quorumlock/quorumlock/pool"
)

// servers are the Redis servers of the demo, numbered from 0.
type servers interface {
	// connect makes one client's nodes: Nodes[i] speaks to server i.
	connect(opts ...pool.Option) ([]*pool.Node, error)
	// stop takes server i away from the clients, connections that they have included.
	stop(i int)
	// start undoes stop; it does nothing where there is nothing to undo.
	start(i int) error
	// words says what the servers are, and what stop and start do to them.
	words() words
	// close ends what belongs to the demo. The nodes must be closed by then.
	close()
}

type words struct {
	about   string // the servers
	short   string // stopped, in a sentence
	stopped string
	started string
}

// embeddedServers are servers inside this program; they are really stopped.
type embeddedServers []*embedded.Server

// newEmbedded starts n servers on free ports of 127.0.0.1.
func newEmbedded(n int) (embeddedServers, error) {
	var e embeddedServers
	for range n {
		s := embedded.New()
		if err := serve(s, "127.0.0.1:0"); err != nil {
			e.close()
			return nil, err
		}
		e = append(e, s)
	}
	return e, nil
}

func serve(s *embedded.Server, addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("embedded node: %w", err)
	}
	return s.Serve(l)
}

func (e embeddedServers) connect(opts ...pool.Option) ([]*pool.Node, error) {
	return pool.Open(e.urls(), opts...)
}

func (e embeddedServers) urls() []string {
	urls := make([]string, len(e))
	for i, s := range e {
		urls[i] = "redis://" + s.Addr()
	}
	return urls
}

func (e embeddedServers) stop(i int) { e[i].Stop() }

func (e embeddedServers) start(i int) error {
	if e[i].Running() {
		return nil
	}
	return serve(e[i], e[i].Addr())
}

func (embeddedServers) words() words {
	return words{about: "inside this program (miniredis)", short: "stopped", stopped: "stopped", started: "started again"}
}

func (e embeddedServers) close() {
	for i := range e {
		e.stop(i)
	}
}

// errCutOff is what the dialer says while a real server is "stopped".
var errCutOff = errors.New("cut off from the demo")

// remote are servers that others use too. They are left alone: what is cut is the
// demo's own connections.
type remote struct {
	urls []string

	mu    sync.Mutex
	addrs []string // addrs[i] is what the dialer is given for server i
	cut   map[string]bool
	conns map[*remoteConn]struct{}
}

func newRemote(urls []string) *remote {
	return &remote{urls: urls, cut: map[string]bool{}, conns: map[*remoteConn]struct{}{}}
}

func (r *remote) connect(opts ...pool.Option) ([]*pool.Node, error) {
	nodes, err := pool.Open(r.urls, append(opts, pool.WithDialer(r.dial))...)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addrs = r.addrs[:0]
	for _, node := range nodes {
		r.addrs = append(r.addrs, node.Addr())
	}
	return nodes, nil
}

// remoteConn is a connection that stop can find.
type remoteConn struct {
	net.Conn
	remote *remote
	addr   string
}

func (c *remoteConn) Close() error {
	c.remote.mu.Lock()
	delete(c.remote.conns, c)
	c.remote.mu.Unlock()
	return c.Conn.Close()
}

func (r *remote) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if r.isCut(address) {
		return nil, errCutOff
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &remoteConn{Conn: conn, remote: r, addr: address}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut[address] { // meanwhile
		_ = conn.Close()
		return nil, errCutOff
	}
	r.conns[c] = struct{}{}
	return c, nil
}

func (r *remote) isCut(address string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cut[address]
}

func (r *remote) stop(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut[r.addrs[i]] = true
	for c := range r.conns {
		if c.addr == r.addrs[i] {
			_ = c.Conn.Close() // its owner notices, and closes it again
		}
	}
}

func (r *remote) start(i int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.cut, r.addrs[i])
	return nil
}

func (r *remote) words() words {
	return words{
		about: "your own (none is stopped, only cut off)",
		short: "cut off", stopped: "cut off from the demo", started: "reachable again",
	}
}

func (r *remote) close() {}
