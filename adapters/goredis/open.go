package goredis

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/quorumlock/quorumlock/internal/invalid"
	"github.com/quorumlock/quorumlock/pool"
)

// Open makes one node for each of the options, Nodes[i] for servers[i]. Nothing is connected before the first use. The package
// documentation says what is carried over. Later changes of the options have no effect.
//
// Each of the options must name a server of its own. The same Addr twice is refused, also with different Dialers: these get the
// Addr, and may take any. Open does not notice one server under two names, such as localhost and 127.0.0.1. The Locker does when both
// are connected, and counts one of the two (nodeerr.ErrSameServer). Only if the server does not permit INFO has it two votes.
// ClientName has to be the same in all options.
//
// opts are those of package pool that do not say how to connect. [pool.WithTLSConfig], [pool.WithCredentials],
// [pool.WithClientName] and [pool.WithDialer] are refused. [pool.WithDialTimeout] takes the place of the longest DialTimeout, and
// [pool.WithName] that of Addr.
//
// The errors are redlock.ErrInvalid, with a text that names the options by their index and the field by its name.
func Open(servers []*redis.Options, opts ...pool.Option) ([]*pool.Node, error) {
	// Options that say how to connect are none for Wrap either.
	if _, err := pool.Wrap([]*redigo.Pool{{}}, opts...); err != nil {
		return nil, invalid.Errorf("goredis: %w", err)
	}
	if len(servers) == 0 {
		return nil, invalid.Errorf("goredis: no options given: a lock needs at least one node")
	}
	kept := make([]*server, len(servers))
	urls := make([]string, len(servers))
	byURL := make(map[string]*server, len(servers))
	longest := time.Duration(0)
	for i, o := range servers {
		s, err := newServer(o)
		if err != nil {
			return nil, invalid.Errorf("goredis: options %d: %w", i, err)
		}
		if first := slices.IndexFunc(kept[:i], s.same); first >= 0 {
			return nil, invalid.Errorf("goredis: options %d: Addr %q is that of options %d too", i, s.Addr, first)
		}
		if i > 0 && s.ClientName != kept[0].ClientName {
			return nil, invalid.Errorf("goredis: options %d: ClientName %q: must be that of options 0, %q", i, s.ClientName, kept[0].ClientName)
		}
		// Package pool only hands this address to the functions below: an Addr need not have the form that a URL asks for.
		address := fmt.Sprintf("options-%d:6379", i)
		kept[i], byURL[address], urls[i] = s, s, fmt.Sprintf("redis://%s/%d", address, s.DB)
		longest = max(longest, s.DialTimeout)
	}
	all := slices.Concat([]pool.Option{
		pool.WithName(func(i int) string { return kept[i].Addr }),
		pool.WithDialTimeout(longest),
	}, opts, []pool.Option{
		pool.WithDialer(func(ctx context.Context, _, address string) (net.Conn, error) { return byURL[address].dial(ctx) }),
		pool.WithCredentials(func(ctx context.Context, address string) (string, string, error) {
			return byURL[address].credentials(ctx)
		}),
	})
	if name := kept[0].ClientName; name != "" {
		all = append(all, pool.WithClientName(name))
	}
	return pool.Open(urls, all...)
}

// server is a copy of options, with the defaults of those fields that are used.
type server struct {
	redis.Options
	listener deaf
}

func newServer(o *redis.Options) (*server, error) {
	if o == nil {
		return nil, fmt.Errorf("nil")
	}
	s := &server{Options: *o}
	if s.Addr == "" {
		s.Addr = "localhost:6379"
	}
	if s.Network == "" && strings.HasPrefix(s.Addr, "/") {
		s.Network = "unix"
	} else if s.Network == "" {
		s.Network = "tcp"
	}
	if s.DialTimeout == 0 {
		s.DialTimeout = time.Second
	}
	s.TLSConfig = s.TLSConfig.Clone()
	return s, s.check()
}

func (s *server) check() error {
	switch {
	case s.OnConnect != nil:
		return fmt.Errorf("OnConnect: a node has no connection of go-redis to call it with; set it to nil in a copy of the options " +
			"if locks do not need what it does")
	case s.DB < 0:
		return fmt.Errorf("DB %d: must be a number from 0", s.DB)
	case s.DialTimeout < 0:
		return fmt.Errorf("DialTimeout %s: must not be below zero", s.DialTimeout)
	case s.Dialer != nil: // which may take any Network and Addr
		return nil
	case !slices.Contains([]string{"tcp", "tcp4", "tcp6", "unix"}, s.Network):
		return fmt.Errorf("Network %q: must be tcp, tcp4, tcp6 or unix without a Dialer", s.Network) //nolint:staticcheck // it is the name of the field
	case s.Network == "unix":
		return nil
	}
	if _, _, err := net.SplitHostPort(s.Addr); err != nil {
		return fmt.Errorf("Addr: %w", err) //nolint:staticcheck // it is the name of the field
	}
	return nil
}

// same reports whether both options name one server.
func (s *server) same(other *server) bool {
	return s.Addr == other.Addr || s.Network != "unix" && strings.EqualFold(s.Addr, other.Addr)
}

// dial makes a connection as go-redis does. What it returns closes at once.
func (s *server) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.DialTimeout)
	defer cancel()
	if s.Dialer != nil {
		conn, err := s.Dialer(ctx, s.Network, s.Addr)
		if secure, ok := conn.(*tls.Conn); ok && err == nil {
			return abrupt{secure}, nil
		}
		return conn, err
	}
	// This notices within half a minute that the other end has vanished, as package pool does.
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	if s.TLSConfig == nil {
		return dialer.DialContext(ctx, s.Network, s.Addr)
	}
	conn, err := (&tls.Dialer{NetDialer: &dialer, Config: s.TLSConfig}).DialContext(ctx, s.Network, s.Addr)
	if err != nil {
		return nil, err
	}
	return abrupt{conn.(*tls.Conn)}, nil
}

// abrupt is a connection whose Close does not say goodbye, which may take seconds.
type abrupt struct{ *tls.Conn }

func (c abrupt) Close() error { return c.NetConn().Close() }

// credentials returns what go-redis would log in with.
func (s *server) credentials(ctx context.Context) (username, password string, err error) {
	switch {
	case s.StreamingCredentialsProvider != nil:
		username, password, err = s.current()
	case s.CredentialsProviderContext != nil:
		username, password, err = s.CredentialsProviderContext(ctx)
	case s.CredentialsProvider != nil:
		username, password = s.CredentialsProvider()
	default:
		username, password = s.Username, s.Password
	}
	if password == "" {
		username = "" // go-redis does not log in then
	}
	return username, password, err
}

// current asks the StreamingCredentialsProvider for what it has at this moment. The listener is always the same, so that it is subscribed
// once, and stays so: a provider may stop when nobody listens.
func (s *server) current() (username, password string, err error) {
	credentials, _, err := s.StreamingCredentialsProvider.Subscribe(&s.listener)
	if err != nil {
		return "", "", err
	}
	username, password = credentials.BasicAuth()
	return username, password, nil
}

// deaf is a listener that does nothing. It has a size: a provider tells its listeners apart by their addresses.
type deaf struct{ _ byte }

func (*deaf) OnNext(auth.Credentials) {}
func (*deaf) OnError(error)           {}
