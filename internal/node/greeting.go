package node

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// connect makes a connection that is ready for commands, within the dial timeout. last is the connection before, if
// it broke with answers missing.
func (n *Node) connect(ctx context.Context, last *conn) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, n.config.DialTimeout)
	defer cancel()
	idle := 0
	if n.config.Pool != nil {
		idle = n.config.Pool.IdleCount() // these may have died unnoticed: the node goes through them first
	}
	for ; ; idle-- {
		t, server, err := n.transport(ctx)
		if err != nil {
			return nil, &ConnectError{Err: asError(err)}
		}
		c := &conn{transport: t, broken: make(chan struct{}), channels: map[string]bool{}, up: -1}
		if err = c.greet(ctx, server, last); err == nil {
			return c, nil
		}
		c.cut() // so that a pool does not keep it
		c.close()
		if err = asError(err); idle <= 0 || ctx.Err() != nil || errors.As(err, new(*ServerError)) {
			return nil, &ConnectError{Err: err}
		}
	}
}

// transport connects to the server of the configuration, which is returned with its credentials, or borrows a connection
// of the pool.
func (n *Node) transport(ctx context.Context) (transport, *Server, error) {
	if n.config.Pool != nil {
		redigo, err := n.config.Pool.GetContext(ctx)
		return &redigoConn{conn: redigo}, nil, err
	}
	s := *n.config.Server
	if s.Credentials != nil {
		var err error
		if s.Username, s.Password, err = s.Credentials(ctx); err != nil {
			return nil, nil, fmt.Errorf("credentials: %w", err)
		}
	}
	t, err := dial(ctx, &s)
	return t, &s, err
}

// greeting is a command of the greeting and what becomes of its reply.
type greeting struct {
	words    []string
	required bool // a refusal ends the connection
	reply    func(*value) error
}

// greet logs in, unless a pool has done so, switches to RESP3 and learns who is at the other end, all with one write.
//
// If answers were missing when the last connection broke, greet also ends that connection on the server: what the
// server may still have to read from it (for example an acquire) must not take effect after what comes over this one.
func (c *conn) greet(ctx context.Context, s *Server, last *conn) error {
	defer context.AfterFunc(ctx, c.cut)()
	all := append(c.login(s),
		greeting{words: []string{"INFO", "server"}, reply: c.info},
		greeting{words: []string{"CLIENT", "ID"}, reply: func(v *value) error {
			c.client = v.num
			return expect(v, v.kind == ':')
		}})
	if err := c.exchange(ctx, all); err != nil {
		return err
	}
	if last == nil || last.client == 0 || c.server == "" || last.server != c.server {
		return nil // there is none, or it cannot be named for certain
	}
	return c.exchange(ctx, []greeting{{words: []string{"CLIENT", "KILL", "ID", strconv.FormatInt(last.client, 10)}}})
}

// login are the commands that only connections of Open need. The connection of a wrapped pool has no s.
func (c *conn) login(s *Server) (all []greeting) {
	if s == nil {
		return nil
	}
	if s.Password != "" || s.Username != "" {
		auth := []string{"AUTH", s.Username, s.Password}
		if s.Username == "" {
			auth = []string{"AUTH", s.Password}
		}
		all = append(all, greeting{words: auth, required: true, reply: expectOK})
	}
	all = append(all, greeting{words: []string{"HELLO", "3"}, reply: func(v *value) error {
		c.resp3 = v.kind == '%'
		return expect(v, c.resp3 || v.kind == '*')
	}})
	if s.ClientName != "" {
		all = append(all, greeting{words: []string{"CLIENT", "SETNAME", s.ClientName}, required: true, reply: expectOK})
	}
	if s.Database != 0 {
		all = append(all, greeting{words: []string{"SELECT", strconv.Itoa(s.Database)}, required: true, reply: expectOK})
	}
	return all
}

// expect fails unless the value is one that Redis replies with.
func expect(v *value, ok bool) error {
	if !ok {
		return unexpected(v).Err
	}
	return nil
}

func expectOK(v *value) error { return expect(v, v.isOK()) }

// exchange writes the commands and reads their replies. It fails when ctx ends, as greet cuts the connection then.
func (c *conn) exchange(ctx context.Context, all []greeting) (err error) {
	defer func() {
		if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}()
	for _, g := range all {
		if err := c.put(g.words); err != nil {
			return err
		}
	}
	if err := c.flush(); err != nil {
		return err
	}
	for _, g := range all {
		v, err := c.read()
		if err != nil {
			return err
		}
		refusal := v.err()
		switch {
		case v.kind == '>':
			return fmt.Errorf("%w: a push that nobody asked for", ErrProtocol)
		case refusal != nil && (g.required || ends(refusal)):
			return refusal
		case refusal == nil && g.reply != nil:
			if err := g.reply(&v); err != nil {
				return err
			}
		}
	}
	return nil
}

// ends reports whether a refusal is about the whole connection, and not just about a command that the node can do
// without.
func ends(refusal error) bool {
	switch serverCode(refusal) {
	case "NOAUTH", "DENIED", "BUSY": // no password; protected mode; a script that runs: the server answers after it
		return true
	}
	return strings.HasPrefix(refusal.Error(), "ERR max number of clients")
}

var (
	runID         = regexp.MustCompile(`(?m)^run_id:(\S+)`)
	uptime        = regexp.MustCompile(`(?m)^uptime_in_seconds:(\d{1,9})\b`)
	redisVersion  = regexp.MustCompile(`(?m)^redis_version:((\d{1,4})\.(\d{1,4})\S*)`)
	valkeyVersion = regexp.MustCompile(`(?m)^valkey_version:`)
)

// info reads the reply to INFO server.
func (c *conn) info(v *value) error {
	if !v.isText() {
		return expect(v, false)
	}
	if match := runID.FindSubmatch(v.text); match != nil {
		c.server = string(match[1])
	}
	c.up = uptimeOf(v.text)
	version := redisVersion.FindSubmatch(v.text)
	if version == nil || valkeyVersion.Match(v.text) {
		return nil
	}
	major, _ := strconv.Atoi(string(version[2]))
	minor, _ := strconv.Atoi(string(version[3]))
	if major < 6 || major == 6 && minor < 2 {
		return fmt.Errorf("%w: Redis %s; Redis 6.2, Valkey 7.2 or newer is needed", ErrOldServer, version[1])
	}
	return nil
}

// uptimeOf returns how long a server has been up at least, by its reply to INFO; below zero if it does not report it.
// Redis subtracts two times in whole seconds, so that what it reports may be a second too long.
func uptimeOf(info []byte) time.Duration {
	match := uptime.FindSubmatch(info)
	if match == nil {
		return -1
	}
	seconds, _ := strconv.Atoi(string(match[1]))
	return time.Duration(max(0, seconds-1)) * time.Second
}
