package redlocktest

import (
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/quorumlock/quorumlock/clock"
)

// node is one server in memory, which is reached through pipes.
type node struct {
	name string
	db   *miniredis.Miniredis

	clock clock.Clock
	ages  sync.Mutex // held while catchUp lets the TTLs run
	seen  time.Time  // the TTLs have run up to this time

	mu      sync.Mutex
	changed *sync.Cond // on mu; signals a change of up, ended or the state of a link
	up      bool
	ended   bool // the test has ended: no attempt to connect waits for the node
	conns   map[net.Conn]struct{}
	links   []*link
}

// link is the path from one Locker to a node. A Locker connects on first use, and later whenever the connection breaks.
// Its next attempt comes after a pause in real time. While the node is down, the first attempt is refused, which the
// Locker records. The next attempt waits until the node is up again.
type link struct {
	node  *node
	state linkState // guarded by node.mu
}

type linkState int

const (
	unused    linkState = iota
	connected           // or connecting, or cut
	refused
	waiting // for the node to come up
)

// errDown is a timeout, because commands do not end the pause after a timeout. So they fail at once until Start ends
// the attempt that waits for the node.
var errDown net.Error = down{}

type down struct{}

func (down) Error() string { return "the test has stopped the node" }

func (down) Timeout() bool { return true }

func (down) Temporary() bool { return true }

// startNode starts a server. The server listens on a port only while it starts, because miniredis needs that.
func startNode(name string, clk clock.Clock) (*node, error) {
	db := miniredis.NewMiniRedis()
	if err := db.Start(); err != nil {
		return nil, err
	}
	db.Server().Close() // the listener; nobody is connected
	db.SetTime(clk.Now())
	n := &node{name: name, db: db, clock: clk, seen: clk.Now(), up: true, conns: map[net.Conn]struct{}{}}
	n.changed = sync.NewCond(&n.mu)
	return n, nil
}

// attach adds a link to the node.
func (n *node) attach(l *link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links = append(n.links, l)
}

// dial connects to the node.
func (l *link) dial() (net.Conn, error) {
	n := l.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.up && l.state != refused {
		n.setLocked(l, refused)
		return nil, errDown
	}
	if !n.up {
		n.setLocked(l, waiting)
	}
	for !n.up && !n.ended {
		n.changed.Wait()
	}
	if !n.up {
		return nil, errDown
	}
	client, server := net.Pipe()
	n.setLocked(l, connected)
	n.conns[server] = struct{}{}
	n.db.Server().ServeConn(serverConn{server, n})
	return client, nil
}

// setLocked changes the state of a link, and signals the change.
func (n *node) setLocked(l *link, s linkState) {
	l.state = s
	n.changed.Broadcast()
}

// stop takes the node down, and breaks its connections.
func (n *node) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.up = false
	for c := range n.conns {
		_ = c.Close()
	}
}

// awaitRefused waits until no Locker that has ever tried to connect expects an answer from the node soon. Then the
// attempt of each of them waits for the node to come up.
func (n *node) awaitRefused() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		for l.state != unused && l.state != waiting {
			n.changed.Wait()
		}
	}
}

// start brings the node up, and signals that.
func (n *node) start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.up = true
	n.changed.Broadcast()
}

// catchUp lets the TTLs and the server's clock run up to the time of the cluster. In miniredis they only move on
// request.
func (n *node) catchUp() {
	n.ages.Lock()
	defer n.ages.Unlock()
	now := n.clock.Now()
	n.db.SetTime(now)
	if d := now.Sub(n.seen); d > 0 {
		n.db.FastForward(d)
		n.seen = now
	}
}

func (n *node) wipe() { n.db.FlushAll() }

// remove deletes a key, and reports whether it was there. It does nothing if the node is down.
func (n *node) remove(key string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.up {
		return false
	}
	n.catchUp()
	return n.db.Del(key)
}

// end makes every attempt to connect to a node that is down fail from now on.
func (n *node) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
	n.changed.Broadcast()
}

// close ends the server, when nobody uses it.
func (n *node) close() {
	n.mu.Lock()
	for c := range n.conns {
		_ = c.Close()
	}
	n.mu.Unlock()
	n.db.Close()
}

// serverConn is the server's end of a connection. It brings the TTLs up to date when a command has arrived, before the
// server carries the command out.
type serverConn struct {
	net.Conn
	node *node
}

// Read reads, and then brings the TTLs up to date.
func (c serverConn) Read(p []byte) (int, error) {
	k, err := c.Conn.Read(p)
	c.node.catchUp()
	return k, err
}

// Close closes the connection, and removes it from the connections of the node.
func (c serverConn) Close() error {
	c.node.mu.Lock()
	delete(c.node.conns, c.Conn)
	c.node.mu.Unlock()
	return c.Conn.Close()
}
