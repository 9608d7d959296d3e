package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

func TestGreeting_LogsInToAServerWithAPassword(t *testing.T) {
	const secret = "pass:w/o?r#d@ %"
	server := testredis.Real(t, 1, "--requirepass", secret)[0]
	acquire := newAcquire("key", "token", ttl)
	requireYes(t, open(t, server.Addr(), withLogin("", secret), patient()), acquire)
	requireYes(t, open(t, server.Addr(), withLogin("default", secret), patient()), newExtend("key", "token", ttl))
	requireUnconnected(t, ask(t, open(t, server.Addr(), patient()), acquire), "NOAUTH")
	for _, wrong := range []option{withLogin("", "wrong"), withLogin("nobody", secret)} {
		reply := ask(t, open(t, server.Addr(), wrong, patient()), acquire)
		requireUnconnected(t, reply, "WRONGPASS")
		require.NotContains(t, reply.Err.Error(), "wrong@")
	}
}

func TestGreeting_AServerWithoutAPasswordRefusesOne(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	reply := ask(t, open(t, server.Addr(), withLogin("", "pw"), patient()), newAcquire("key", "token", ttl))
	requireUnconnected(t, reply, "ERR")
	require.NotContains(t, reply.Err.Error(), "pw")
}

// A server repeats the arguments of commands that it does not know.
func TestGreeting_NoErrorRepeatsThePassword(t *testing.T) {
	server := testredis.Real(t, 1, "--rename-command", "AUTH", "")[0]
	wrapped := &redis.Pool{Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", server.Addr(), redis.DialUsername("user"), redis.DialPassword("hunter2"))
	}}
	for _, n := range []*node.Node{open(t, server.Addr(), withLogin("user", "hunter2"), patient()), wrap(t, wrapped, patient())} {
		reply := ask(t, n, newAcquire("key", "token", ttl))
		requireUnconnected(t, reply, "ERR")
		require.ErrorContains(t, reply.Err, "unknown command")
		refusal := (*nodeerr.ServerError)(nil)
		require.ErrorAs(t, reply.Err, &refusal)
		require.NotContains(t, refusal.Message, "hunter2")
		require.NotContains(t, reply.Err.Error(), "hunter2")
	}
}

func TestGreeting_AnACLUserMayDoWhatItsRulesAllow(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	do(t, server, "ACL", "SETUSER", "locker", "on", ">pw", "~lock:*", "+@all", "-set")
	n := open(t, server.Addr(), withLogin("locker", "pw"), patient())
	requireRefused(t, ask(t, n, newAcquire("lock:key", "token", ttl)), "NOPERM")
	requireRefused(t, ask(t, n, newExtend("other:key", "token", ttl)), "NOPERM")
	do(t, server, "SET", "lock:key", "token")
	requireYes(t, n, newRelease("lock:key", "token", ttl))
}

func TestGreeting_CredentialsAreLookedUpForEveryConnection(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	var lookups atomic.Int32
	var current atomic.Value
	rotate := func(password string) {
		do(t, server, "ACL", "SETUSER", "locker", "on", "resetpass", ">"+password, "~*", "+@all")
		current.Store(password)
	}
	rotate("first")
	// The login of the URL does not count.
	n := open(t, server.Addr(), withLogin("nobody", "nothing"), patient(), withCredentials(func(ctx context.Context) (string, string, error) {
		lookups.Add(1)
		if _, limited := ctx.Deadline(); !limited {
			t.Error("the lookup has no deadline")
		}
		return "locker", current.Load().(string), nil
	}))
	for i := range 3 {
		requireYes(t, n, newAcquire("key", "token", ttl))
		requireYes(t, n, newRelease("key", "token", ttl))
		require.EqualValues(t, i+1, lookups.Load())
		rotate(strings.Repeat("next", i+1)) // Redis keeps those connected who are logged in
		before := clients(t, server)
		do(t, server, "CLIENT", "KILL", "USER", "locker")
		require.Eventually(t, func() bool {
			now := clients(t, server)
			return len(now) == 1 && now[0] != before[0]
		}, bound, tick)
	}
}

func TestGreeting_CredentialsThatCannotBeLookedUpFailTheConnection(t *testing.T) {
	errVault := errors.New("vault is sealed")
	f := newFake(t, nil)
	n := f.open(t, patient(), withCredentials(func(context.Context) (string, string, error) { return "", "", errVault }))
	reply := ask(t, n, newAcquire("key", "token", ttl))
	requireReply(t, quorum.Unsent, errVault, reply)
	require.ErrorAs(t, reply.Err, new(*nodeerr.ConnectError))
	require.Zero(t, f.connections())
}

func TestGreeting_SelectsTheDatabase(t *testing.T) {
	server := testredis.Real(t, 1, "--databases", "4")[0]
	requireYes(t, open(t, server.Addr(), patient(), withDatabase(3)), newAcquire("key", "token", ttl))
	require.Contains(t, string(do(t, server, "INFO", "keyspace").([]byte)), "db3:keys=1")
	reply := ask(t, open(t, server.Addr(), patient(), withDatabase(4)), newAcquire("key", "token", ttl))
	requireUnconnected(t, reply, "ERR")
	require.ErrorContains(t, reply.Err, "DB index is out of range")
}

