package pool

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/invalid"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/sealed"
)

// Option is a setting of [Open] or [Wrap], which report an option that does not fit. It is also an option of
// redlock.Open, which passes it on.
type Option interface {
	LockerOption(sealed.Type)
	apply(*options) error
}

// options are the common settings of all nodes of a call, and the settings that differ from node to node.
type options struct {
	config  node.Config
	server  node.Server
	name    func(i int) string
	durable func(i int) bool
}

type option func(*options) error

func (opt option) apply(o *options) error { return opt(o) }

// LockerOption makes an option of Open and Wrap one of redlock.Open too.
func (option) LockerOption(sealed.Type) {}

// unless makes an option, or one that is refused with the reason if bad is true.
func unless(bad bool, set func(*options), reason string, args ...any) Option {
	return option(func(o *options) error {
		if bad {
			return invalid.Errorf("pool: "+reason, args...)
		}
		set(o)
		return nil
	})
}

// newOptions applies options to the defaults, and checks the result.
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

// WithTimeout sets how long one command may take on one node, whatever it waits for: dial, TLS, AUTH, queue, server or
// reply. It must be above zero; the default is 300 ms. TCP repeats a lost segment after 200 ms, so with the default a
// lost segment causes no timeout. A node that hangs delays nobody while a majority answers. If no majority answers, a
// call waits for this timeout. The first connection of a node may take longer ([WithDialTimeout]). With RenewFor, a
// TTL should be at least ten times the timeout.
func WithTimeout(d time.Duration) Option {
	return unless(d <= 0, func(o *options) { o.config.Timeout = d }, "WithTimeout(%s): must be above zero", d)
}

// WithDialTimeout sets how long one attempt to connect may take, from the first packet to the end of TLS, AUTH and
// SELECT. It must be above zero; the default is 5 s. When many programs connect at once, a shorter one would give up
// handshakes that are nearly done. Until the first attempt of a node has ended, commands wait for it, and their own
// timeout begins then. Later, commands wait for an attempt no longer than their own timeout.
func WithDialTimeout(d time.Duration) Option {
	return unless(d <= 0, func(o *options) { o.config.DialTimeout = d }, "WithDialTimeout(%s): must be above zero", d)
}

// WithMaxOverdue sets how long after its timeout an answer may be missing before the node gives its connection up and
// makes a new one. It must be above zero; the default is 1 s. Until an overdue answer arrives, or the new connection is
// made, the node gets no acquires or extensions.
func WithMaxOverdue(d time.Duration) Option {
	return unless(d <= 0, func(o *options) { o.config.MaxOverdue = d }, "WithMaxOverdue(%s): must be above zero", d)
}

// WithRestartGuard stops a server that may have lost locks from granting new ones. A server grants locks once it has
// been in use as this node for maxTTL plus 1 %. A server that was restarted or promoted, or that took the place of
// another behind the same address, has to wait for that long. By then all locks that it may have lost have expired,
// because the Locker refuses longer TTLs. Locks that are held can still be extended, released and inspected there.
// maxTTL must be from 1 ms to 14 days. By default there is no guard.
//
// If WithDrift of package redlock allows for more than 1 %, choose a maxTTL that is larger by the difference. With
// fencing, maxTTL should be at least 3 s plus the largest difference between the nodes' clocks.
//
// A server itself keeps the time since which it has been in use. The key is "quorumlock:since:" with the address of its
// URL behind it. For wrapped pools, the key has the name of the node instead, see [WithName]. All programs must use the
// same name for one server, and no other server may have that name. A new set of servers grants no locks for maxTTL
// after its first use.
//
// The refusal is a nodeerr.QuarantineError. A server grants no locks if it does not say which one it is (run_id and
// master_replid of INFO), or refuses to keep that key. The guard does not detect eviction. It detects FLUSHALL only
// where the server pushes changes (RESP3, CLIENT TRACKING; not to wrapped pools).
func WithRestartGuard(maxTTL time.Duration) Option {
	return unless(maxTTL < time.Millisecond || maxTTL > node.MaxGuard, func(o *options) { o.config.MaxTTL = maxTTL },
		"WithRestartGuard(%s): must be from 1ms to %s", maxTTL, node.MaxGuard)
}

// WithDurable exempts nodes from [WithRestartGuard]. durable returns true if two things hold for the i-th server (from
// 0). It comes back with every key that it has confirmed, and it has no replica that may take its place. With
// appendonly yes and appendfsync always, a server keeps every confirmed key. By default no node is exempt. WithDurable
// is an error without WithRestartGuard.
func WithDurable(durable func(i int) bool) Option {
	return unless(durable == nil, func(o *options) { o.durable = durable }, "WithDurable(nil)")
}

// WithTLSConfig sets the TLS configuration for rediss:// and valkeys:// URLs. By default the root certificates of the
// system decide. If config has no server name, the host of the URL is used. WithTLSConfig is only for [Open], with at
// least one such URL.
func WithTLSConfig(config *tls.Config) Option {
	config = config.Clone()
	return unless(config == nil, func(o *options) { o.server.TLS = config }, "WithTLSConfig(nil)")
}

// WithCredentials sets a function that returns user name and password, in the place of those in the URL. The function
// is called for every new connection, so that a changed password is used at once. addr is the address in the URL of the
// server: host:port, or the path of a Unix socket. An empty username means the default user. The function should return
// when ctx ends. An error that it returns fails that attempt to connect. The error appears in errors and logs, so it
// must not hold a password. WithCredentials is only for [Open].
func WithCredentials(credentials func(ctx context.Context, addr string) (username, password string, err error)) Option {
	return unless(credentials == nil, func(o *options) { o.server.Credentials = credentials }, "WithCredentials(nil)")
}

// WithClientName sets the name that the connections have in CLIENT LIST. By default they have none. The name must be
// printable ASCII without spaces. WithClientName is only for [Open].
func WithClientName(name string) Option {
	bad := name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' })
	return unless(bad, func(o *options) { o.server.ClientName = name },
		"WithClientName(%q): printable ASCII without spaces, at least one character", name)
}

// WithDialer sets the function that makes network connections, for tunnels and tests. network is "tcp" or "unix". By
// default a [net.Dialer] makes them. The function should return when its context ends, because Node.Close waits for it.
// WithDialer is only for [Open].
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return unless(dial == nil, func(o *options) { o.server.Dial = dial }, "WithDialer(nil)")
}

// WithName sets the name of the i-th node (from 0) in errors and logs. By default it is the address of the URL, or
// "node-0", "node-1" and so on for wrapped pools. The names of the nodes of one Locker must differ, so nodes of two
// calls of [Wrap] need names.
func WithName(name func(i int) string) Option {
	return unless(name == nil, func(o *options) { o.name = name }, "WithName(nil)")
}
