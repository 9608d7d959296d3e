// Package relay delays the answers of a server, as if the server was further away. The
// bandwidth stays the same.
package relay

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"time"
)

const (
	chunkSize = 16 << 10
	// mostChunks is how many chunks of one connection are delayed at a time. The server is not
	// read while there are more.
	mostChunks = 4096
)

// Relay is a TCP relay in front of one server.
type Relay struct {
	listener net.Listener
	target   string
	delay    time.Duration

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup // all goroutines
}

// Start relays connections from a free port of 127.0.0.1 to target. Every chunk that comes back
// is delayed; chunks do not wait for each other.
func Start(target string, delay time.Duration) (*Relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{listener: listener, target: target, delay: delay}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.tasks.Go(r.accept)
	return r, nil
}

// Addr returns the address, host:port, that clients connect to.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Close closes all connections, and returns when every goroutine of the relay has ended.
func (r *Relay) Close() {
	r.cancel()
	_ = r.listener.Close()
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

// serve relays one connection until either end or Close closes it.
func (r *Relay) serve(client net.Conn) {
	defer client.Close()
	server, err := new(net.Dialer).DialContext(r.ctx, "tcp", r.target)
	if err != nil {
		return
	}
	defer server.Close()
	defer context.AfterFunc(r.ctx, func() {
		_ = client.Close()
		_ = server.Close()
	})()
	r.tasks.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.(*net.TCPConn).CloseWrite() // the server still receives everything
	})
	chunks := make(chan chunk, mostChunks)
	r.tasks.Go(func() {
		defer close(chunks)
		r.read(server, chunks)
	})
	r.write(client, chunks)
}

// chunk is a part of an answer, and when it is due at the client.
type chunk struct {
	data []byte
	due  time.Time
}

// read reads chunks from the server until its connection or the relay is closed.
func (r *Relay) read(server io.Reader, chunks chan<- chunk) {
	buffer := make([]byte, chunkSize)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		select {
		case chunks <- chunk{bytes.Clone(buffer[:n]), time.Now().Add(r.delay)}:
		case <-r.ctx.Done():
			return
		}
	}
}

// write passes chunks on to the client when they are due. It reads all of them even if the
// client has left, so that the reader does not block.
func (r *Relay) write(client io.Writer, chunks <-chan chunk) {
	var failed error
	for c := range chunks {
		select {
		case <-time.After(time.Until(c.due)):
		case <-r.ctx.Done():
			continue
		}
		if failed == nil {
			_, failed = client.Write(c.data)
		}
	}
}