func TestGreeting_OverAUnixSocket(t *testing.T) {
	server := testredis.Real(t, 1, "--unixsocket", "redis@1.sock", "--requirepass", "pw")[0]
	socket := filepath.Join(server.Dir(), "redis@1.sock")
	n := open(t, socket, patient(), withLogin("", "pw"), withDatabase(2))
	require.Equal(t, socket, n.Addr())
	requireYes(t, n, newAcquire("key", "token", ttl))
	require.Contains(t, string(do(t, server, "INFO", "keyspace").([]byte)), "db2:keys=1")
}

func TestGreeting_NamesTheConnection(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	requireYes(t, open(t, server.Addr(), patient(), withClientName("locker-1")), newAcquire("key", "token", ttl))
	list, err := redis.String(do(t, server, "CLIENT", "LIST"), nil)
	require.NoError(t, err)
	require.Contains(t, list, " name=locker-1 ")
}

func TestReply_NamesTheServerThatAnswered(t *testing.T) {
	server, n := openReal(t)
	for range 2 {
		id := info(t, server, "server", "run_id")
		for _, cmd := range []*wire.Command{
			newAcquire("key", "token", ttl),  // yes
			newAcquire("key", "token", ttl),  // no
			newExtend("none", "token", ttl),  // no
			newRelease("key", "token", ttl),  // yes
			newAcquire("key", "token", -ttl), // refused
		} {
			require.Equal(t, id, ask(t, n, cmd).Server)
		}
		server.Stop()
		require.Empty(t, ask(t, n, newAcquire("key", "token", ttl)).Server, "nobody has answered")
		server.Start()
		require.NotEqual(t, id, info(t, server, "server", "run_id"))
		requireBack(t, n)
	}
}

func TestGreeting_AServerWithoutAnIdentityIsUsedAllTheSame(t *testing.T) {
	t.Run("it knows no INFO server", func(t *testing.T) {
		requireUnnamed(t, open(t, testredis.Mini(t, 1)[0].Addr(), patient()))
	})
	for name, rules := range map[string][]any{
		"the ACL user may not ask":             {"&*", "+@all", "-info", "-client"},
		"the ACL user may do the bare minimum": {"&*", "+set", "+evalsha", "+eval", "+getrange", "+del", "+pttl", "+pexpire", "+incrby", "+time", "+publish"},
	} {
		t.Run(name, func(t *testing.T) {
			server := testredis.Real(t, 1)[0]
			do(t, server, "ACL", append([]any{"SETUSER", "locker", "on", ">pw", "~*"}, rules...)...)
			requireUnnamed(t, open(t, server.Addr(), withLogin("locker", "pw"), patient()))
		})
	}
	t.Run("its commands are renamed", func(t *testing.T) {
		server := newFake(t, func(c *peer, args []string) string {
			if args[0] == "INFO" || args[0] == "CLIENT" {
				return "-ERR unknown command '" + args[0] + "'\r\n"
			}
			return likeRedis(c, args)
		})
		requireUnnamed(t, server.open(t, patient()))
	})
}

func requireUnnamed(t testing.TB, n *node.Node) {
	t.Helper()
	for kind, cmd := range everyKind() {
		reply := ask(t, n, cmd)
		require.Contains(t, []quorum.Answer{quorum.Yes, quorum.No, quorum.Recreated}, reply.Answer, "%s: %v", kind, reply.Err)
		require.Empty(t, reply.Server)
	}
}

// What a server sends too much in its greeting is not passed over: the rest of it would be taken for answers.
func TestGreeting_HalfAReplyTooManyIsNotLost(t *testing.T) {
	for transport, open := range transports {
		n := open(newFake(t, func(c *peer, args []string) string {
			switch {
			case strings.Join(args, " ") == "CLIENT ID":
				return ":1\r\n*1\r\n"
			case args[0] == "SET":
				return "+OK\r\n$-1\r\n" // the rest of that, and then: the key is held
			}
			return likeRedis(c, args)
		}), t, patient())
		reply := ask(t, n, newAcquire("key", "token", ttl))
		require.Equal(t, quorum.Unknown, reply.Answer, transport)
	}
}

func TestGreeting_RepliesOfTheWrongTypeAreAProtocolError(t *testing.T) {
	for _, command := range []string{"INFO server", "CLIENT ID"} {
		for _, text := range []string{"*1\r\n+OK\r\n", "*0\r\n"} {
			f := newFake(t, func(c *peer, args []string) string {
				if strings.Join(args, " ") == command {
					return text
				}
				return likeRedis(c, args)
			})
			reply := ask(t, f.open(t, patient()), newAcquire("key", "token", ttl))
			assert.Equal(t, quorum.Unsent, reply.Answer)
			assert.ErrorIs(t, reply.Err, nodeerr.ErrProtocol, "%s answered by %q", command, text)
		}
	}
}

