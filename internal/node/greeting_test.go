package node_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

func TestGreeting_LogsInToAServerWithAPassword(t *testing.T) {
	const secret = "pass:w/o?r#d@ %"
	server, without := testredis.Real(t, 1, "--requirepass", secret)[0], testredis.Real(t, 1)[0]
	connected := func(server testredis.Server, login option) wire.Reply {
		reply := ask(t, open(t, server.Addr(), login, patient()), node.Publish("channel", "message"))
		require.NotContains(t, fmt.Sprint(reply.Err), secret)
		return reply
	}
	requireReply(t, quorum.No, nodeerr.ErrAbsent, connected(server, withLogin("", secret)))
	requireReply(t, quorum.No, nodeerr.ErrAbsent, connected(server, withLogin("default", secret)))
	requireUnconnected(t, connected(server, patient()), "NOAUTH")
	requireUnconnected(t, connected(server, withLogin("", "wrong")), "WRONGPASS")
	requireUnconnected(t, connected(server, withLogin("nobody", secret)), "WRONGPASS")
	requireUnconnected(t, connected(without, withLogin("", secret)), "ERR")
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

func TestGreeting_OverAUnixSocketSelectsTheDatabaseAndNamesTheConnection(t *testing.T) {
	server := testredis.Real(t, 1, "--unixsocket", "redis@1.sock", "--requirepass", "pw", "--databases", "4")[0]
	socket := filepath.Join(server.Dir(), "redis@1.sock")
	n := open(t, socket, patient(), withLogin("", "pw"), withDatabase(3), withClientName("locker-1"))
	require.Equal(t, socket, n.Addr())
	requireYes(t, n, newAcquire("key", "token", ttl))
	require.Contains(t, testredis.Info(t, server, "keyspace", "db3"), "keys=1")
	list, err := redis.String(do(t, server, "CLIENT", "LIST"), nil)
	require.NoError(t, err)
	require.Contains(t, list, " name=locker-1 ")

	reply := ask(t, open(t, socket, patient(), withLogin("", "pw"), withDatabase(4)), newAcquire("key", "token", ttl))
	requireUnconnected(t, reply, "ERR")
	require.ErrorContains(t, reply.Err, "DB index is out of range")
}

func TestReply_NamesTheServerThatAnswered(t *testing.T) {
	server, n := openReal(t)
	for range 2 {
		id := testredis.Info(t, server, "server", "run_id")
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
		require.NotEqual(t, id, testredis.Info(t, server, "server", "run_id"))
		requireBack(t, n)
	}
}

func TestGreeting_AServerWithoutAnIdentityIsUsedAllTheSame(t *testing.T) {
	t.Run("it knows no INFO server", func(t *testing.T) {
		requireUnnamed(t, open(t, testredis.Mini(t, 1)[0].Addr(), patient()))
	})
	for name, rules := range map[string][]any{
		"the ACL user may not ask":             {"&*", "+@all", "-info", "-client"},
		"the ACL user may do the bare minimum": {"&*", "+set", "+evalsha", "+eval", "+getrange", "+del", "+pttl", "+pexpire", "+incrby", "+time", "+exists", "+publish"},
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

// Some proxies hang up when they are asked what they do not know.
func TestGreeting_LeavesOutWhatTheServerHangsUpOn(t *testing.T) {
	for on, leavesOut := range map[string]string{"HELLO": "HELLO", "INFO": "INFO", "CLIENT": "CLIENT"} {
		bubble(t, on, func(t *testing.T) {
			f := newFake(t, func(c *peer, args []string) string {
				if args[0] == on {
					_ = c.Close()
					return ""
				}
				return likeRedis(c, args)
			})
			n := f.open(t, withLogin("locker", "pw"))
			for range 2 {
				requireGrants(t, n)
				last := fmt.Sprint(f.connections(), " ")
				require.Zero(t, f.count(last+leavesOut))
				require.NotZero(t, f.count(last+"AUTH"))
				full := f.count("HELLO")
				require.NoError(t, f.peer(f.connections()).Close())
				synctest.Wait()
				require.Greater(t, f.count("HELLO"), full, "each new connection begins with the full greeting")
			}
			requireGrants(t, n)
		})
	}
}

// The danger: a server that is stopped while it is greeted costs the node its pushes and its guard.
func TestGreeting_ThatBreaksOnceIsSaidInFullAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, func(c *peer, args []string) string {
			if args[0] == "HELLO" && c.number == 1 {
				_ = c.Close()
				return ""
			}
			return likeRedis(c, args)
		})
		n := f.open(t)
		requireGrants(t, n)
		require.Equal(t, 2, f.count("HELLO"))
		require.Equal(t, 2, f.connections())
	})
}

