// Package pool makes Redis servers the nodes of a lock.
//
// A [Node] is one independent Redis server (6.2 or newer, or Valkey 7.2 or newer). [Open] connects to it by a URL,
// [Wrap] through a redigo pool that the program already has. A node keeps one connection, which all callers share, and
// connects on first use and again whenever the connection breaks. No caller waits for longer than the node timeout ([WithTimeout]).
//
// Locks are the business of package redlock: programs make nodes here and hand them to redlock.New, or have redlock.Open
// make them.
package pool

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/invalid"
	"github.com/quorumlock/quorumlock/internal/node"
)

// Node is one independent Redis server. Make nodes with [Open] or [Wrap]; they are safe for concurrent use, and any
// number of Lockers may share them.
type Node node.Node

// Addr returns the node's name in errors and logs: the address in its URL (host:port, or the path of the socket), node-0 and so
// on of [Wrap], or what [WithName] returns.
func (n *Node) Addr() string { return (*node.Node)(n).Addr() }

// Close lets what is under way end, for the node timeout at most, and closes the connection. A release that could not be
// delivered by then is left to its TTL. Whatever a Locker asks of the node afterwards fails with nodeerr.ErrClosed. Close returns
// when no goroutine of the node is left. It waits for an attempt to connect that does not look at its context: Dial and
// TestOnBorrow of a wrapped pool, the functions of [WithDialer] and [WithCredentials]. A wrapped pool stays open. Closing
// twice is fine. The error is always nil.
func (n *Node) Close() error { return (*node.Node)(n).Close() }

// Open makes one node per URL, Nodes[i] for urls[i]. Nothing is connected before the first use.
//
// The forms are redis://[user:password@]host[:port][/db], rediss:// for TLS, and
// unix://[user:password@]/path/to/socket[?db=n]; ?db=n may stand for /db. valkey:// and valkeys:// mean the same as redis:// and
// rediss://. The host is an IP address, of IPv6 in brackets, or a name of letters, digits, - and _ with dots between them; names
// with other letters are written in punycode. The port is from 1 to 65535, 6379 by default. Each URL must name one server, of its own:
// two databases of one server fail together, so they are refused like the same address given twice.
//
// The connection speaks RESP3, over which servers also report changes of keys, which wake waiters (CLIENT TRACKING). If a
// server refuses RESP3 or tracking, the node works and waiters poll it. The size of everything that a server sends is
// checked before memory is allocated for it.
//
// Each 15 to 30 s, at random, a node looks where its URL leads: it makes one more connection, which logs in, asks INFO and ends. If another
// server answers than the one that is connected, the node connects to that one once it has the answers that are missing. A look that fails
// changes nothing.
//
// An empty list, a URL that is not of these forms or an option out of range is redlock.ErrInvalid, with a text that names it.
// A URL is named by its index and by the part that is wrong: nothing of it is repeated, as any part may be that of a password which is not
// percent-encoded. If a unix URL has a password, an @ in its path must be percent-encoded too.
func Open(urls []string, opts ...Option) ([]*Node, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	if len(urls) == 0 {
		return nil, invalid.Errorf("pool: no URL given: a lock needs at least one node")
	}
	servers := make([]*node.Server, len(urls))
	encrypted := false
	for i, raw := range urls {
		s, err := parseURL(raw)
		if err != nil {
			return nil, invalid.Errorf("pool: URL %d: %w", i, err)
		}
		same := func(other *node.Server) bool { return sameServer(other, s) }
		if first := slices.IndexFunc(servers[:i], same); first >= 0 {
			return nil, invalid.Errorf("pool: URL %d names the same server as URL %d: %s", i, first, s.Address)
		}
		encrypted = encrypted || s.TLS != nil
		if s.TLS != nil && o.server.TLS != nil {
			name := s.TLS.ServerName
			s.TLS = o.server.TLS.Clone()
			s.TLS.ServerName = cmp.Or(s.TLS.ServerName, name)
		}
		s.ClientName, s.Credentials, s.Dial = o.server.ClientName, o.server.Credentials, o.server.Dial
		if s.Dial == nil {
			// This notices within half a minute that the other end has vanished.
			keepAlive := net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}
			s.Dial = (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext
		}
		servers[i] = s
	}
	if o.server.TLS != nil && !encrypted {
		return nil, invalid.Errorf("pool: WithTLSConfig, but no URL begins with rediss:// or valkeys://: nothing would be encrypted")
	}
	nodes := make([]*Node, len(urls))
	for i, s := range servers {
		nodes[i] = o.newNode(i, s.Address, s, nil)
	}
	return nodes, nil
}

// Wrap makes one node per redigo pool that the program already has, Nodes[i] for pools[i]. A node borrows one connection
// from its pool and keeps it while it is healthy. Node.Close returns it, and the pool stays open.
//
// redigo speaks RESP2, over which servers do not report changes, so waiters poll: see WithBackoff of package redlock.
// redigo also trusts the sizes that a server announces; use Open for servers that may be hostile.
//
// How a pool dials is its own business, within limits: the connections must be redigo's, and a DialContext is better than a
// Dial, which nothing can interrupt. Timeouts that the pool sets on its connections have no effect: the node has its own.
//
// For its looks (see [Open]) a node calls the Dial function of the pool itself, so that they do not count for MaxActive. A connection that
// the pool has kept to a server whose place another has taken is closed when the node meets it.
//
// An empty list, a nil pool, the same pool twice or an option out of range is redlock.ErrInvalid, with a text that names it.
func Wrap(pools []*redis.Pool, opts ...Option) ([]*Node, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	if s := o.server; s.TLS != nil || s.Credentials != nil || s.ClientName != "" || s.Dial != nil {
		return nil, invalid.Errorf("pool: WithTLSConfig, WithCredentials, WithClientName and WithDialer are for Open, which has URLs: " +
			"what is wrapped dials for itself")
	}
	if len(pools) == 0 {
		return nil, invalid.Errorf("pool: no pool given: a lock needs at least one node")
	}
	nodes := make([]*Node, len(pools))
	for i, p := range pools {
		if p == nil {
			return nil, invalid.Errorf("pool: pool %d is nil", i)
		}
		if first := slices.Index(pools[:i], p); first >= 0 {
			return nil, invalid.Errorf("pool: pool %d is the same as pool %d", i, first)
		}
		nodes[i] = o.newNode(i, fmt.Sprintf("node-%d", i), nil, p)
	}
	return nodes, nil
}

// newNode makes the i-th node, of a server or of a pool.
func (o *options) newNode(i int, addr string, server *node.Server, redigo *redis.Pool) *Node {
	c := o.config
	c.Addr, c.Server, c.Pool = addr, server, redigo
	if o.name != nil {
		c.Addr = o.name(i)
	}
	if o.durable != nil && o.durable(i) {
		c.MaxTTL = 0
	}
	return (*Node)(node.New(c))
}
