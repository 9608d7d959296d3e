package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// lossDelay is how late a chunk is that was lost once: the least time after which a kernel sends it again.
const lossDelay = 200 * time.Millisecond

// Link is the relay between a client and a server: what it does to all their connections, those to come too. All methods
// may be called from any goroutine.
type Link struct {
	listener net.Listener
	ctx      context.Context // of the relay
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu                 sync.Mutex
	server             string // its address
	loss               float64
	toServer, toClient way
	connections        map[*connection]struct{}
}

// way is what happens to one direction.
type way struct {
	delay, jitter time.Duration
	open          chan struct{} // closed while it flows
}

func newLink(addr, server string) (*Link, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("relay to %s: %w", server, err)
	}
	open := make(chan struct{})
	close(open)
	l := &Link{server: server, listener: listener, connections: map[*connection]struct{}{}}
	l.toServer.open, l.toClient.open = open, open
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.running.Go(l.accept)
	return l, nil
}

// Hold keeps back everything in a direction from now on, ends of connections too, until Release. What is more than the
// relay and the kernel keep for a connection waits at the sender. Connections can still be made.
func (l *Link) Hold(d Direction) {
	l.change(d, func(w *way) {
		if w.flows() {
			w.open = make(chan struct{})
		}
	})
}

// Release lets go what was held, in its order, and everything that comes.
func (l *Link) Release(d Direction) {
	l.change(d, func(w *way) {
		if !w.flows() {
			close(w.open)
		}
	})
}

// Delay makes everything that is sent from now on late by the delay and a random part of the jitter. Order is kept within a
// connection, and not among them.
func (l *Link) Delay(d Direction, delay, jitter time.Duration) {
	l.change(d, func(w *way) { w.delay, w.jitter = delay, jitter })
}

// Loss makes each chunk late by 200 ms with a probability, and what is behind it on the connection: a packet was lost and
// sent again. A chunk is what is read at once: mostly a command, or a reply.
func (l *Link) Loss(probability float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loss = probability
}

// Cut resets all connections at both ends. What is held or delayed is lost.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.connections {
		c.cut()
	}
}

// close ends the relay and its connections.
func (l *Link) close() error {
	err := l.listener.Close()
	l.cancel()
	l.Cut()
	l.running.Wait()
	return err
}

func (l *Link) change(d Direction, f func(*way)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d&ToServer != 0 {
		f(&l.toServer)
	}
	if d&ToClient != 0 {
		f(&l.toClient)
	}
}

func (w *way) flows() bool {
	select {
	case <-w.open:
		return true
	default:
		return false
	}
}

// arrival returns when a chunk that is sent now in one direction has to arrive.
func (l *Link) arrival(d Direction) time.Time {
	late := time.Duration(0)
	l.change(d, func(w *way) {
		late = w.delay
		if w.jitter > 0 {
			late += rand.N(w.jitter)
		}
		if rand.Float64() < l.loss {
			late += lossDelay
		}
	})
	return time.Now().Add(late)
}

// pass waits until one direction flows, or reports false when the connection has ended.
func (l *Link) pass(ctx context.Context, d Direction) bool {
	for {
		var open chan struct{}
		flows := false
		l.change(d, func(w *way) { open, flows = w.open, w.flows() })
		if flows {
			return ctx.Err() == nil
		}
		select {
		case <-open:
		case <-ctx.Done():
			return false
		}
	}
}