// The danger: a proxy accepts connections while the server behind it is away. The node would have no pushes, and no guard, for as long as
// its first connection to the server lasts that has come back.
func TestGreeting_IsFullForAServerThatComesBackBehindAProxy(t *testing.T) {
	for away := range 7 {
		bubble(t, fmt.Sprint("after ", away), func(t *testing.T) {
			f := newFake(t, func(c *peer, args []string) string {
				if c.number <= away {
					_ = c.Close()
					return ""
				}
				return likeRedis(c, args)
			})
			n := f.open(t)
			requireGrants(t, n)
			last := fmt.Sprint(f.connections(), " ")
			require.NotZero(t, f.count(last+"HELLO"))
			require.NotZero(t, f.count(last+"CLIENT ID"))
		})
	}
}

// requireGrants waits until the node grants.
func requireGrants(t testing.TB, n *node.Node) {
	t.Helper()
	require.Eventually(t, func() bool { return ask(t, n, newAcquire("key", "token", ttl)).Answer == quorum.Yes }, bound, tick)
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
			if args[0] == "SET" {
				return "+OK\r\n$-1\r\n" // the rest of that, and then: the key is held
			}
			return answering("CLIENT ID", ":1\r\n*1\r\n")(c, args)
		}), t, patient())
		reply := ask(t, n, newAcquire("key", "token", ttl))
		require.Equal(t, quorum.Unknown, reply.Answer, transport)
	}
}

func TestGreeting_RepliesOfTheWrongTypeAreAProtocolError(t *testing.T) {
	for _, command := range []string{"INFO server", "CLIENT ID"} {
		for _, text := range []string{"*1\r\n+OK\r\n", "*0\r\n", foreign["SSH"], foreign["TLS alert"]} {
			reply := ask(t, newFake(t, answering(command, text)).open(t, patient()), newAcquire("key", "token", ttl))
			requireReply(t, quorum.Unsent, nodeerr.ErrProtocol, reply)
			require.ErrorAs(t, reply.Err, new(*nodeerr.ConnectError))
		}
	}
}

func TestGreeting_EndsTheConnectionBeforeIfAnswersWereMissing(t *testing.T) {
	same := func(int) string { return "run_id:server\r\n" }
	for name, tt := range map[string]struct {
		answers  bool
		identity func(number int) string // that the server reports to a connection
		killed   int
	}{
		"answers were missing": {false, same, 1},
		"none were":            {true, same, 0},
		// A new process knows no connection of the old one: the number may be anybody's by now.
		"the server was restarted":       {false, func(number int) string { return fmt.Sprintf("run_id:%d\r\n", number) }, 0},
		"the server reports no identity": {false, func(int) string { return "" }, 0},
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFake(t, func(c *peer, args []string) string {
				switch {
				case args[0] == "INFO":
					return testredis.Bulk(tt.identity(c.number))
				case args[0] == "SET" && c.number == 1 && !tt.answers:
					return ""
				}
				return likeRedis(c, args)
			})
			n := f.open(t)
			reply := send(n, newAcquire("key", "token", ttl))
			synctest.Wait()
			require.NoError(t, f.peer(1).Close())
			synctest.Wait()
			require.Equal(t, tt.answers, reply.next(t).Answer == quorum.Yes)
			requireYes(t, n, newAcquire("key", "token", ttl))
			require.Equal(t, tt.killed, f.count("2 CLIENT KILL ID 1"))
			require.Equal(t, tt.killed, f.count("CLIENT KILL"))
			require.NoError(t, f.peer(2).Close())
			pass(2 * time.Second)
			requireYes(t, n, newAcquire("key", "token", ttl))
			require.Equal(t, tt.killed, f.count("CLIENT KILL"))
		})
	}
}
