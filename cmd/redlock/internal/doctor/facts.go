package doctor

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/client"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// facts are what one server has answered. Nothing in them is trusted: texts may be anything, numbers too.
type facts struct {
	to   *node.Server
	addr string
	user string // that the server knows us as

	err  error             // why the server could not be examined; nothing below is known then
	ip   net.IP            // where the connection led; nil for a Unix socket
	cert *x509.Certificate // of the server; nil without TLS

	hangUps []string          // commands on which the connection is closed, which programs and doctor go without
	info    map[string]string // of INFO; nil if it was refused
	noInfo  string            // why
	config  map[string]string // the settings that CONFIG GET has shown
	clients []int64           // CLIENT ID, asked twice on one connection; 0 if it was refused
	runIDs  []string          // on several connections and commands
	who     wire.Identity     // of INFO

	latency     []time.Duration // of PINGs, in ascending order
	clock       time.Duration   // how far the server's clock is ahead of ours
	uncertainty time.Duration   // of clock; below zero if it was not measured

	sentinels int64             // connections of Sentinels; -1 if it is unknown
	guides    []guide           // the servers of the URL of a group or a cluster
	cluster   map[string]string // of CLUSTER INFO; nil if it was refused, or the node is in no cluster
	resp3     error             // why HELLO 3 was refused

	prepared error        // why the server was not stamped, if it was to be
	stamp    client.Stamp // of a node that the restart guard is for
	noStamp  string       // why it is not known

	rights []attempt // each right that was tried
	lock   error     // why a lock could not be taken, extended, inspected and released
	keys   scan
}

func newFacts(s *node.Server) *facts {
	to := *s
	f := &facts{to: &to, addr: s.Address, config: map[string]string{}, uncertainty: -1, sentinels: -1}
	to.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := s.Dial(ctx, network, address)
		if err == nil {
			if tcp, is := conn.RemoteAddr().(*net.TCPAddr); is {
				f.ip = tcp.IP
			}
		}
		return conn, err
	}
	if s.TLS != nil {
		to.TLS = s.TLS.Clone()
		to.TLS.VerifyConnection = func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) > 0 {
				f.cert = state.PeerCertificates[0]
			}
			if s.TLS.VerifyConnection != nil {
				return s.TLS.VerifyConnection(state)
			}
			return nil
		}
	}
	return f
}

// leastPatience is how long the examination of a node may take in any case.
const leastPatience = 15 * time.Second

// errSlow means that a server has answered each command in time, and yet took too long.
var errSlow = errors.New("the server is too slow to be examined")

