package pool

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/defaults"
	"github.com/quorumlock/quorumlock/internal/invalid"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/sealed"
)

// Option is a setting of [Open] or [Wrap], and of redlock.Open. An option that does not fit is redlock.ErrInvalid.
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
		Timeout: defaults.NodeTimeout, DialTimeout: 5 * time.Second, MaxOverdue: time.Second, LookEvery: 30 * time.Second,
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

// WithTimeout sets how long one command may take on one node, including the dial: 300 ms by default, above zero. A node
// that hangs delays nobody while a majority answers; otherwise a call waits for this time. The first connection may
// take longer ([WithDialTimeout]). With renewals a TTL should be at least ten timeouts.
func WithTimeout(d time.Duration) Option {
	return unless(d <= 0, func(o *options) { o.config.Timeout = d }, "WithTimeout(%s): must be above zero", d)
}

// WithDialTimeout sets how long one attempt to connect may take, with TLS, AUTH and SELECT: 5 s by default, above zero.
// Commands wait for the first attempt of a node; later only for their own timeout. If many programs connect at once, a
// short one gives up handshakes that are nearly done.
func WithDialTimeout(d time.Duration) Option {
	return unless(d <= 0, func(o *options) { o.config.DialTimeout = d }, "WithDialTimeout(%s): must be above zero", d)
}

// WithMaxOverdue sets how long after its timeout an answer may be missing before the node makes a new connection: 1 s
// by default, above zero. Until then the node gets no acquires and extensions.
func WithMaxOverdue(d time.Duration) Option {
	return unless(d <= 0, func(o *options) { o.config.MaxOverdue = d }, "WithMaxOverdue(%s): must be above zero", d)
}

// WithRestartGuard keeps a server from granting locks until it has been in use as this node for maxTTL plus 1 %. A
// restart, a failover or another server at the address begins that time again. By then all locks that it may have lost
// have expired, because Lockers refuse longer TTLs. Locks that are held can still be extended and released there.
// maxTTL is from 1 ms to 14 days, the same in all programs. By default there is no guard.
//
// With fencing maxTTL should be at least 3 s plus the largest difference between the nodes' clocks. With a WithDrift
// above 1 % it is larger by the difference. A new set of servers grants no locks for maxTTL. A server that refuses its
// stamp, or its identity, grants none at all (nodeerr.QuarantineError). An address, or for [Wrap] a name ([WithName]),
// has to mean the same server in all programs. Evictions are not detected
// (https://github.com/quorumlock/quorumlock/blob/main/docs/operations.md#the-restart-guard).
func WithRestartGuard(maxTTL time.Duration) Option {
	return unless(maxTTL < time.Millisecond || maxTTL > node.MaxGuard, func(o *options) { o.config.MaxTTL = maxTTL },
		"WithRestartGuard(%s): must be from 1ms to %s", maxTTL, node.MaxGuard)
}

// WithDurable exempts nodes from [WithRestartGuard], without which it is an error. durable returns true for the i-th
// server (from 0) if it comes back with every key that it confirmed, as with appendfsync always, and no replica takes
// its place. By default no node is exempt.
func WithDurable(durable func(i int) bool) Option {
	return unless(durable == nil, func(o *options) { o.durable = durable }, "WithDurable(nil)")
}

// WithTLSConfig sets the TLS configuration of rediss and valkeys URLs. By default the root certificates of the
// system decide. Without a server name the host of the URL is used. It is only for [Open], with such a URL.
func WithTLSConfig(config *tls.Config) Option {
	config = config.Clone()
	return unless(config == nil, func(o *options) { o.server.TLS = config }, "WithTLSConfig(nil)")
}

// WithCredentials sets a function that returns the user name ("" is the default user) and password, in the place of
// those in the URL, but not for Sentinels. It is called for each new connection, with the host:port or socket path of
// the server. It should return when ctx ends. Its errors appear in logs: no password in them. It is only for [Open].
func WithCredentials(credentials func(ctx context.Context, addr string) (username, password string, err error)) Option {
	return unless(credentials == nil, func(o *options) { o.server.Credentials = credentials }, "WithCredentials(nil)")
}

// WithClientName sets the name of the connections in CLIENT LIST: printable ASCII without spaces, none by default. It
// is only for [Open].
func WithClientName(name string) Option {
	bad := name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' })
	return unless(bad, func(o *options) { o.server.ClientName = name },
		"WithClientName(%q): printable ASCII without spaces, at least one character", name)
}

// WithDialer sets the function that makes network connections, in the place of a net.Dialer. network is "tcp" or
// "unix". [Node.Close] waits for it, so it should return when ctx ends. It is only for [Open].
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return unless(dial == nil, func(o *options) { o.server.Dial = dial }, "WithDialer(nil)")
}

// WithName sets the name of the i-th node (from 0) in errors and logs. The names of the nodes of one Locker must
// differ, so nodes of two calls of [Wrap] need names. For the default see [Node.Addr].
func WithName(name func(i int) string) Option {
	return unless(name == nil, func(o *options) { o.name = name }, "WithName(nil)")
}
