package redistest

import (
	"net"
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/internal/embedded"
	"github.com/quorumlock/quorumlock/internal/redisserver"
)

// Mini starts n miniredis servers that live inside the test's process and end with it.
//
// Their TTLs run in real time: a key never expires before its TTL, counted from when the command was sent, is over.
func Mini(tb testing.TB, n int) []Server {
	tb.Helper()
	servers := make([]Server, n)
	for i := range servers {
		l, err := redisserver.Listen()
		if err != nil {
			tb.Fatal(err)
		}
		m := &mini{tb: tb, addr: l.Addr().String()}
		tb.Cleanup(m.Stop)
		if err := m.serve(l); err != nil {
			tb.Fatal(err)
		}
		servers[i] = m
	}
	return servers
}

// mini is an embedded server that loses its keys when it is stopped.
type mini struct {
	tb   testing.TB
	addr string

	mu   sync.Mutex // guards stop; held while the server comes up or goes down
	stop func()     // nil while stopped
}

func (m *mini) Addr() string { return m.addr }
func (m *mini) URL() string  { return "redis://" + m.addr }

func (m *mini) Do(cmd string, args ...any) (any, error) {
	return redisserver.Do(m.addr, "", cmd, args...)
}

func (m *mini) Stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop != nil {
		m.stop()
		m.stop = nil
	}
}

func (m *mini) Start() {
	m.tb.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop != nil {
		return
	}
	l, err := net.Listen("tcp", m.addr)
	if err == nil {
		err = m.serve(l)
	}
	if err != nil {
		m.tb.Errorf("redistest: miniredis %s did not come up again: %v", m.addr, err)
	}
}

// serve starts a new, empty server on l.
func (m *mini) serve(l net.Listener) error {
	server := embedded.New()
	if err := server.Serve(l); err != nil {
		return err
	}
	m.stop = server.Stop
	return nil
}