func TestGreeting_EndsTheConnectionBeforeIfAnswersWereMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var killed []string
		f := newFake(t, func(c *peer, args []string) string {
			if args[0] == "CLIENT" && args[1] == "KILL" {
				killed = append(killed, args[3])
			}
			if args[0] == "SET" && c.number == 2 {
				return ""
			}
			return likeRedis(c, args)
		})
		n := f.open(t)
		requireYes(t, n, newAcquire("key", "token", ttl))
		for number := 1; number <= 3; number++ {
			requireReplyOf(t, number == 2, send(n, newAcquire("key", "token", ttl)))
			require.NoError(t, f.peer(number).Close())
			pass(2 * time.Second)
		}
		require.Equal(t, []string{"2"}, killed)
	})
}

// requireReplyOf waits for a yes, or for the command to be under way if it is lost.
func requireReplyOf(t testing.TB, lost bool, reply inbox) {
	if lost {
		synctest.Wait()
	} else {
		require.Equal(t, quorum.Yes, reply.next(t).Answer)
	}
}

// A new process knows no connection of the old one: the number may be anybody's by now.
func TestGreeting_EndsNobodyElsesConnection(t *testing.T) {
	for name, identity := range map[string]func(number int) string{
		"the server was restarted":       func(number int) string { return fmt.Sprintf("run_id:%d\r\n", number) },
		"the server reports no identity": func(int) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var kills atomic.Int32
				f := newFake(t, func(c *peer, args []string) string {
					switch {
					case args[0] == "INFO":
						return bulk(identity(c.number))
					case args[0] == "CLIENT" && args[1] == "KILL":
						kills.Add(1)
					case args[0] == "SET" && c.number == 1:
						return ""
					}
					return likeRedis(c, args)
				})
				n := f.open(t)
				reply := send(n, newAcquire("key", "token", ttl))
				synctest.Wait()
				require.NoError(t, f.peer(1).Close())
				requireReply(t, quorum.Unknown, nodeerr.ErrBroken, reply.next(t))
				requireYes(t, n, newAcquire("key", "token", ttl))
				require.Zero(t, kills.Load())
			})
		})
	}
}

// network carries connections to real servers, and can hold back what a client sends.
type network struct {
	mu    sync.Mutex
	lines []*line
}

// line is the client's end of one connection. To the server it stays open when the
// client closes it, as it does when the packets of the close are lost.
type line struct {
	net.Conn

	mu      sync.Mutex
	holding bool
	held    []byte
	closed  bool
}

func newNetwork(t testing.TB) *network {
	n := &network{}
	t.Cleanup(func() {
		for _, l := range n.lines {
			_ = l.Conn.Close()
		}
	})
	return n
}

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, kind, address)
	if err != nil {
		return nil, err
	}
	l := &line{Conn: conn}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, l)
	return l, nil
}

func (n *network) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.lines)
}

func (n *network) line(i int) *line {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lines[i]
}

// hold keeps from the server what the client sends on line i from now on.
func (n *network) hold(i int) {
	l := n.line(i)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holding = true
}

// deliver hands the server what was held back on line i, and returns when it has taken it or hung up.
func (n *network) deliver(i int) {
	l := n.line(i)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.Conn.Write(l.held); err != nil {
		return
	}
	_ = l.Conn.SetReadDeadline(time.Now().Add(bound))
	_, _ = l.Conn.Read(make([]byte, 1)) // its answer, or the end
}

func (l *line) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return 0, net.ErrClosed
	case l.holding:
		l.held = append(l.held, p...)
		return len(p), nil
	}
	return l.Conn.Write(p)
}

func (l *line) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if os.IsTimeout(err) {
		return n, io.EOF
	}
	return n, err
}

// Close ends the reader and writer of the client, and sends nothing to the server.
func (l *line) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.Conn.SetReadDeadline(time.Unix(1, 0))
}

func (l *line) SetReadDeadline(at time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	return l.Conn.SetReadDeadline(at)
}

// What the network still holds back of a connection that was given up must not reach
// the key after the release came over the next one: the server is asked to hang up first.
func TestGreeting_AnAcquireThatTheNetworkHeldBackTakesNoEffect(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	network := newNetwork(t)
	n := open(t, server.Addr(), withDialer(network.dial),
		withTimeout(time.Second), withMaxOverdue(time.Millisecond), withDialTimeout(bound))
	require.Eventually(t, func() bool { return ask(t, n, newAcquire("other", "token", ttl)).Answer != quorum.Unsent }, bound, tick)

	network.hold(0)
	requireReply(t, quorum.Unknown, nodeerr.ErrTimeout, ask(t, n, newAcquire("key", "token", ttl)))
	require.Eventually(t, func() bool { return network.count() == 2 }, bound, tick, "the connection is not given up")
	require.Eventually(t, func() bool {
		return ask(t, n, newRelease("key", "token", ttl)).Answer == quorum.No // there is no key yet
	}, bound, tick)
	network.deliver(0) // the acquire
	if !isOld(t, server) {
		requireCalls(t, server, "client|kill", 1)
	}
	require.Empty(t, holds(t, server, "key"))
}
