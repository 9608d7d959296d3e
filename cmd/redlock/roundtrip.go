package main

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/pool"
)

// roundTrips measures how long the nodes take to answer: from when a command is written to when the first bytes come.
type roundTrips struct {
	mu     sync.Mutex
	latest map[string]time.Duration // by address
}

// dialer lets the connections of nodes be measured.
func (r *roundTrips) dialer() pool.Option {
	r.latest = map[string]time.Duration{}
	return pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &measuredConn{Conn: conn, address: address, to: r}, nil
	})
}

// of returns the latest round trip to a node; 0 means there was none.
func (r *roundTrips) of(address string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest[address]
}

// measuredConn is a connection on which each answer comes after one write.
type measuredConn struct {
	net.Conn
	address string
	to      *roundTrips
	sent    time.Time // under to.mu; zero when it was answered
}

func (c *measuredConn) Write(p []byte) (int, error) {
	c.to.mu.Lock()
	c.sent = time.Now()
	c.to.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *measuredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	now := time.Now()
	c.to.mu.Lock()
	if n > 0 && !c.sent.IsZero() {
		c.to.latest[c.address], c.sent = now.Sub(c.sent), time.Time{}
	}
	c.to.mu.Unlock()
	return n, err
}
