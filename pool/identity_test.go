package pool_test

import (
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

// runID returns what the server says its identity is.
func runID(t testing.TB, server redistest.Server) string {
	t.Helper()
	info, err := redis.String(do(t, server, "INFO", "server"), nil)
	require.NoError(t, err)
	_, after, _ := strings.Cut(info, "run_id:")
	id, _, _ := strings.Cut(after, "\r\n")
	require.Len(t, id, 40)
	return id
}

func TestEveryAnswerSaysWhichServerGaveIt(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), patient())
	for range 2 {
		id := runID(t, server)
		for _, cmd := range []*pool.Command{
			pool.Acquire("key", "token", ttl),  // yes
			pool.Acquire("key", "token", ttl),  // no
			pool.Extend("none", "token", ttl),  // no
			pool.Release("key", "token", ttl),  // yes
			pool.Acquire("key", "token", -ttl), // refused
		} {
			require.Equal(t, id, ask(t, node, cmd).Server)
		}
		server.Stop()
		require.Empty(t, ask(t, node, pool.Acquire("key", "token", ttl)).Server, "nobody has answered")
		server.Start()
		require.NotEqual(t, id, runID(t, server))
		requireBack(t, node)
	}
}

func TestAServerThatDoesNotTellItsIdentityIsUsedAllTheSame(t *testing.T) {
	t.Run("it knows no INFO server", func(t *testing.T) {
		requireUnnamed(t, open(t, redistest.Mini(t, 1)[0].URL(), patient()))
	})
	for name, rules := range map[string][]any{
		"the ACL user may not ask":             {"&*", "+@all", "-info", "-client"},
		"the ACL user may do the bare minimum": {"&*", "+set", "+evalsha", "+eval", "+get", "+del", "+pttl", "+pexpire", "+incr", "+incrby", "+decr", "+time", "+publish"},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Real(t, 1)[0]
			do(t, server, "ACL", append([]any{"SETUSER", "locker", "on", ">pw", "~*"}, rules...)...)
			requireUnnamed(t, open(t, as(server, "locker", "pw"), patient()))
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

func requireUnnamed(t testing.TB, node *pool.Node) {
	t.Helper()
	for kind, cmd := range everyKind() {
		reply := ask(t, node, cmd)
		require.Contains(t, []pool.Answer{pool.Yes, pool.No, pool.Planted}, reply.Answer, "%s: %v", kind, reply.Err)
		require.Empty(t, reply.Server)
	}
}

func TestNodesOfOneServerGiveTheSameIdentity(t *testing.T) {
	server := redistest.Real(t, 1, "--bind", "127.0.0.1", "::1")[0]
	_, port, _ := strings.Cut(server.Addr(), ":")
	nodes, err := pool.Open([]string{server.URL(), "redis://localhost:" + port}, patient())
	require.NoError(t, err)
	first, second := ask(t, nodes[0], pool.Acquire("a", "token", ttl)), ask(t, nodes[1], pool.Acquire("b", "token", ttl))
	require.NotEmpty(t, first.Server)
	require.Equal(t, first.Server, second.Server)
	for _, node := range nodes {
		closeInTime(t, node)
	}
}
