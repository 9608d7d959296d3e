package redlock_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/pool"
)

// wire is a network connection that a test looks into.
type wire struct {
	net.Conn
	wrote  func(p []byte)      // before p is sent
	gotten func(p []byte) bool // after p has come in; false breaks the connection instead of passing p on
}

func (w *wire) Write(p []byte) (int, error) {
	if w.wrote != nil {
		w.wrote(p)
	}
	return w.Conn.Write(p)
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err == nil && w.gotten != nil && !w.gotten(p[:n]) {
		_ = w.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// throughWires has every new connection pass through what look makes of it.
func throughWires(look func(address string, w *wire)) pool.Option {
	return pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		w := &wire{Conn: conn}
		look(address, w)
		return w, nil
	})
}

// counting counts how often a word goes out over the connections.
func counting(word string, n *atomic.Int64) pool.Option {
	return throughWires(func(_ string, w *wire) {
		w.wrote = func(p []byte) { n.Add(int64(bytes.Count(p, []byte(word)))) }
	})
}
