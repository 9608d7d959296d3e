package testredis

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// memory is a server inside the program: miniredis, with TTLs that run in real time. A key never
// expires before its TTL, counted from when the command was sent, is over.
type memory struct {
	endpoint
	report func(error)

	mu   sync.Mutex // held while the server comes up or goes down
	stop func()     // nil while the server is stopped
}

// Embed starts n servers inside the program (miniredis), or none. Report is called with what a
// Start fails with later.
func Embed(n int, report func(error)) ([]Server, error) {
	var servers []Server
	for range n {
		m := &memory{report: report}
		if err := m.find(m.start); err != nil {
			return nil, errors.Join(err, Close(servers))
		}
		servers = append(servers, m)
	}
	return servers, nil
}

func (m *memory) Close() error {
	m.Stop()
	m.release()
	return nil
}

func (m *memory) Stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop != nil {
		m.stop()
		m.stop = nil
	}
}

func (m *memory) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop != nil {
		return
	}
	if err := m.start(); err != nil {
		m.report(err)
	}
}

// start starts an empty server.
func (m *memory) start() error {
	l, err := net.Listen("tcp", m.Addr())
	if err != nil {
		return fmt.Errorf("miniredis: %w", err)
	}
	// The listener that miniredis opens itself stays unused: its connections would not be timed.
	db := miniredis.NewMiniRedis()
	if err := db.StartAddr("127.0.0.1:0"); err != nil {
		_ = l.Close()
		return fmt.Errorf("miniredis: %w", err)
	}
	timer := &ttlTimer{db: db, seen: time.Now()}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			db.Server().ServeConn(timedConn{c, timer})
		}
	})
	m.stop = func() {
		_ = l.Close()
		accepting.Wait()
		db.Close() // cuts the connections and waits for their goroutines
		refused(l.Addr().String())
	}
	return nil
}

// refused waits until connections to a listener that was closed are refused. A process that is just
// being started has copies of all descriptors until its own program runs, and the system goes on
// taking connections for the listener as long.
func refused(addr string) {
	for range 100_000 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		_ = c.Close()
	}
}

// ttlTimer lets the TTLs run: in miniredis they only move when they are told to.
type ttlTimer struct {
	db   *miniredis.Miniredis
	mu   sync.Mutex
	seen time.Time // the TTLs have run up to here
}

// timedConn brings the TTLs up to date when a command has come in, before it is carried out. Keys
// that the command then sets lose no time that went by before. (A ticker would take time from
// them: up to its period, and much more on a busy machine.)
type timedConn struct {
	net.Conn
	*ttlTimer
}

func (c timedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.db.FastForward(now.Sub(c.seen))
	c.seen = now
	return n, err
}
