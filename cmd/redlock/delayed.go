package main

import (
	"bytes"
	"io"
	"net"
	"time"
)

// mostChunks is how many chunks of one connection are delayed at a time. The server is not read
// while there are more.
const mostChunks = 4096

// delayed returns a connection to the same server, as if it was further away: every chunk that
// comes from it is delayed. Chunks do not wait for each other, so that the bandwidth stays the same.
// Two goroutines pass on the answers until the server or the client closes the connection, and one
// the requests.
func delayed(server net.Conn, delay time.Duration) net.Conn {
	type chunk struct {
		data []byte
		due  time.Time // at the client
	}
	client, far := net.Pipe()
	chunks := make(chan chunk, mostChunks)
	left := make(chan struct{}) // closed when the client is gone
	go func() {
		defer close(left)
		_, _ = io.Copy(server, far)
		_ = server.Close()
	}()
	go func() {
		defer close(chunks)
		buffer := make([]byte, 16<<10)
		for {
			n, err := server.Read(buffer)
			if err != nil {
				return
			}
			select {
			case chunks <- chunk{bytes.Clone(buffer[:n]), time.Now().Add(delay)}:
			case <-left:
				return
			}
		}
	}()
	go func() {
		defer far.Close()
		for c := range chunks {
			select {
			case <-time.After(time.Until(c.due)):
				_, _ = far.Write(c.data) // fails only if the client is gone
			case <-left:
				return
			}
		}
	}()
	return client
}
