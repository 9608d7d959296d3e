package caddylock_test

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

func init() { caddy.RegisterModule(new(output)) }

// output is a place for the log of Caddy, in memory.
type output struct {
	Name string `json:"name"`
}

func (*output) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.logging.writers.memory", New: func() caddy.Module { return new(output) }}
}

func (o *output) String() string { return o.Name }

func (o *output) WriterKey() string { return "memory:" + o.Name }

func (o *output) OpenWriter() (io.WriteCloser, error) {
	p, _ := places.LoadOrStore(o.Name, new(place))
	return p.(*place), nil
}

var places sync.Map // of *place, by name

type place struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *place) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (*place) Close() error { return nil }

// logged reports whether a place has a text.
func logged(name, text string) bool {
	p, ok := places.Load(name)
	if !ok {
		return false
	}
	p.(*place).mu.Lock()
	defer p.(*place).mu.Unlock()
	return bytes.Contains(p.(*place).text.Bytes(), []byte(text))
}

// The Locker is that of the first configuration.
func TestStorage_ALossIsInTheLogOfTheConfigurationThatRuns(t *testing.T) {
	stopAtTheEnd(t)
	server := testredis.Real(t, 1)[0]
	file := fmt.Sprintf("storage redlock {\nnodes %s\nttl 1s\nstorage file_system %s\n}", server.URL(), t.TempDir())
	_, err := load(t, file, "first")
	require.NoError(t, err)
	storage, err := load(t, file, "second")
	require.NoError(t, err)
	require.NoError(t, storage.Lock(t.Context(), "x"))
	_, err = server.Do("SET", "caddy:x", "of another", "PX", 60_000)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return logged("second", "redlock: ") }, bound, tick)
	require.True(t, logged("second", "caddy.storage.redlock"))
	require.False(t, logged("first", "redlock: "))
	require.ErrorIs(t, storage.Unlock(t.Context(), "x"), redlock.ErrNotHeld)
}