// gather asks the server for everything.
func (f *facts) gather(ctx context.Context, o *Options) {
	// A server that answers each command just in time must not hold up the examination for ever.
	patience := max(leastPatience, 10*o.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%w: all of it took more than %s", errSlow, patience))
	defer cancel()
	f.user = f.to.Username
	if f.to.Credentials != nil {
		f.user, _, _ = f.to.Credentials(ctx, f.to.Address) // its error comes with the connection
	}
	if f.user == "" {
		f.user = "default"
	}
	probe := o.Prefix + "doctor-" + rand.Text()
	for _, step := range []func(context.Context, *conn, *Options){
		f.tryHangUps, f.look, f.measure,
		func(ctx context.Context, c *conn, o *Options) { f.since(ctx, c, o); f.try(ctx, c, o, probe) },
		f.scan,
	} {
		c, err := f.connect(ctx, o)
		if err == nil {
			step(ctx, c, o)
			c.Close()
			err = c.err
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		if err != nil {
			f.err = err
			return
		}
	}
	f.askGuides(ctx)
	f.lock = f.tryLock(ctx, o, strings.TrimPrefix(probe, o.Prefix))
}

// tryHangUps finds the commands on which the connection is closed, if any.
func (f *facts) tryHangUps(ctx context.Context, c *conn, o *Options) {
	greets := [][]string{{"INFO", "server"}, {"CLIENT", "ID"}, {"CONFIG", "GET", "save"}, {"PUBSUB", "NUMSUB", "x"}, {"HELLO", "3"}}
	// What is about the whole connection, such as a missing password, comes as the reply to any command.
	if _, refusal := c.do(ctx, "PING"); refusal != nil && node.EndsConnection(refusal) {
		c.err = refusal
	}
	if c.err != nil {
		return
	}
	if c.all(ctx, greets...); c.err == nil {
		return
	}
	for _, words := range greets {
		one, err := f.connect(ctx, o)
		if err != nil {
			c.err = err
			return
		}
		_, _ = one.do(ctx, words...)
		one.Close()
		if node.HungUp(one.err) {
			f.hangUps = append(f.hangUps, words[0])
		} else if one.err != nil {
			c.err = one.err
			return
		}
	}
	if len(f.hangUps) > 0 {
		c.err = nil
	}
}

// errHangsUp stands for the answer to a command that is not sent.
var errHangsUp = &nodeerr.ServerError{Message: "the connection is closed"}

// conn is a connection whose commands are bounded. After a failure it carries out no more, so that who uses it may look at err last.
type conn struct {
	*client.Client
	timeout time.Duration // of the next command
	settled time.Duration // of those after the first
	hangUps []string      // commands that are not sent
	err     error         // why the connection is of no use any more
}

// connect makes a connection of the examination.
func (f *facts) connect(ctx context.Context, o *Options) (*conn, error) {
	timeout := client.ConnectTimeout(o.Timeout)
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := client.Connect(bounded, f.to)
	if err != nil {
		return nil, within(bounded, timeout, err)
	}
	return &conn{Client: c, timeout: timeout, settled: o.Timeout, hangUps: f.hangUps}, nil
}

// do sends one command. It returns neither a reply nor a refusal if there is no answer.
func (c *conn) do(ctx context.Context, words ...string) (reply any, refusal *nodeerr.ServerError) {
	if slices.Contains(c.hangUps, words[0]) {
		return nil, errHangsUp
	}
	replies := c.all(ctx, words)
	if replies == nil {
		return nil, nil
	}
	if refusal, is := replies[0].(*nodeerr.ServerError); is {
		return nil, refusal
	}
	return replies[0], nil
}

// all sends commands at once. It returns nil if there is no answer.
func (c *conn) all(ctx context.Context, commands ...[]string) []any {
	if c.err != nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	replies, err := c.DoAll(bounded, commands)
	if err != nil {
		c.err = within(bounded, c.timeout, fmt.Errorf("%s: %w", commands[0][0], err))
		return nil
	}
	c.timeout = c.settled
	return replies
}

// lateError is the end of a timeout.
type lateError struct {
	within time.Duration
	error
}

func (e *lateError) Unwrap() error { return e.error }

// within makes an error a lateError if ctx has ended.
func within(ctx context.Context, timeout time.Duration, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return &lateError{timeout, err}
}

// settings are the parameters that the checks look at.
var settings = []string{
	"save", "appendonly", "appendfsync", "no-appendfsync-on-rewrite", "stop-writes-on-bgsave-error", "min-replicas-to-write",
	"timeout", "maxclients", "tracking-table-max-keys", "client-output-buffer-limit", "repl-backlog-ttl",
	"cluster-require-full-coverage",
}

// look asks the server about itself.
func (f *facts) look(ctx context.Context, c *conn, _ *Options) {
	for range 2 {
		f.clients = append(f.clients, f.identify(ctx, c))
	}
	for _, name := range settings {
		reply, refusal := c.do(ctx, "CONFIG", "GET", name)
		if refusal != nil {
			break // and so would the others be
		}
		if pair, err := redis.Strings(reply, nil); err == nil && len(pair) == 2 && pair[0] == name {
			f.config[name] = pair[1]
		}
	}
	reply, refusal := c.do(ctx, "PUBSUB", "NUMSUB", "__sentinel__:hello")
	if pair, err := redis.Values(reply, nil); refusal == nil && err == nil && len(pair) == 2 {
		if n, err := redis.Int64(pair[1], nil); err == nil {
			f.sentinels = n
		}
	}
	if f.inCluster() {
		reply, _ := c.do(ctx, "CLUSTER", "INFO")
		if text, is := reply.(string); is {
			f.cluster = parseInfo(text)
		}
	}
	// Last, since the connection speaks RESP3 afterwards.
	reply, refusal = c.do(ctx, "HELLO", "3")
	if refusal != nil {
		f.resp3 = refusal
	} else if _, is := reply.([]any); !is {
		f.resp3 = fmt.Errorf("%w: the reply to HELLO 3", nodeerr.ErrProtocol)
	}
}

// identify asks for the identities of the server and of the connection, which is returned.
func (f *facts) identify(ctx context.Context, c *conn) (id int64) {
	reply, refusal := c.do(ctx, "INFO")
	text, isText := reply.(string)
	switch {
	case c.err != nil:
	case refusal == errHangsUp:
		f.noInfo = "INFO, on which the connection is closed"
	case refusal != nil && refusal.Code == "NOPERM":
		f.noInfo = "the right +info"
	case refusal != nil:
		f.noInfo = "INFO, which the server answers with " + quoted(refusal.Message)
	case !isText:
		c.err = fmt.Errorf("%w: the reply to INFO is no text", nodeerr.ErrProtocol)
	case node.RefuseSentinel(text) != nil:
		c.err = node.RefuseSentinel(text)
	default:
		fields := parseInfo(text)
		if f.info == nil {
			f.info, f.who = fields, node.Identity(text)
		}
		f.runIDs = append(f.runIDs, fields["run_id"])
	}
	reply, _ = c.do(ctx, "CLIENT", "ID")
	id, _ = reply.(int64)
	return id
}

// server returns the part of the report that is about the server.
func (f *facts) server() Server {
	s := Server{Node: f.addr, Reachable: f.err == nil, RunID: printable(f.runID())}
	if f.err != nil {
		return s
	}
	s.Version = printable(f.version())
	if up := f.uptime(); up >= 0 {
		seconds := int64(up / time.Second)
		s.UptimeSeconds = &seconds
	}
	if len(f.latency) > 0 {
		s.P50, s.P99 = measured(f.percentile(50)), measured(f.percentile(99))
	}
	if f.uncertainty >= 0 {
		s.ClockOffset, s.ClockError = measured(f.clock), measured(f.uncertainty)
	}
	return s
}

func millis(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

func measured(d time.Duration) *float64 {
	ms := millis(d)
	return &ms
}
