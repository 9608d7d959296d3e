package node_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

func TestMain(m *testing.M) {
	wire.Illegal = func(change string) { panic(change) }
	goleak.VerifyTestMain(m)
}

const (
	// bound is how long a test waits for what has to happen: far above what it takes.
	bound = 20 * time.Second
	// ttl is one that no test sees the end of.
	ttl = time.Minute
	// tick is how often a test looks whether it has happened.
	tick = 2 * time.Millisecond
)

// option changes the configuration of a node.
type option func(*node.Config)

// patient makes a node that no busy machine makes impatient, for tests in which every command is answered.
func patient() option { return withTimeout(bound) }

func withTimeout(d time.Duration) option     { return func(c *node.Config) { c.Timeout = d } }
func withDialTimeout(d time.Duration) option { return func(c *node.Config) { c.DialTimeout = d } }
func withMaxOverdue(d time.Duration) option  { return func(c *node.Config) { c.MaxOverdue = d } }
func withGuard(ttl time.Duration) option     { return func(c *node.Config) { c.MaxTTL = ttl } }
func withDialer(dial dialer) option          { return func(c *node.Config) { c.Server.Dial = dial } }
func withTLS(config *tls.Config) option      { return func(c *node.Config) { c.Server.TLS = config } }
func withDatabase(n int) option              { return func(c *node.Config) { c.Server.Database = n } }
func withClientName(name string) option      { return func(c *node.Config) { c.Server.ClientName = name } }
func withLogin(user, password string) option {
	return func(c *node.Config) { c.Server.Username, c.Server.Password = user, password }
}

func withCredentials(look func(context.Context) (user, password string, err error)) option {
	return func(c *node.Config) {
		c.Server.Credentials = func(ctx context.Context, addr string) (string, string, error) {
			if addr != c.Server.Address {
				return "", "", fmt.Errorf("credentials for %q, not %q", addr, c.Server.Address)
			}
			return look(ctx)
		}
	}
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// newNode makes a node that the test has to close itself. An address that begins with / is that of a Unix socket.
func newNode(address string, opts ...option) *node.Node {
	config := node.Config{
		Addr: address, Timeout: 50 * time.Millisecond, DialTimeout: time.Second, MaxOverdue: time.Second,
		Server: &node.Server{Network: "tcp", Address: address, Dial: new(net.Dialer).DialContext},
	}
	if strings.HasPrefix(address, "/") {
		config.Server.Network = "unix"
	}
	for _, opt := range opts {
		opt(&config)
	}
	return node.New(config)
}

// open makes a node that is closed with its test.
func open(t testing.TB, address string, opts ...option) *node.Node {
	t.Helper()
	n := newNode(address, opts...)
	t.Cleanup(func() { closeInTime(t, n) })
	return n
}

// newWrapped makes a node of a redigo pool, which the test has to close itself.
func newWrapped(redisPool *redis.Pool, opts ...option) *node.Node {
	return newNode("wrapped", append(opts, func(c *node.Config) { c.Server, c.Pool = nil, redisPool })...)
}

// wrap makes a node of a redigo pool, and closes both with the test.
func wrap(t testing.TB, redisPool *redis.Pool, opts ...option) *node.Node {
	t.Helper()
	n := newWrapped(redisPool, opts...)
	t.Cleanup(func() {
		closeInTime(t, n)
		require.NoError(t, redisPool.Close())
	})
	return n
}

// poolOf makes a redigo pool of a server.
func poolOf(server testredis.Server) *redis.Pool {
	return &redis.Pool{MaxIdle: 8, DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", server.Addr())
	}}
}

// closeInTime fails the test if Close hangs.
func closeInTime(t testing.TB, n *node.Node) {
	t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- n.Close() }()
	require.NoError(t, next(t, closed, "Close hangs"))
}

// openReal starts a real server, and opens a node of it.
func openReal(t testing.TB, args ...string) (*testredis.Process, *node.Node) {
	t.Helper()
	server := testredis.Real(t, 1, args...)[0]
	return server, open(t, server.Addr(), patient())
}

// onBoth runs a test on each kind of server, with a node of it.
func onBoth(t *testing.T, test func(t *testing.T, server testredis.Server, n *node.Node)) {
	t.Run("redis-server", func(t *testing.T) {
		server, n := openReal(t)
		test(t, server, n)
	})
	t.Run("miniredis", func(t *testing.T) {
		server := testredis.Mini(t, 1)[0]
		test(t, server, open(t, server.Addr(), patient()))
	})
}

