// Package pool makes Redis servers the nodes of a lock.
//
// A [Node] is one independent Redis server, 6.2 or newer, or Valkey 7.2 or newer. [Open] connects to it by a URL,
// [Wrap] through a redigo pool that the program already has. A node keeps one connection, which all callers share. It
// connects on first use, and again whenever the connection breaks. No caller waits for longer than the node timeout
// ([WithTimeout]), except for the first connection.
//
// Programs pass nodes to redlock.New, or redlock.Open makes them.
package pool

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/cluster"
	"github.com/quorumlock/quorumlock/internal/invalid"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/sentinel"
)

// Node is one independent Redis server, by [Open] or [Wrap]. It is safe for concurrent use, and Lockers may share it.
type Node node.Node

// Addr returns the name of the node in errors and logs: host:port, the path of the socket, for a group
// group@host:port with the first Sentinel, for a cluster tag@host:port with the first server, or for [Wrap] node-0,
// node-1 and so on. [WithName] sets another.
func (n *Node) Addr() string { return (*node.Node)(n).Addr() }

// Close waits for the commands under way, for the node timeout at most, and closes the connection. A release that was
// not delivered is left to its TTL. Afterwards calls fail with nodeerr.ErrClosed. Closing twice is fine. The error is
// always nil.
//
// Close waits for an attempt to connect that ignores its context: in Dial or TestOnBorrow of a wrapped pool,
// [WithDialer] or [WithCredentials].
func (n *Node) Close() error { return (*node.Node)(n).Close() }

// Open makes one node for each URL, or several for that of a cluster, in the same order. Nothing is connected before
// the first use. The forms of a URL are:
//   - redis://[user:password@]host[:port][/db]
//   - rediss://[user:password@]host[:port][/db], with TLS
//   - unix://[user:password@]/path/to/socket[?db=n]
//   - redis+sentinel://[user:password@]host[:port][,host[:port]...]/group[/db], the primary of a group that these
//     Sentinels watch, with the parameters sentinel_user and sentinel_password for the Sentinels
//   - rediss+sentinel://..., with TLS to the Sentinels and the servers
//   - redis+cluster://[user:password@]host[:port][,host[:port]...]/?nodes=n, n nodes (1 to 16) of a Redis Cluster to
//     which these servers belong
//   - rediss+cluster://..., with TLS
//
// ?db=n may stand for /db; valkey:// and valkeys:// mean redis:// and rediss://. The host is an IP address, of IPv6 in
// brackets, or a name in ASCII (punycode). The port is 6379 by default, of a Sentinel 26379. A group is one node, and
// needs [WithRestartGuard], because a failover may lose locks. An @ in the path of a unix URL with a password
// is percent-encoded. No two URLs lead to one server, not even to two databases of it.
//
// The i-th node of a cluster puts a hash tag before its keys. Its server is the master that has the slot of the tag.
// Tags depend only on n, which must be the same in all programs. They lie on different masters if there are n or more,
// with equally many slots. A master votes for one node only. A cluster needs [WithRestartGuard] too.
// Options count nodes, and errors about a URL count URLs.
//
// Each 15 to 30 s a node looks, over one more connection, whether another server answers at the URL, and then moves
// there. A Sentinel reports a failover at once.
//
// The error is redlock.ErrInvalid for no URL, a URL of another form, or a wrong option. It repeats nothing of a
// malformed URL, which may be part of a password.
func Open(urls []string, opts ...Option) ([]*Node, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	if len(urls) == 0 {
		return nil, invalid.Errorf("pool: no URL given: a lock needs at least one node")
	}
	var servers []*node.Server // of the nodes
	of := map[*node.Server]int{}
	encrypted := false
	for i, raw := range urls {
		parsed, err := parseURL(raw)
		if err != nil {
			return nil, invalid.Errorf("pool: URL %d: %w", i, err)
		}
		same := func(other *node.Server) bool { return sameServer(other, parsed[0]) }
		if first := slices.IndexFunc(servers, same); first >= 0 {
			return nil, invalid.Errorf("pool: URL %d names the same server as URL %d: %s",
				i, of[servers[first]], parsed[0].Address)
		}
		encrypted = encrypted || parsed[0].TLS != nil
		o.equipAll(parsed)
		for _, s := range parsed {
			if err := o.checkGuard(len(servers), s); err != nil {
				return nil, err
			}
			of[s], servers = i, append(servers, s)
		}
	}
	if o.server.TLS != nil && !encrypted {
		return nil, invalid.Errorf(
			"pool: WithTLSConfig, but no URL begins with rediss:// or valkeys://: nothing would be encrypted")
	}
	nodes := make([]*Node, len(servers))
	for i, s := range servers {
		nodes[i] = o.newNode(i, s.Address, s, nil)
	}
	return nodes, nil
}

// equipAll sets how to connect to the servers of one URL, and to the servers that know the way to them.
func (o *options) equipAll(servers []*node.Server) {
	for _, s := range servers {
		o.equip(s)
		s.Credentials = o.server.Credentials
	}
	switch f := servers[0].Finder.(type) {
	case *sentinel.Group:
		for i := range f.Sentinels() {
			o.equip(&f.Sentinels()[i])
		}
	case *cluster.Node:
		for i := range f.Servers() {
			o.equip(&f.Servers()[i])
			f.Servers()[i].Credentials = o.server.Credentials
		}
	}
}

// equip sets how to connect to a server.
func (o *options) equip(s *node.Server) {
	if s.TLS != nil && o.server.TLS != nil {
		name := s.TLS.ServerName
		s.TLS = o.server.TLS.Clone()
		s.TLS.ServerName = cmp.Or(s.TLS.ServerName, name)
	}
	s.ClientName, s.Dial = o.server.ClientName, o.server.Dial
	if s.Dial == nil {
		// This notices within half a minute that the other end has vanished.
		keepAlive := net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}
		s.Dial = (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext
	}
}

// checkGuard checks that the i-th node, if its server changes, has a restart guard: each failover may lose locks.
func (o *options) checkGuard(i int, s *node.Server) error {
	switch {
	case s.Finder == nil:
		return nil
	case o.config.MaxTTL == 0:
		return invalid.Errorf("pool: the servers of node %d fail over, which may lose locks: WithRestartGuard is needed", i)
	case o.durable != nil && o.durable(i):
		return invalid.Errorf("pool: WithDurable is true for node %d, whose servers fail over", i)
	}
	return nil
}

// Wrap makes one node for each redigo pool, in the same order. A node borrows one connection and keeps it while it is
// healthy. [Node.Close] returns it, and the pool stays open.
//
// redigo speaks RESP2, over which servers report no changes, so waiters poll (redlock.WithBackoff). It trusts the sizes
// that a server announces: use [Open] for servers that may be hostile.
//
// The connections must be redigo's. Use DialContext rather than Dial, which nothing can interrupt. Timeouts of the pool
// have no effect, because the node has its own. Its looks (see Open) do not count for MaxActive.
//
// The error is redlock.ErrInvalid for no pool, a nil pool, the same pool twice, or a wrong option.
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
