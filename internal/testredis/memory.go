package testredis

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Memory is a server inside the program: miniredis, with TTLs that run in real time. A key never
// expires before its TTL, counted from when the command was sent, is over. All methods may be
// called from any goroutine.
type Memory struct {
	endpoint

	mu   sync.Mutex // held while the server comes up or goes down
	db   *miniredis.Miniredis
	stop func() // nil while the server is stopped

	clock sync.Mutex
	seen  time.Time // the TTLs have run up to here
}

// NewMemory starts a server. Stop ends it.
func NewMemory() (*Memory, error) {
	for attempt := 1; ; attempt++ {
		e, err := freeEndpoint()
		if err != nil {
			return nil, err
		}
		m := &Memory{endpoint: e, seen: time.Now()}
		// Another program may have taken the port meanwhile.
		if err = m.start(true); err == nil || attempt == 5 {
			return m, err
		}
	}
}

// Stop ends the server and its connections. It does nothing if the server is stopped already.
func (m *Memory) Stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop != nil {
		m.stop()
		m.stop = nil
	}
}

// Start runs a stopped server again, on the same address and with the keys that it had, like a
// Redis that writes them to disk. It does nothing if the server is running.
func (m *Memory) Start() error { return m.start(false) }

func (m *Memory) start(empty bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop != nil {
		return nil
	}
	l, err := net.Listen("tcp", m.Addr())
	if err != nil {
		return fmt.Errorf("miniredis: %w", err)
	}
	if empty {
		m.db = miniredis.NewMiniRedis()
	}
	db := m.db
	// The listener that miniredis opens itself stays unused: its connections would not be timed.
	if err := db.StartAddr("127.0.0.1:0"); err != nil {
		_ = l.Close()
		return fmt.Errorf("miniredis: %w", err)
	}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			db.Server().ServeConn(&timedConn{Conn: c, read: func() { m.advance(db) }})
		}
	})
	m.stop = func() {
		_ = l.Close()
		accepting.Wait()
		db.Close() // cuts the connections and waits for their goroutines
	}
	return nil
}

// advance lets the TTLs run up to now: in miniredis they only move when they are told to.
func (m *Memory) advance(db *miniredis.Miniredis) {
	m.clock.Lock()
	defer m.clock.Unlock()
	now := time.Now()
	db.FastForward(now.Sub(m.seen))
	m.seen = now
}

// timedConn brings the TTLs up to date when a command has come in, before it is carried out. Keys
// that the command then sets lose no time that went by before. (A ticker would take time from
// them: up to its period, and much more on a busy machine.)
type timedConn struct {
	net.Conn
	read func()
}

func (c *timedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read()
	return n, err
}
