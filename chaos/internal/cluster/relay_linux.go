package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	chunkBytes = 16 << 10 // is read at once
	mostChunks = 64       // are kept of a connection, in one direction
)

// connection is one that goes through a link.
type connection struct {
	ctx       context.Context // ends when it is cut
	cancel    context.CancelFunc
	near, far *net.TCPConn // to the client and to the server; far is nil until it is there
}

// cut resets both ends. The link's mutex is held.
func (c *connection) cut() {
	c.cancel()
	reset(c.near)
	if c.far != nil {
		reset(c.far)
	}
}

// reset closes a connection so that the other end sees an error.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// accept serves connections until the listener is closed.
func (l *Link) accept() {
	for {
		near, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many files are open
			select {
			case <-time.After(10 * time.Millisecond):
				continue
			case <-l.ctx.Done():
				return
			}
		}
		c := &connection{near: near.(*net.TCPConn)}
		c.ctx, c.cancel = context.WithCancel(l.ctx)
		l.mu.Lock()
		l.connections[c] = struct{}{}
		l.mu.Unlock()
		l.running.Go(func() {
			l.serve(c)
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.connections, c)
			c.cancel()
		})
	}
}

// serve relays a connection until it has ended in both directions.
func (l *Link) serve(c *connection) {
	defer c.near.Close()
	l.mu.Lock()
	server := l.server
	l.mu.Unlock()
	far, err := (&net.Dialer{}).DialContext(c.ctx, "tcp", server)
	if err != nil {
		if l.pass(c.ctx, ToClient) {
			reset(c.near)
		}
		return
	}
	defer far.Close()
	l.mu.Lock()
	c.far = far.(*net.TCPConn)
	l.mu.Unlock()
	if c.ctx.Err() != nil {
		return // it was cut before the server's end was known
	}

	up := newStream(l, c, ToServer, c.near, c.far)
	down := newStream(l, c, ToClient, c.far, c.near)
	var readers, writers sync.WaitGroup
	for _, s := range []*stream{up, down} {
		readers.Go(s.read)
		writers.Go(s.write)
	}
	writers.Wait()
	_, _ = c.near.Close(), c.far.Close() // ends a reader whose writer has failed
	readers.Wait()
}

// stream is one direction of a connection. Its end, or its reset, comes behind what was sent before.
type stream struct {
	link     *Link
	ctx      context.Context
	way      Direction
	from, to *net.TCPConn
	chunks   chan chunk
	done     chan struct{} // closed when nothing is written any more
}

// chunk is what was read at once, when it has to arrive, and the error that came with it.
type chunk struct {
	data []byte
	due  time.Time
	end  error
}

func newStream(l *Link, c *connection, way Direction, from, to *net.TCPConn) *stream {
	return &stream{l, c.ctx, way, from, to, make(chan chunk, mostChunks), make(chan struct{})}
}

func (s *stream) read() {
	defer close(s.chunks)
	buffer := make([]byte, chunkBytes)
	var due time.Time
	for {
		n, err := s.from.Read(buffer)
		if arrival := s.link.arrival(s.way); arrival.After(due) {
			due = arrival
		}
		select {
		case s.chunks <- chunk{bytes.Clone(buffer[:n]), due, err}:
		case <-s.done: // it goes nowhere
			return
		}
		if err != nil {
			return
		}
	}
}

// write passes on chunks. If the receiver is gone it ends: the other direction tells the sender, when it gets to it.
func (s *stream) write() {
	defer close(s.done)
	for c := range s.chunks {
		if !s.wait(c.due) || !s.link.pass(s.ctx, s.way) {
			return
		}
		if _, err := s.to.Write(c.data); err != nil {
			return
		}
		switch {
		case errors.Is(c.end, io.EOF):
			_ = s.to.CloseWrite()
		case c.end != nil:
			reset(s.to)
		}
	}
}

// wait reports false when the connection has ended before.
func (s *stream) wait(due time.Time) bool {
	left := time.Until(due)
	if left <= 0 {
		return true
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}
