package pool

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/invalid"
	"github.com/quorumlock/quorumlock/internal/node"
)

// Option changes how nodes are made. An option that does not fit is reported by [Open] or [Wrap].
type Option interface{ apply(*options) error }

// options are what all nodes of a call have in common, and what differs from one to the other.
type options struct {
	config  node.Config
	server  node.Server
	name    func(i int) string
	durable func(i int) bool
}

type option func(*options) error

func (opt option) apply(o *options) error { return opt(o) }

// unless makes an option that is refused with a reason if its value is bad.
func unless(bad bool, set func(*options), reason string, args ...any) Option {
	return option(func(o *options) error {
		if bad {
			return invalid.Errorf("pool: "+reason, args...)
		}
		set(o)
		return nil
	})
}

func newOptions(opts []Option) (*options, error) {
	o := &options{config: node.Config{
		Timeout: 300 * time.Millisecond, DialTimeout: 5 * time.Second, MaxOverdue: time.Second, LookEvery: 30 * time.Second,
	}}
	for _, opt := range opts {
		if opt == nil {
			return nil, invalid.Errorf("pool: nil option")
		}
		if err := opt.apply(o); err != nil {
			return nil, err
		}
	}
	if o.durable != nil && o.config.MaxTTL == 0 {
		return nil, invalid.Errorf("pool: WithDurable without WithRestartGuard: there is nothing to be exempt from")
	}
	return o, nil
}

// WithTimeout sets how long one command may take on one node, whatever it waits for: dial, TLS, AUTH, queue, server, reply.
// Above zero; 300 ms by default: a lost segment, which TCP repeats after 200 ms, is no timeout then. A node that hangs delays nobody
// while a majority answers; the timeout is what a failing majority costs. The first connection of a node is waited for longer
// ([WithDialTimeout]). With AutoExtend a TTL should be at least ten times as long.
func WithTimeout(d time.Duration) Option {
	return unless(d <= 0, func(o *options) { o.config.Timeout = d }, "WithTimeout(%s): must be above zero", d)
}

// WithDialTimeout bounds one attempt to connect, from the first packet to the end of TLS, AUTH and SELECT. Above zero; 5 s by
// default: a shorter one throws handshakes away that are nearly done when many programs connect at once. Until the first attempt of a
// node has ended, commands wait for it, and have their own timeout from then on. Later they do not wait for longer than that.
func WithDialTimeout(d time.Duration) Option {
	return unless(d <= 0, func(o *options) { o.config.DialTimeout = d }, "WithDialTimeout(%s): must be above zero", d)
}

// WithMaxOverdue sets how long after its timeout an answer may be missing before the connection is taken for dead and
// replaced. Above zero; 1 s by default. Meanwhile the node is not asked for anything new, until an overdue answer comes in.
func WithMaxOverdue(d time.Duration) Option {
	return unless(d <= 0, func(o *options) { o.config.MaxOverdue = d }, "WithMaxOverdue(%s): must be above zero", d)
}

// WithRestartGuard stops a server that may have lost locks from granting new ones: it grants locks once it has been in use as
// the node for maxTTL and 1 %. A server that was restarted, promoted, or put in the place of another behind the same address has not been.
// What it may have lost has expired by then, because the Locker refuses longer TTLs. If WithDrift of package redlock allows
// for more than 1 %, choose maxTTL larger by the difference. With fencing maxTTL should be at least 3 s plus the largest difference
// between the nodes' clocks. Locks that are held can still be extended, released and inspected there. maxTTL is at least 1 ms and
// at most 14 days. Off by default.
//
// Since when a server has been in use stands on it, under the key "quorumlock:since:" and the address of its URL. For wrapped
// pools it is the name of the node, see [WithName]: it must be that of the same server in all programs, and no other server's.
// A new set of servers grants no locks for maxTTL after its first use.
//
// The refusal is a nodeerr.QuarantineError. A server that does not say which one it is (run_id and master_replid of INFO), or
// refuses to keep that key, grants no locks. The guard does not detect eviction, and FLUSHALL only where the server pushes changes
// (RESP3, CLIENT TRACKING; not to wrapped pools).
func WithRestartGuard(maxTTL time.Duration) Option {
	return unless(maxTTL < time.Millisecond || maxTTL > node.MaxGuard, func(o *options) { o.config.MaxTTL = maxTTL },
		"WithRestartGuard(%s): must be from 1ms to %s", maxTTL, node.MaxGuard)
}

// WithDurable exempts nodes from [WithRestartGuard]: durable reports whether the i-th server (from 0) comes back with every
// key that it has confirmed, as one with appendonly yes and appendfsync always does, and has no replica that may take its place. By
// default none is. Without WithRestartGuard it is an error.
func WithDurable(durable func(i int) bool) Option {
	return unless(durable == nil, func(o *options) { o.durable = durable }, "WithDurable(nil)")
}

// WithTLSConfig sets the TLS configuration for rediss:// and valkeys:// URLs. If config has no server name, that of the URL is used. By
// default the system's roots decide. Only for [Open], with at least one such URL.
func WithTLSConfig(config *tls.Config) Option {
	config = config.Clone()
	return unless(config == nil, func(o *options) { o.server.TLS = config }, "WithTLSConfig(nil)")
}

// WithCredentials sets where user name and password come from, instead of the URL. The function is called for every new
// connection, with the address in the URL of its server, host:port or the path of a Unix socket, so that rotated passwords are
// picked up. An error that it returns fails that attempt to connect and gets into errors and logs, so it must not hold a
// password. The function should return when ctx ends. An empty username is the default user. Only for [Open].
func WithCredentials(credentials func(ctx context.Context, addr string) (username, password string, err error)) Option {
	return unless(credentials == nil, func(o *options) { o.server.Credentials = credentials }, "WithCredentials(nil)")
}

// WithClientName sets the name that the connections have in CLIENT LIST. None by default. Spaces and control characters are
// not allowed. Only for [Open].
func WithClientName(name string) Option {
	bad := name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' })
	return unless(bad, func(o *options) { o.server.ClientName = name },
		"WithClientName(%q): printable ASCII without spaces, at least one character", name)
}

// WithDialer sets how network connections are made, for tunnels and tests. network is "tcp" or "unix". By default a
// [net.Dialer]. The function should return when its context ends: Node.Close waits for it. Only for [Open].
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return unless(dial == nil, func(o *options) { o.server.Dial = dial }, "WithDialer(nil)")
}

// WithName sets what the i-th node (from 0) is called in errors and logs. By default the address of its URL, or "node-0",
// "node-1" and so on for wrapped pools. The names of the nodes of one Locker must differ, so nodes of two calls of [Wrap] need names.
func WithName(name func(i int) string) Option {
	return unless(name == nil, func(o *options) { o.name = name }, "WithName(nil)")
}
