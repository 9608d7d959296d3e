package pool_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

// Trap 26: a server that refuses says why, and the node passes that on.

// requireRefused fails the test unless the server has refused with the code.
func requireRefused(t testing.TB, reply pool.Reply, code string) {
	t.Helper()
	requireServerError(t, reply, pool.Refused, code)
	require.NotErrorAs(t, reply.Err, new(*pool.ConnectError))
}

func requireServerError(t testing.TB, reply pool.Reply, answer pool.Answer, code string) {
	t.Helper()
	refusal := (*pool.ServerError)(nil)
	require.ErrorAs(t, reply.Err, &refusal)
	require.Equal(t, code, refusal.Code, "in %q", refusal.Message)
	require.True(t, strings.HasPrefix(refusal.Error(), code+" "), "in %q", refusal.Error())
	require.Equal(t, answer, reply.Answer)
}

// requireUnconnected fails the test unless there is no connection because of the code.
func requireUnconnected(t testing.TB, reply pool.Reply, code string) {
	t.Helper()
	requireServerError(t, reply, pool.Unsent, code)
	require.ErrorAs(t, reply.Err, new(*pool.ConnectError))
}

func TestAReadOnlyReplicaSaysSo(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), patient())
	requireYes(t, node, pool.Acquire("ours", "token", ttl))
	do(t, server, "REPLICAOF", "127.0.0.1", redistest.FreePort(t))
	requireRefused(t, ask(t, node, pool.Acquire("key", "token", ttl)), "READONLY")
	requireRefused(t, ask(t, node, pool.Release("ours", "token", ttl)), "READONLY")
	requireRefused(t, ask(t, node, pool.Extend("ours", "token", 2*ttl)), "READONLY")
	require.Equal(t, "token", holds(t, server, "ours"))
}

func TestAReplicaWithoutItsMasterSaysSo(t *testing.T) {
	server := redistest.Real(t, 1, "--replica-serve-stale-data", "no")[0]
	node := open(t, server.URL(), patient())
	requireYes(t, node, pool.Acquire("ours", "token", ttl))
	do(t, server, "REPLICAOF", "127.0.0.1", redistest.FreePort(t))
	requireRefused(t, ask(t, node, pool.Release("ours", "token", ttl)), "MASTERDOWN")
}

func TestAServerWithoutMemorySaysSoAndStillReleases(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), patient())
	requireYes(t, node, pool.Acquire("ours", "token", ttl))
	do(t, server, "CONFIG", "SET", "maxmemory", 1)
	requireRefused(t, ask(t, node, pool.Acquire("key", "token", ttl)), "OOM")
	requireYes(t, node, pool.Extend("ours", "token", 2*ttl))
	requireYes(t, node, pool.Release("ours", "token", ttl))
}

func TestAServerWithTooFewReplicasSaysSo(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), patient())
	requireYes(t, node, pool.Acquire("ours", "token", ttl))
	do(t, server, "CONFIG", "SET", "min-replicas-to-write", 1)
	requireRefused(t, ask(t, node, pool.Acquire("key", "token", ttl)), "NOREPLICAS")
	requireRefused(t, ask(t, node, pool.Release("ours", "token", ttl)), "NOREPLICAS")
}

func TestAServerThatCannotSaveToDiskSaysSo(t *testing.T) {
	server := redistest.Real(t, 1, "--dbfilename", "in-the-way")[0]
	node := open(t, server.URL(), patient())
	requireYes(t, node, pool.Acquire("ours", "token", ttl))
	require.NoError(t, os.MkdirAll(filepath.Join(server.Dir(), "in-the-way", "not-empty"), 0o700))
	do(t, server, "CONFIG", "SET", "save", "3600 1")
	do(t, server, "BGSAVE")
	require.Eventually(t, func() bool {
		info, err := redis.String(server.Do("INFO", "persistence"))
		return err == nil && strings.Contains(info, "rdb_last_bgsave_status:err")
	}, bound, tick)
	requireRefused(t, ask(t, node, pool.Acquire("key", "token", ttl)), "MISCONF")
	requireRefused(t, ask(t, node, pool.Release("ours", "token", ttl)), "MISCONF")
}