// onBothNodes runs a test on a real server, with a node that connects and with one of a wrapped pool: each has code of
// its own for what goes over the connection.
func onBothNodes(t *testing.T, opts []option, test func(t *testing.T, server *testredis.Process, n *node.Node)) {
	server := testredis.Real(t, 1)[0]
	t.Run("connects", func(t *testing.T) { test(t, server, open(t, server.Addr(), opts...)) })
	t.Run("wrapped", func(t *testing.T) { test(t, server, wrap(t, poolOf(server), opts...)) })
}

// inbox is where the replies to commands arrive.
type inbox chan wire.Reply

func (b inbox) Reply(_ wire.Tag, reply *wire.Reply) { b <- *reply }

// next waits for the next reply.
func (b inbox) next(t testing.TB) wire.Reply {
	t.Helper()
	return next(t, b, "a command was never answered")
}

// next waits for what comes next.
func next[T any](t testing.TB, from <-chan T, otherwise string) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(bound):
		require.FailNow(t, otherwise)
	}
	return got
}

// receiver is a Receiver that takes note whose reply comes.
type receiver func(wire.Tag)

func (r receiver) Reply(tag wire.Tag, _ *wire.Reply) { r(tag) }

// sendTo sends a command. If the node does not take it, that is the reply.
func sendTo(n *node.Node, cmd *wire.Command, to wire.Receiver, number int) {
	tag := wire.Tag{Node: uint16(number)}
	if err := n.Send(time.Now(), cmd, to, tag); err != nil && to != nil {
		to.Reply(tag, wire.Unsent(err))
	}
}

// send puts a command to the node and returns where its reply arrives.
func send(n *node.Node, cmd *wire.Command) inbox {
	replies := make(inbox, 8) // one is right; room for more shows that too many came
	sendTo(n, cmd, replies, 0)
	return replies
}

// ask puts a command to the node and waits for the reply.
func ask(t testing.TB, n *node.Node, cmd *wire.Command) wire.Reply {
	t.Helper()
	return send(n, cmd).next(t)
}

// together sends commands, in order, and returns the replies. As the first that is sent to a node they wait for its
// connection, and so for each other.
func together(t testing.TB, n *node.Node, cmds []*wire.Command) []wire.Reply {
	t.Helper()
	return replies(t, sendAll(n, cmds))
}

func sendAll(n *node.Node, cmds []*wire.Command) []inbox {
	inboxes := make([]inbox, len(cmds))
	for i, cmd := range cmds {
		inboxes[i] = send(n, cmd)
	}
	return inboxes
}

func replies(t testing.TB, inboxes []inbox) []wire.Reply {
	t.Helper()
	replies := make([]wire.Reply, len(inboxes))
	for i, in := range inboxes {
		replies[i] = in.next(t)
		require.Empty(t, in, "answered twice")
	}
	return replies
}

// everyKind makes one command of each kind.
func everyKind() map[string]*wire.Command {
	return map[string]*wire.Command{
		"acquire": newAcquire("key", "token", ttl),
		"release": newRelease("key", "token", ttl),
		"extend":  newExtend("key", "token", ttl),
		"delete":  newDelete("key", "token"),

		"acquire with fencing": newAcquireFenced("key", "token", ttl, counted{}),
		"raise":                newRaise("key", "token", 1, 2),
		"release with fencing": newReleaseFenced("key", "token", 1, ttl),
		"extend with fencing":  newExtendFenced("key", "token", 1, ttl, ttl),

		"acquire all":              newAcquireAll("token", ttl, "key", "beside"),
		"acquire all with fencing": newAcquireAllFenced("token", ttl, counted{}, "key", "beside"),

		"heal":    form.Exclusive{}.Heal("key", "token"),
		"observe": form.Exclusive{}.Observe("key"),
		"publish": node.Publish("channel", "message"),
	}
}

// requireYes asks and fails the test unless the answer is yes.
func requireYes(t testing.TB, n *node.Node, cmd *wire.Command) {
	t.Helper()
	requireReply(t, quorum.Yes, nil, ask(t, n, cmd))
}

func requireAllYes(t testing.TB, replies []wire.Reply) {
	t.Helper()
	for _, reply := range replies {
		requireReply(t, quorum.Yes, nil, reply)
	}
}

// requireBack waits until the node does what it is asked to.
func requireBack(t testing.TB, n *node.Node) {
	t.Helper()
	require.Eventually(t, func() bool {
		reply := ask(t, n, newRelease("nothing", "token", ttl))
		return reply.Answer == quorum.No && errors.Is(reply.Err, nodeerr.ErrAbsent)
	}, bound, tick)
}

