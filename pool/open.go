// Package pool makes Redis servers into lock nodes.
//
// A [Node] is one independent Redis server behind a redigo pool, spoken to over one
// long-lived, pipelined connection that any number of callers share. It connects
// on first use and again whenever the connection breaks; one attempt at a time.
//
// A node never makes its callers wait for longer than the node timeout
// ([WithTimeout]). A server that does not answer is not asked again until the
// answers it owes have come in, or until its connection was given up
// ([WithMaxOverdue]) and a new one made.
//
// A node also looks at keys ([Look]), and tells when they change ([Node.Listen]). Those who
// wait for a lock need not ask again and again.
//
// What the commands mean, and how the votes of several nodes become a lock, is the
// business of package redlock; programs make nodes here and hand them over there.
package pool

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/gomodule/redigo/redis"
)

// Open makes one node per URL, Nodes[i] for urls[i]. Nothing is connected before
// the first command.
//
// The forms are redis://[user:password@]host[:port][/db], rediss:// for TLS, and
// unix://[user:password@]/path/to/socket[?db=n]; the port is 6379 by default. Each URL
// must name a server of its own: two databases of one server fall together, so they
// are refused like the same address given twice.
//
// An empty list, a URL that is not of these forms or an option out of range is an
// error that names it; passwords are not repeated in it.
func Open(urls []string, opts ...Option) ([]*Node, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	if len(urls) == 0 {
		return nil, errors.New("pool: no URL given: a lock needs at least one node")
	}
	targets := make([]target, len(urls))
	for i, raw := range urls {
		if targets[i], err = parseURL(raw); err != nil {
			return nil, fmt.Errorf("pool: URL %d: %w", i, err)
		}
		same := func(t target) bool { return t.address == targets[i].address }
		if first := slices.IndexFunc(targets[:i], same); first >= 0 {
			return nil, fmt.Errorf("pool: URL %d names the same server as URL %d: %s", i, first, targets[i].address)
		}
	}
	if o.tls != nil && !slices.ContainsFunc(targets, func(t target) bool { return t.tls }) {
		return nil, errors.New("pool: WithTLSConfig, but no URL begins with rediss://: nothing would be encrypted")
	}
	if o.dial == nil {
		o.dial = (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext
	}
	nodes := make([]*Node, len(urls))
	for i, t := range targets {
		redisPool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) { return t.dial(ctx, o) }}
		nodes[i] = newNode(o.nameOf(i, t.address), redisPool, true, o.of(i))
	}
	return nodes, nil
}

// Wrap makes one node per redigo pool that the program already has, Nodes[i] for
// pools[i]. A node borrows one connection from its pool and keeps it while it is
// healthy; Node.Close returns it, and the pool stays open. Where somebody listens
// ([Node.Listen]) the node borrows a second one, if the pool has it to give; that one is
// always closed in the end, never returned for use.
//
// How a pool dials is its own business, within limits: the connections must be
// redigo's, and a DialContext is better than a Dial, which nothing can interrupt.
// Timeouts that the pool sets on its connections do not matter here: the node has
// its own.
//
// An empty list, a nil pool, the same pool twice or an option out of range is an
// error that names it.
func Wrap(pools []*redis.Pool, opts ...Option) ([]*Node, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	if o.tls != nil || o.credentials != nil || o.clientName != "" || o.dial != nil {
		return nil, errors.New("pool: WithTLSConfig, WithCredentials, WithClientName and WithDialer are for Open: a wrapped pool dials for itself")
	}
	if len(pools) == 0 {
		return nil, errors.New("pool: no pool given: a lock needs at least one node")
	}
	nodes := make([]*Node, len(pools))
	for i, p := range pools {
		if p == nil {
			return nil, fmt.Errorf("pool: pool %d is nil", i)
		}
		if first := slices.Index(pools[:i], p); first >= 0 {
			return nil, fmt.Errorf("pool: pool %d is the same as pool %d", i, first)
		}
		nodes[i] = newNode(o.nameOf(i, fmt.Sprintf("node-%d", i)), p, false, o.of(i))
	}
	return nodes, nil
}

func (o *options) nameOf(i int, standard string) string {
	if o.name != nil {
		return o.name(i)
	}
	return standard
}

// of returns the options of the i-th node.
func (o options) of(i int) options {
	if o.durable != nil && o.durable(i) {
		o.guard = 0
	}
	return o
}

// dial makes a connection that is logged in and has its database selected. When
// ctx ends, so does the attempt, wherever it is.
func (t target) dial(ctx context.Context, o options) (redis.Conn, error) {
	username, password := t.username, t.password
	if o.credentials != nil {
		var err error
		if username, password, err = o.credentials(ctx); err != nil {
			return nil, fmt.Errorf("credentials: %w", err)
		}
	}
	var stop func() bool
	conn, err := redis.DialContext(ctx, t.network, t.address,
		redis.DialContextFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
			socket, err := o.dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			// What comes next does not look at the context.
			stop = context.AfterFunc(ctx, func() { _ = socket.Close() })
			conn := socket
			if t.tls {
				if conn, err = t.encrypt(ctx, socket, o.tls); err != nil {
					_ = socket.Close()
					return nil, err
				}
			}
			if d, ok := ctx.Value(dialedKey{}).(*dialed); ok {
				*d = dialed{conn, socket, bufio.NewReader(conn)}
				return sip{conn, d.in}, nil
			}
			return conn, nil
		}),
		redis.DialUsername(username), redis.DialPassword(password),
		redis.DialClientName(o.clientName), redis.DialDatabase(t.database),
	)
	if stop != nil {
		stop()
	}
	if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return conn, err
}

// encrypt puts TLS over a socket; base may be nil.
func (t target) encrypt(ctx context.Context, socket net.Conn, base *tls.Config) (net.Conn, error) {
	config := base.Clone()
	if config == nil {
		config = &tls.Config{}
	}
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(t.address)
		if err != nil {
			return nil, err
		}
		config.ServerName = host
	}
	conn := tls.Client(socket, config)
	return conn, conn.HandshakeContext(ctx)
}