func TestAServerBlockedByAScriptSaysSoAndComesBack(t *testing.T) {
	server := redistest.Real(t, 1, "--busy-reply-threshold", "1")[0]
	node := open(t, server.URL(), patient())
	late := open(t, server.URL(), patient())
	requireYes(t, node, pool.Acquire("ours", "token", ttl))

	ended := make(chan error, 1)
	go func() {
		_, err := server.Do("EVAL", "while true do end", 0)
		ended <- err
	}()
	require.Eventually(t, func() bool {
		_, err := server.Do("PING")
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	}, bound, tick)
	requireRefused(t, ask(t, node, pool.Acquire("key", "token", ttl)), "BUSY")
	requireRefused(t, ask(t, node, pool.Release("ours", "token", ttl)), "BUSY")
	// A connection made now could not say whose it is: there is none until it can.
	requireUnconnected(t, ask(t, late, pool.Acquire("key", "token", ttl)), "BUSY")

	do(t, server, "SCRIPT", "KILL")
	require.ErrorContains(t, <-ended, "killed")
	requireYes(t, node, pool.Release("ours", "token", ttl))
	require.Eventually(t, func() bool {
		reply := ask(t, late, pool.Acquire("key", "token", ttl))
		return reply.Answer == pool.Yes && reply.Server != ""
	}, bound, tick)
}

func TestANodeOfAClusterSaysSo(t *testing.T) {
	server := redistest.Real(t, 1, "--cluster-enabled", "yes")[0]
	node := open(t, server.URL(), patient())
	requireRefused(t, ask(t, node, pool.Acquire("key", "token", ttl)), "CLUSTERDOWN")
	requireRefused(t, ask(t, node, pool.Release("key", "token", ttl)), "CLUSTERDOWN")
}

func TestAServerWithoutRoomForOneMoreClientSaysSo(t *testing.T) {
	server := redistest.Real(t, 1, "--maxclients", "1")[0]
	only := open(t, server.URL(), patient())
	requireYes(t, only, pool.Acquire("key", "token", ttl))
	reply := ask(t, open(t, server.URL(), patient()), pool.Acquire("key", "token", ttl))
	requireUnconnected(t, reply, "ERR")
	require.ErrorContains(t, reply.Err, "max number of clients")
}

func TestEveryRefusalOfAServerIsNamed(t *testing.T) {
	for _, refusal := range []string{
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"CLUSTERDOWN Hash slot not served",
		"LOADING Redis is loading the dataset in memory",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
		"MOVED 3999 127.0.0.1:6381",
		"NOPERM this user has no permissions to run the 'set' command",
		"NOREPLICAS Not enough good replicas to write.",
		"NOSCRIPT No matching script. Please use EVAL.",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"READONLY You can't write against a read only replica.",
		"WRONGTYPE Operation against a key holding the wrong kind of value",
	} {
		code, _, _ := strings.Cut(refusal, " ")
		t.Run(code, func(t *testing.T) {
			f := newFake(t, func(c *peer, args []string) string {
				if args[0] == "SET" || isScript(args) {
					return "-" + refusal + "\r\n"
				}
				return likeRedis(c, args)
			})
			node := f.open(t, patient())
			for _, cmd := range []*pool.Command{
				pool.Acquire("key", "token", ttl),
				pool.Release("key", "token", ttl),
				pool.Extend("key", "token", ttl),
				pool.Restore("key", "token", ttl),
				pool.Force("key"),
				pool.Heal("key", "token"),
				pool.Look("key"),
			} {
				reply := ask(t, node, cmd)
				requireRefused(t, reply, code)
				require.Greater(t, len(reply.Err.Error()), len(refusal), "it has a hint")
			}
			require.Equal(t, 1, f.connections(), "a refusal is an answer")
		})
	}
}

func TestARefusalWithoutAHintIsPassedOnAsItIs(t *testing.T) {
	for _, refusal := range []string{"ERR something", "SOMETHING", ""} {
		f := newFake(t, answering("SET", fmt.Sprintf("-%s\r\n", refusal)))
		reply := ask(t, f.open(t, patient()), pool.Acquire("key", "token", ttl))
		require.Equal(t, pool.Refused, reply.Answer)
		require.EqualError(t, reply.Err, refusal)
	}
}
