package main

import (
	"context"
	"errors"
	"net"
	"sync"
)

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
