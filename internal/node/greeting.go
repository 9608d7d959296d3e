package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// connect makes a connection that is ready for commands, within the dial timeout. last is the previous connection, if
// it broke while answers were missing.
func (n *Node) connect(last *conn) (*conn, error) {
	ctx, cancel := context.WithTimeout(n.ctx, n.config.DialTimeout)
	defer cancel()
	idle := 0
	if n.config.Pool != nil {
		idle = n.config.Pool.IdleCount() // idle connections may have died unnoticed: the node tries all of them first
	}
	for ; ; idle-- {
		t, login, err := n.transport(ctx)
		if err != nil {
			idle = 0
		} else {
			c := &conn{transport: t, tag: n.server().Tag, channels: map[string]bool{}, attends: map[string]attendance{}}
			err = n.greet(ctx, c, login, last)
			if idle > 0 && n.left != "" && c.server.Process == n.left {
				err = errFormer
			}
			if err == nil && !n.doubts() {
				return c, nil
			}
			if HungUp(err) {
				err = &wire.HangUp{Err: AsError(err)}
			}
			c.Cut() // so that a pool does not keep the connection
			c.Close()
			if err == nil { // the connection is in doubt: the attempt goes on
				idle++
				continue
			}
		}
		err = AsError(err)
		if ctx.Err() != nil {
			// The dial timeout is over, or the node is closed. If it is closed, ErrClosed replaces this error later.
			err = late(err)
		}
		if idle <= 0 || ctx.Err() != nil || errors.As(err, new(*nodeerr.ServerError)) {
			return nil, &nodeerr.ConnectError{Err: err}
		}
	}
}

// late returns the error of an attempt to connect that its context has ended. That the connection was cut is no news.
func late(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nodeerr.ErrTimeout
	}
	return fmt.Errorf("%w: %w", nodeerr.ErrTimeout, err)
}

// errFormer is the error of a connection that a pool has kept to a server which the node has left.
var errFormer = errors.New("nodeerr: it leads to the server whose place another has taken")

// HungUp reports whether an error means that the other side has ended the connection.
func HungUp(err error) bool {
	ends := []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, syscall.ECONNRESET, syscall.EPIPE}
	return slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) })
}

// transport connects to the server of the configuration, or borrows a connection of the pool, which has logged in
// already.
func (n *Node) transport(ctx context.Context) (_ transport, login [][]string, err error) {
	if n.config.Pool != nil {
		redigo, err := n.config.Pool.GetContext(ctx)
		return &redigoConn{conn: redigo}, nil, err
	}
	return Dial(ctx, *n.config.Server)
}

// greet logs in, switches to RESP3 and learns the identity of the server, all with one write. Then it stamps the
// server. It fails when ctx ends.
//
// If answers were missing when the last connection broke, greet also ends that connection on the server. The server may
// still have commands to read from it, for example an acquire. They must not take effect after the commands of the new
// connection.
func (n *Node) greet(ctx context.Context, c *conn, login [][]string, last *conn) (err error) {
	stop := context.AfterFunc(ctx, c.Cut)
	defer func() {
		if !stop() && err == nil { // ctx has ended, which cuts the connection
			err = ctx.Err()
		}
	}()
	if err := c.exchange(n.greeting(login)); err != nil {
		return err
	}
	// Only the process that numbered the last connection can end it by that number.
	if last != nil && last.client != 0 && c.server.Process != "" && last.server.Process == c.server.Process {
		if err := c.exchange([][]string{{"CLIENT", "KILL", "ID", strconv.FormatInt(last.client, 10)}}); err != nil {
			return err
		}
	}
	return n.stamp(c)
}

// doubts reports whether a connection that was greeted must not be used, see [wire.Life.Doubts].
func (n *Node) doubts() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pipeline.Life.Doubts()
}

// infos are the commands that ask for the identity of the server. One INFO with both sections needs Redis 7.
var infos = [][]string{{"INFO", "server"}, {"INFO", "replication"}}

// greeting returns the commands of the next greeting. The login comes first.
func (n *Node) greeting(login [][]string) [][]string {
	n.mu.Lock()
	greeting := n.pipeline.Life.Greeting()
	n.mu.Unlock()
	commands := slices.Concat(login, infos, [][]string{{"CLIENT", "ID"}})
	if greeting == wire.Full {
		return commands
	}
	commands = slices.DeleteFunc(commands, func(words []string) bool {
		return words[0] == "HELLO" || greeting == wire.Bare && (words[0] == "INFO" || words[0] == "CLIENT")
	})
	return append(commands, []string{"PING"}) // the server has something to answer in any case
}

// login returns the commands that only connections of pool.Open need.
func (s *Server) login() (commands [][]string) {
	switch {
	case s.Username != "":
		commands = append(commands, []string{"AUTH", s.Username, s.Password})
	case s.Password != "":
		commands = append(commands, []string{"AUTH", s.Password})
	}
	commands = append(commands, []string{"HELLO", "3"})
	if s.ClientName != "" {
		commands = append(commands, []string{"CLIENT", "SETNAME", s.ClientName})
	}
	if s.Database != 0 {
		commands = append(commands, []string{"SELECT", strconv.Itoa(s.Database)})
	}
	return commands
}

