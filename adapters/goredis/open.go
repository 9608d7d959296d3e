package goredis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/quorumlock/quorumlock/adapters/internal/nodes"
	"github.com/quorumlock/quorumlock/internal/invalid"
	"github.com/quorumlock/quorumlock/pool"
)

// Open makes one node for each of the options, Nodes[i] for servers[i]. Nothing is connected before the first use. The package
// documentation says what is carried over. Later changes of the options have no effect.
//
// Each of the options must name a server of its own. The same Addr twice is refused, also with different Dialers: these get the
// Addr, and may take any. Open does not notice one server under two names, such as localhost and 127.0.0.1. The Locker does when both
// are connected, and counts one of the two (nodeerr.ErrSameServer). Only if the server does not permit INFO has it two votes.
//
// opts are those of package pool that do not say how to connect. [pool.WithTLSConfig], [pool.WithCredentials],
// [pool.WithClientName] and [pool.WithDialer] are refused. [pool.WithDialTimeout] takes the place of DialTimeout, and
// [pool.WithName] that of Addr.
//
// The errors are redlock.ErrInvalid, with a text that names the options by their index and the field by its name.
func Open(servers []*redis.Options, opts ...pool.Option) ([]*pool.Node, error) {
	return open(servers, newNode, opts)
}

func newNode(o *redis.Options) (*nodes.Server, error) {
	if err := fields.Check(*o); err != nil {
		return nil, err
	}
	if o.Dialer != nil && o.Addr == ofFailover {
		return nil, fmt.Errorf("Addr %s: redis.NewFailoverClient has made these: give OpenFailover what it got", ofFailover) //nolint:staticcheck // it is the name of the field
	}
	s, err := newServer(*o)
	if err != nil {
		return nil, err
	}
	return s.node(), nil
}

// ofFailover is the Addr in the options of a client that redis.NewFailoverClient has made. Their Dialer asks the sentinels.
const ofFailover = "FailoverClient"

// open makes one node of each of some options, of which read makes what package nodes understands.
func open[O any](all []*O, read func(*O) (*nodes.Server, error), opts []pool.Option) ([]*pool.Node, error) {
	servers := make([]*nodes.Server, len(all))
	for i, o := range all {
		if o == nil {
			return nil, invalid.Errorf("goredis: options %d: nil", i)
		}
		var err error
		if servers[i], err = read(o); err != nil {
			return nil, invalid.Errorf("goredis: options %d: %w", i, err)
		}
	}
	made, err := nodes.Open(servers, opts)
	if err != nil {
		return nil, invalid.Errorf("goredis: %w", err)
	}
	return made, nil
}

// server is a copy of options, with the defaults of those fields that are used.
type server struct {
	redis.Options
	listener deaf
}

func newServer(o redis.Options) (*server, error) {
	s := &server{Options: o}
	if s.Addr == "" {
		s.Addr = "localhost:6379"
	}
	if s.Network == "" && strings.HasPrefix(s.Addr, "/") {
		s.Network = "unix"
	} else if s.Network == "" {
		s.Network = "tcp"
	}
	if s.DialTimeout == 0 {
		s.DialTimeout = nodes.DialTimeout
	}
	s.TLSConfig = s.TLSConfig.Clone()
	return s, s.check()
}

func (s *server) check() error {
	switch {
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

// node returns what package nodes makes a node of.
func (s *server) node() *nodes.Server {
	n := &nodes.Server{
		Address: s.Addr, Database: s.DB, ClientName: s.ClientName, DialTimeout: s.DialTimeout,
		Dial: s.dial(s.TLSConfig), Credentials: s.credentials,
	}
	if s.TLSConfig != nil && s.Dialer == nil && s.Network != "unix" {
		n.TLS, n.Dial = s.TLSConfig, s.dial(nil)
	}
	return n
}

// dial returns a function that makes a connection as go-redis does.
func (s *server) dial(config *tls.Config) nodes.Dialer {
	return func(ctx context.Context, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, s.DialTimeout)
		defer cancel()
		if s.Dialer != nil {
			return s.Dialer(ctx, s.Network, address)
		}
		return nodes.Dial(ctx, net.Dialer{}, s.Network, address, config)
	}
}

// credentials returns what go-redis would log in with.
func (s *server) credentials(ctx context.Context, _ string) (username, password string, err error) {
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
	if credentials == nil && err == nil {
		err = errors.New("StreamingCredentialsProvider returned no credentials and no error")
	}
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
