package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

const (
	defaultTimeout     = 50 * time.Millisecond
	defaultDialTimeout = 1 * time.Second
	defaultMaxOverdue  = 1 * time.Second
)

// Option changes how nodes are made. An option that does not fit is reported by
// [Open] or [Wrap].
type Option interface{ apply(*options) error }

type options struct {
	timeout     time.Duration
	dialTimeout time.Duration
	maxOverdue  time.Duration
	guard       time.Duration // 0: none
	durable     func(i int) bool
	tls         *tls.Config
	credentials func(context.Context) (username, password string, err error)
	clientName  string
	name        func(i int) string
	dial        func(ctx context.Context, network, address string) (net.Conn, error)
}

type optionFunc func(*options) error

func (f optionFunc) apply(o *options) error { return f(o) }

func newOptions(opts []Option) (options, error) {
	o := options{
		timeout:     defaultTimeout,
		dialTimeout: defaultDialTimeout,
		maxOverdue:  defaultMaxOverdue,
	}
	for _, opt := range opts {
		if opt == nil {
			return o, errors.New("pool: nil option")
		}
		if err := opt.apply(&o); err != nil {
			return o, err
		}
	}
	if o.durable != nil && o.guard == 0 {
		return o, errors.New("pool: WithDurable without WithRestartGuard: there is nothing to be exempt from")
	}
	return o, nil
}

// keepAlive notices within half a minute that the other end has vanished.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

func positive(option string, d time.Duration, set func(*options)) Option {
	return optionFunc(func(o *options) error {
		if d <= 0 {
			return fmt.Errorf("pool: %s(%s): must be above zero", option, d)
		}
		set(o)
		return nil
	})
}

// WithTimeout sets how long one command may take on one node, whatever it waits
// for: dial, TLS, AUTH, queue, server, reply. Above zero; 50 ms by default. It should
// be far below the TTLs that are used: a lock is won by a majority, and the timeout
// is what a failing majority costs.
func WithTimeout(d time.Duration) Option {
	return positive("WithTimeout", d, func(o *options) { o.timeout = d })
}

// WithDialTimeout bounds one attempt to connect, from the first packet to the end
// of TLS, AUTH and SELECT. Above zero; 1 s by default. Commands do not wait for it: they
// end with their own timeout while the attempt goes on.
func WithDialTimeout(d time.Duration) Option {
	return positive("WithDialTimeout", d, func(o *options) { o.dialTimeout = d })
}

// WithMaxOverdue sets how long after its timeout an answer may stay out before the
// connection is taken for dead and replaced. Above zero; 1 s by default. Meanwhile the
// node is not asked for anything new, and one answer makes it good again.
func WithMaxOverdue(d time.Duration) Option {
	return positive("WithMaxOverdue", d, func(o *options) { o.maxOverdue = d })
}

// WithRestartGuard keeps a server from voting for locks that may have forgotten some: one whose process has come up less than
// maxTTL ago, or was replaced by another behind the same address. What would be forgotten has run out after that, if no
// lock has a longer TTL: from 1 ms; longer ones are refused by the Locker. 1 % is added to it (where WithDrift of package redlock allows for more, maxTTL has to), and up to two seconds since uptimes are told in whole
// ones. With fencing it should be at least 3 s and as much more as the clocks of the nodes differ by.
// Whoever holds a lock may still extend it, release it and look at it there. Off by default.
//
// The refusal is ErrQuarantined, in a [*QuarantineError]. A server that does not tell its uptime (INFO) never votes.
// What the guard does not see is a server that forgets without ending: FLUSHALL, or eviction.
func WithRestartGuard(maxTTL time.Duration) Option {
	return optionFunc(func(o *options) error {
		if maxTTL < time.Millisecond {
			return fmt.Errorf("pool: WithRestartGuard(%s): must be at least 1ms", maxTTL)
		}
		o.guard = maxTTL
		return nil
	})
}

// WithDurable exempts nodes from [WithRestartGuard]: durable says of the i-th (from 0) whether its server comes back with
// every key that it has confirmed, as one with appendonly yes and appendfsync always does. By default none is.
func WithDurable(durable func(i int) bool) Option {
	return optionFunc(func(o *options) error {
		if durable == nil {
			return errors.New("pool: WithDurable(nil)")
		}
		o.durable = durable
		return nil
	})
}

// WithTLSConfig sets the TLS configuration for rediss:// URLs. The server name is
// taken from the URL where config has none. By default the system's roots decide.
// Only for [Open], with at least one such URL.
func WithTLSConfig(config *tls.Config) Option {
	return optionFunc(func(o *options) error {
		if config == nil {
			return errors.New("pool: WithTLSConfig(nil)")
		}
		o.tls = config.Clone()
		return nil
	})
}

// WithCredentials sets where user name and password come from. The function is
// called for every new connection, so that rotated passwords are picked up; an error
// of its own fails that attempt to connect, and it should return when ctx ends. An empty username is the default user.
// They take the place of what a URL holds. Only for [Open].
func WithCredentials(credentials func(ctx context.Context) (username, password string, err error)) Option {
	return optionFunc(func(o *options) error {
		if credentials == nil {
			return errors.New("pool: WithCredentials(nil)")
		}
		o.credentials = credentials
		return nil
	})
}

// WithClientName sets the name that the connections have in CLIENT LIST. None by
// default. Spaces and control characters are not allowed. Only for [Open].
func WithClientName(name string) Option {
	return optionFunc(func(o *options) error {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("pool: WithClientName(%q): printable ASCII without spaces, at least one character", name)
		}
		o.clientName = name
		return nil
	})
}

// WithDialer sets how network connections are made, for tunnels and tests. network
// is "tcp" or "unix". By default a [net.Dialer]. The function should return when its
// context ends: Node.Close waits for it. Only for [Open].
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return optionFunc(func(o *options) error {
		if dial == nil {
			return errors.New("pool: WithDialer(nil)")
		}
		o.dial = dial
		return nil
	})
}

// WithName sets what the i-th node (from 0) is called in errors and logs. By default
// the address of its URL, or "node-0", "node-1" and so on for wrapped pools.
func WithName(name func(i int) string) Option {
	return optionFunc(func(o *options) error {
		if name == nil {
			return errors.New("pool: WithName(nil)")
		}
		o.name = name
		return nil
	})
}