// exchange writes commands of the greeting and reads their replies. If the server refuses the login, exchange still
// reads the other replies, to find out whether it is a Sentinel. A Sentinel does not know the password or the databases
// of the servers that it watches.
func (c *conn) exchange(commands [][]string) error {
	for _, words := range commands {
		c.Put(words)
	}
	if err := c.Flush(); err != nil {
		return err
	}
	var refused error
	for _, words := range commands {
		v, err := c.Read()
		if err == nil {
			err = c.greeted(words, &v)
		}
		if err == nil {
			continue
		}
		if errors.Is(err, nodeerr.ErrSentinel) {
			return err
		}
		if refused == nil {
			refused = err
		}
		var refusal *nodeerr.ServerError
		if !errors.As(err, &refusal) || EndsConnection(refusal) {
			return refused
		}
	}
	return refused
}

// greeted handles the reply to a command of the greeting. A refusal is an error if the node cannot do without the
// command, or if the refusal is about the whole connection.
func (c *conn) greeted(words []string, v *wire.Value) error {
	name := words[0]
	if name == "CLIENT" {
		name = words[1]
	}
	required := name == "AUTH" || name == "SETNAME" || name == "SELECT"
	if refusal := v.Refusal(); refusal != nil && (required || EndsConnection(refusal)) {
		return refusal
	} else if refusal != nil {
		return nil
	}
	ok := v.IsOK()
	switch name {
	case "HELLO":
		c.resp3 = v.Kind == '%'
		ok = c.resp3 || v.Kind == '*'
	case "INFO":
		ok = v.IsText()
	case "ID":
		c.client, ok = v.Num, v.Kind == ':'
	case "PING":
		ok = ping.confirmedBy(v)
	case "KILL":
		ok = v.Kind == ':' // how many connections were ended
	}
	switch {
	case v.Kind == '>':
		return errUnasked
	case !ok:
		return wire.Unexpected(v).Err
	case name == "INFO":
		return c.identify(v.Text)
	}
	return nil
}

// EndsConnection reports whether the refusal of a command is about the whole connection.
func EndsConnection(e *nodeerr.ServerError) bool {
	switch e.Code {
	// These mean: no password; protected mode; a script runs, and the server answers after it.
	case "NOAUTH", "DENIED", "BUSY":
		return true
	}
	return strings.HasPrefix(e.Message, "ERR max number of clients")
}

var (
	runID         = regexp.MustCompile(`(?m)^run_id:(\S{1,128})`)
	history       = regexp.MustCompile(`(?m)^master_replid:(\w{1,128})`)
	before        = regexp.MustCompile(`(?m)^master_replid2:(0{0,128}[1-9a-zA-Z]\w{0,128})`) // only zeros mean none
	redisVersion  = regexp.MustCompile(`(?m)^redis_version:((\d{1,4})\.(\d{1,4}))`)
	primary       = regexp.MustCompile(`(?m)^role:master\b`)
	replica       = regexp.MustCompile(`(?m)^role:slave\b`)
	needsReplicas = regexp.MustCompile(`(?m)^min_slaves_good_slaves:`) // only if min-replicas-to-write is above 0
	valkeyVersion = regexp.MustCompile(`(?m)^valkey_version:`)
	sentinel      = regexp.MustCompile(`(?m)^(redis|server)_mode:sentinel\b`) // Valkey may call it server_mode
)

// RefuseSentinel returns [nodeerr.ErrSentinel] if a reply to INFO server is that of a Sentinel.
func RefuseSentinel(info string) error {
	if sentinel.MatchString(info) {
		return nodeerr.ErrSentinel
	}
	return nil
}

// Identity returns the identity of a server from its replies to INFO.
func Identity(infos ...string) (server wire.Identity) {
	for _, info := range infos {
		for of, in := range map[*regexp.Regexp]*string{
			runID: &server.Process, history: &server.History, before: &server.Before,
		} {
			if match := of.FindStringSubmatch(info); match != nil {
				*in = match[1]
			}
		}
	}
	return server
}

// identify handles the reply to INFO server or INFO replication. It fails if the server is a Sentinel, a replica, or
// too old.
func (c *conn) identify(info []byte) error {
	if err := RefuseSentinel(string(info)); err != nil {
		return err
	}
	id, known := Identity(string(info)), c.server
	c.server = wire.Identity{
		Process: cmp.Or(id.Process, known.Process),
		History: cmp.Or(id.History, known.History),
		Before:  cmp.Or(id.Before, known.Before),
	}
	if replica.Match(info) {
		return wire.NewServerError("READONLY role:slave")
	}
	if primary.Match(info) {
		c.alone = !needsReplicas.Match(info)
	}
	version := redisVersion.FindSubmatch(info)
	if version == nil || valkeyVersion.Match(info) {
		return nil
	}
	major, _ := strconv.Atoi(string(version[2]))
	minor, _ := strconv.Atoi(string(version[3]))
	if major < 6 || major == 6 && minor < 2 {
		return fmt.Errorf("%w: Redis %s; Redis 6.2, Valkey 7.2 or newer is needed", nodeerr.ErrOldServer, version[1])
	}
	return nil
}
