package stack_test

import (
	"net"
	"sync/atomic"
	"time"
)

// conn is one end of a connection in memory.
type conn struct {
	in, out *stream
	name    string
	failed  atomic.Bool // a write has failed
	closed  atomic.Bool
	misuse  func(what string) // called for a write after one that failed
}

// connected returns the two ends of a connection.
func connected(name string, room int, delay func() time.Duration) (client, server *conn) {
	up, down := newStream(room, delay), newStream(room, delay)
	return &conn{in: down, out: up, name: name}, &conn{in: up, out: down, name: name}
}

func (c *conn) Read(p []byte) (int, error) { return c.in.read(p) }

func (c *conn) Write(p []byte) (int, error) {
	if c.failed.Load() && c.misuse != nil {
		c.misuse("is written to after a write that failed")
	}
	n, err := c.out.write(p)
	if err != nil {
		c.failed.Store(true)
	}
	return n, err
}

// Close ends both directions; what was written still arrives.
func (c *conn) Close() error {
	c.closed.Store(true)
	c.out.finish()
	c.in.leave()
	return nil
}

// reset ends both directions, at both ends.
func (c *conn) reset() {
	c.out.reset()
	c.in.reset()
}

// isRead reports whether somebody waits for what comes in.
func (c *conn) isRead() bool {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	return c.in.readers > 0
}

func (c *conn) LocalAddr() net.Addr  { return addr(c.name) }
func (c *conn) RemoteAddr() net.Addr { return addr(c.name) }

func (c *conn) SetReadDeadline(t time.Time) error  { return c.in.setDeadline(&c.in.readBy, t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.out.setDeadline(&c.out.writeBy, t) }

func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

type addr string

func (a addr) Network() string { return "memory" }
func (a addr) String() string  { return string(a) }
