// Package pool makes Redis servers the nodes of a lock.
//
// A [Node] is one independent Redis server (6.2 or newer, or Valkey 7.2 or newer). [Open] connects to it by a URL,
// [Wrap] through a redigo pool that the program already has. A node keeps one connection, which all callers share. It
// connects on first use, and again whenever the connection breaks. No caller waits for longer than the node timeout
// ([WithTimeout]), except for the first connection.
//
// Locks are the business of package redlock: programs make nodes here and pass them to redlock.New, or redlock.Open
// makes them.
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

// Node is one independent Redis server. Make nodes with [Open] or [Wrap]. They are safe for concurrent use, and any
// number of Lockers may share them.
type Node node.Node

// Addr returns the node's name in errors and logs. By default it is the address in the URL: host:port, or the path of
// the socket. For [Wrap] it is node-0, node-1 and so on. [WithName] sets another name.
func (n *Node) Addr() string { return (*node.Node)(n).Addr() }

// Close waits until the commands under way have ended, for the node timeout at most, and closes the connection. A
// release that could not be delivered by then is left to its TTL. Afterwards, all that a Locker asks of the node fails
// with nodeerr.ErrClosed. A wrapped pool stays open. Closing twice is fine. The error is always nil.
//
// Close returns when no goroutine of the node is left. It waits for an attempt to connect that ignores its context.
// Such an attempt may hang in Dial or TestOnBorrow of a wrapped pool, or in the functions of [WithDialer] and
// [WithCredentials].
func (n *Node) Close() error { return (*node.Node)(n).Close() }

// Open makes one node for each URL, in the same order. Nothing is connected before the first use. The forms of a URL
// are:
//   - redis://[user:password@]host[:port][/db]
//   - rediss://[user:password@]host[:port][/db], with TLS
//   - unix://[user:password@]/path/to/socket[?db=n]
//
// ?db=n may stand for /db. valkey:// and valkeys:// mean the same as redis:// and rediss://. The user may be empty. The
// host is an IP address, of IPv6 in brackets, or a name of letters, digits, - and _ with dots between them. Names with
// other letters are written in punycode. The port is from 1 to 65535, and 6379 by default. Each URL must name a server
// of its own. Two databases of one server fail together, so they are refused like the same address given twice.
//
// The connection speaks RESP3. Over RESP3, servers also report changes of keys (CLIENT TRACKING), which wake waiters.
// If a server refuses RESP3 or tracking, the node works, and waiters poll it. The node checks the size of everything
// that a server sends before it allocates memory for it.
//
// Each 15 to 30 s, at random, a node looks where its URL leads. It makes one more connection, which logs in, asks INFO
// and ends. If another server answers than the connected one, the node waits for the answers that are missing, and
// connects to the other server. A look that fails changes nothing.
//
// The error is redlock.ErrInvalid for an empty list, a URL that is not of these forms, or an option out of range. Its
// text names the fault. For a malformed URL, the text has the index of the URL and the name of the wrong part. It
// repeats nothing of the URL, because any part may belong to a password that is not percent-encoded. If a unix URL has
// a password, an @ in its path must be percent-encoded too.
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
		return nil, invalid.Errorf(
			"pool: WithTLSConfig, but no URL begins with rediss:// or valkeys://: nothing would be encrypted")
	}
	nodes := make([]*Node, len(urls))
	for i, s := range servers {
		nodes[i] = o.newNode(i, s.Address, s, nil)
	}
	return nodes, nil
}

// Wrap makes one node for each redigo pool that the program already has, in the same order. A node borrows one
// connection from its pool and keeps it while it is healthy. Node.Close returns the connection, and the pool stays
// open.
//
// redigo speaks RESP2, over which servers do not report changes. So waiters poll: see WithBackoff of package redlock.
// redigo also trusts the sizes that a server announces. Use Open for servers that may be hostile.
//
// A pool dials in its own way, within limits. The connections must be redigo's. A DialContext is better than a Dial,
// which nothing can interrupt. Timeouts that the pool sets on its connections have no effect, because the node has its
// own.
//
// For its looks (see [Open]) a node calls the dial function of the pool itself, so looks do not count for MaxActive. A
// pool may have kept a connection to a server whose place another has taken. The node closes such a connection when it
// gets it.
//
// The error is redlock.ErrInvalid for an empty list, a nil pool, or the same pool twice. It is the same for an option
// that is out of range, or only for [Open]. Its text names the fault.
func Wrap(pools []*redis.Pool, opts ...Option) ([]*Node, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	if s := o.server; s.TLS != nil || s.Credentials != nil || s.ClientName != "" || s.Dial != nil {
		return nil, invalid.Errorf(
			"pool: WithTLSConfig, WithCredentials, WithClientName and WithDialer are for Open, which has URLs: " +
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

// newNode makes the i-th node, from a server or a pool.
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