// requireReply fails the test unless the reply has this answer and reason.
func requireReply(t testing.TB, answer quorum.Answer, reason error, reply wire.Reply) {
	t.Helper()
	require.ErrorIs(t, reply.Err, reason)
	require.Equal(t, answer, reply.Answer)
}

// requireServerError fails the test unless the reply has this answer, and the server's error of this code as the reason.
func requireServerError(t testing.TB, reply wire.Reply, answer quorum.Answer, code string) {
	t.Helper()
	refusal := (*nodeerr.ServerError)(nil)
	require.ErrorAs(t, reply.Err, &refusal)
	require.Equal(t, code, refusal.Code, "in %q", refusal.Message)
	require.Equal(t, answer, reply.Answer)
}

// requireRefused fails the test unless the server has refused the command with the code.
func requireRefused(t testing.TB, reply wire.Reply, code string) {
	t.Helper()
	requireServerError(t, reply, quorum.Refused, code)
	require.NotErrorAs(t, reply.Err, new(*nodeerr.ConnectError))
}

// requireUnconnected fails the test unless there is no connection because of the code.
func requireUnconnected(t testing.TB, reply wire.Reply, code string) {
	t.Helper()
	requireServerError(t, reply, quorum.Unsent, code)
	require.ErrorAs(t, reply.Err, new(*nodeerr.ConnectError))
}

// bubble runs a subtest in virtual time.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// pass lets time go by. Only for synctest, where that costs none and everything else has happened before.
func pass(d time.Duration) { <-time.After(d) }

// do runs a command on the server that has to work.
func do(t testing.TB, server testredis.Server, cmd string, args ...any) any {
	t.Helper()
	reply, err := server.Do(cmd, args...)
	require.NoError(t, err)
	return reply
}

// left returns how long the key has to live; below zero if it is not there or has no TTL.
func left(t testing.TB, server testredis.Server, key string) time.Duration {
	t.Helper()
	return time.Duration(redisInt(t, server, "PTTL", key)) * time.Millisecond
}

// holds returns what the key holds; "" if it is not there.
func holds(t testing.TB, server testredis.Server, key string) string {
	t.Helper()
	value, err := redis.String(do(t, server, "GET", key), nil)
	if !errors.Is(err, redis.ErrNil) {
		require.NoError(t, err)
	}
	return value
}

// clients returns the numbers of the server's connections, without the one that asks.
func clients(t testing.TB, server testredis.Server) []string {
	t.Helper()
	list, err := redis.String(do(t, server, "CLIENT", "LIST"), nil)
	require.NoError(t, err)
	var numbers []string
	for client := range strings.Lines(list) {
		if !strings.Contains(client, " cmd=client|list ") && !strings.Contains(client, " cmd=client ") {
			number, _, _ := strings.Cut(strings.TrimPrefix(client, "id="), " ")
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// calls returns how often the server has carried out one of the commands. Redis 6.2 does not count subcommands.
func calls(t testing.TB, server testredis.Server, commands ...string) (sum int) {
	t.Helper()
	for _, command := range commands {
		stats := testredis.Info(t, server, "commandstats", "cmdstat_"+command)
		count, _, _ := strings.Cut(strings.TrimPrefix(stats, "calls="), ",")
		n, err := strconv.Atoi("0" + count)
		require.NoError(t, err)
		sum += n
	}
	return sum
}

// requireCalls waits until the server has carried out a command that often.
func requireCalls(t testing.TB, server testredis.Server, command string, want int) {
	t.Helper()
	require.Eventually(t, func() bool { return calls(t, server, command) == want }, bound, tick)
}

// restricted starts a server with a user of these rules, and opens a node for it.
func restricted(t testing.TB, rules ...any) (*testredis.Process, *node.Node) {
	t.Helper()
	return restrictedBehind(t, new(gate), rules...)
}

// restrictedBehind has the connections of the node behind a gate.
func restrictedBehind(t testing.TB, g *gate, rules ...any) (*testredis.Process, *node.Node) {
	t.Helper()
	server := testredis.Real(t, 1)[0]
	do(t, server, "ACL", append([]any{"SETUSER", "locker", "on", ">pw", "~*", "+@all"}, rules...)...)
	return server, open(t, server.Addr(), withLogin("locker", "pw"), patient(), withDialer(g.behind(new(net.Dialer).DialContext)))
}

// fenced is what a key holds that was set with fencing.
func fenced(token string, number uint64) string { return fmt.Sprintf("%s|%d", token, number) }

// now is the time in the units of counters.
func now() uint64 { return uint64(time.Now().UnixMicro()) }

// at is the counter of a caller whose estimate of the time this is.
func at(time uint64) counted { return counted{Keep: keep, Now: time} }
