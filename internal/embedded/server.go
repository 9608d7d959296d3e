// Package embedded runs Redis servers inside the program: miniredis, with TTLs that
// run in real time.
package embedded

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Server is one such server. It keeps its keys while it is stopped, like a Redis that
// writes them to disk. Its methods must not be called at the same time.
type Server struct {
	addr string
	db   *miniredis.Miniredis
	stop func() // nil while stopped

	mu   sync.Mutex
	seen time.Time // up to here the TTLs have run
}

// New makes a server that is not running yet.
func New() *Server {
	return &Server{db: miniredis.NewMiniRedis(), seen: time.Now()}
}

// Addr returns the address, host:port, of the listener that Serve was last given.
func (s *Server) Addr() string { return s.addr }

// Serve answers what comes in over l, until Stop. It must not be running.
func (s *Server) Serve(l net.Listener) error {
	// The listener that miniredis opens itself stays unused: it has no place for
	// looking at the time.
	if err := s.db.StartAddr("127.0.0.1:0"); err != nil {
		_ = l.Close()
		return fmt.Errorf("embedded Redis: %w", err)
	}
	s.addr = l.Addr().String()
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.db.Server().ServeConn(&timedConn{Conn: c, server: s})
		}
	})
	s.stop = func() {
		_ = l.Close()
		accepting.Wait()
		s.db.Close() // cuts the connections and waits for their goroutines
	}
	return nil
}

// Running says whether the server is up.
func (s *Server) Running() bool { return s.stop != nil }

// Stop ends the server and its connections; it does nothing where that is done already.
func (s *Server) Stop() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// catchUp lets the TTLs run up to now: they only move when they are told to.
func (s *Server) catchUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.db.FastForward(now.Sub(s.seen))
	s.seen = now
}

// timedConn brings the TTLs up to date when a command has come in, before it is
// carried out. Keys that it then sets lose no time that went by before. (A ticker would
// take it from them: up to its period, and much more on a busy machine.)
type timedConn struct {
	net.Conn
	server *Server
}

func (c *timedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.server.catchUp()
	return n, err
}
