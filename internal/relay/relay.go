// Package relay is a TCP relay that makes a server look further away: what it answers
// comes later, and no slower.
package relay

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

const (
	chunkSize = 16 << 10
	// mostChunks may be under way on one connection; more wait at the server.
	mostChunks = 4096
)

// Relay is one in front of one server.
type Relay struct {
	listener net.Listener
	target   string
	delay    time.Duration

	ctx   context.Context // ends with Close
	end   context.CancelFunc
	tasks sync.WaitGroup // all goroutines

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
}

// Start relays what comes in over l to target. Every chunk that comes back from
// there is held back for delay; chunks do not wait for each other. The relay closes l.
func Start(l net.Listener, target string, delay time.Duration) *Relay {
	r := &Relay{listener: l, target: target, delay: delay, conns: map[net.Conn]struct{}{}}
	r.ctx, r.end = context.WithCancel(context.Background())
	r.tasks.Go(r.accept)
	return r
}

// Addr returns the address, host:port, that clients connect to.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Close cuts all connections, and returns when nothing of the relay is left.
func (r *Relay) Close() {
	r.end()
	_ = r.listener.Close()
	r.mu.Lock()
	r.closed = true
	for c := range r.conns {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.tasks.Wait()
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.tasks.Go(func() { r.serve(client) })
	}
}

// serve relays one connection until either end closes it.
func (r *Relay) serve(client net.Conn) {
	if !r.keep(client) {
		return
	}
	defer r.drop(client)
	server, err := new(net.Dialer).DialContext(r.ctx, "tcp", r.target)
	if err != nil || !r.keep(server) {
		return
	}
	defer r.drop(server)
	r.tasks.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.(*net.TCPConn).CloseWrite() // the server still gets all of it
	})
	r.hold(client, server)
}

// chunk is a part of an answer, and when it is to be passed on.
type chunk struct {
	data []byte
	due  time.Time
}

// hold passes on what comes from the server, later.
func (r *Relay) hold(client io.Writer, server io.Reader) {
	chunks := make(chan chunk, mostChunks)
	r.tasks.Go(func() {
		defer close(chunks)
		buffer := make([]byte, chunkSize)
		for {
			n, err := server.Read(buffer)
			if n > 0 {
				c := chunk{append([]byte(nil), buffer[:n]...), time.Now().Add(r.delay)}
				select {
				case chunks <- c:
				case <-r.ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	timer := time.NewTimer(0)
	defer timer.Stop()
	broken := false
	for c := range chunks {
		timer.Reset(time.Until(c.due))
		select {
		case <-timer.C:
		case <-r.ctx.Done():
			continue
		}
		if !broken { // to the end all the same: the reader must not be stuck
			_, err := client.Write(c.data)
			broken = err != nil
		}
	}
}

// keep has Close close a connection; false: that is so far.
func (r *Relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_ = c.Close()
		return false
	}
	r.conns[c] = struct{}{}
	return true
}

func (r *Relay) drop(c net.Conn) {
	_ = c.Close()
	r.mu.Lock()
	delete(r.conns, c)
	r.mu.Unlock()
}
