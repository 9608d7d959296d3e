package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

func TestRefusal_OfAReadOnlyReplica(t *testing.T) {
	server, n := openReal(t)
	requireYes(t, n, newAcquire("ours", "token", ttl))
	do(t, server, "REPLICAOF", "127.0.0.1", 1)
	requireRefused(t, ask(t, n, newAcquire("key", "token", ttl)), "READONLY")
	requireRefused(t, ask(t, n, newRelease("ours", "token", ttl)), "READONLY")
	requireRefused(t, ask(t, n, newExtend("ours", "token", 2*ttl)), "READONLY")
	require.Equal(t, "token", holds(t, server, "ours"))
}

func TestRefusal_OfAReplicaWithoutItsMaster(t *testing.T) {
	server, n := openReal(t, "--replica-serve-stale-data", "no")
	requireYes(t, n, newAcquire("ours", "token", ttl))
	do(t, server, "REPLICAOF", "127.0.0.1", 1)
	requireRefused(t, ask(t, n, newRelease("ours", "token", ttl)), "MASTERDOWN")
}

func TestRefusal_OfAServerOutOfMemoryWhichStillReleases(t *testing.T) {
	server, n := openReal(t)
	requireYes(t, n, newAcquire("ours", "token", ttl))
	do(t, server, "CONFIG", "SET", "maxmemory", 1)
	requireRefused(t, ask(t, n, newAcquire("key", "token", ttl)), "OOM")
	requireYes(t, n, newExtend("ours", "token", 2*ttl))
	requireYes(t, n, newRelease("ours", "token", ttl))
}

func TestRefusal_OfAServerWithTooFewReplicas(t *testing.T) {
	server, n := openReal(t)
	requireYes(t, n, newAcquire("ours", "token", ttl))
	do(t, server, "CONFIG", "SET", "min-replicas-to-write", 1)
	requireRefused(t, ask(t, n, newAcquire("key", "token", ttl)), "NOREPLICAS")
	requireRefused(t, ask(t, n, newRelease("ours", "token", ttl)), "NOREPLICAS")
}

func TestRefusal_OfAServerThatCannotSaveToDisk(t *testing.T) {
	server, n := openReal(t, "--dbfilename", "in-the-way")
	requireYes(t, n, newAcquire("ours", "token", ttl))
	require.NoError(t, os.MkdirAll(filepath.Join(server.Dir(), "in-the-way", "not-empty"), 0o700))
	do(t, server, "CONFIG", "SET", "save", "3600 1")
	do(t, server, "BGSAVE")
	require.Eventually(t, func() bool {
		info, err := redis.String(server.Do("INFO", "persistence"))
		return err == nil && strings.Contains(info, "rdb_last_bgsave_status:err")
	}, bound, tick)
	requireRefused(t, ask(t, n, newAcquire("key", "token", ttl)), "MISCONF")
	requireRefused(t, ask(t, n, newRelease("ours", "token", ttl)), "MISCONF")
}

func TestRefusal_OfAServerBlockedByAScriptUntilItIsBack(t *testing.T) {
	server, n := openReal(t, "--lua-time-limit", "1")
	late := open(t, server.Addr(), patient())
	requireYes(t, n, newAcquire("ours", "token", ttl))

	ended := make(chan error, 1)
	go func() {
		_, err := server.Do("EVAL", "while true do end", 0)
		ended <- err
	}()
	require.Eventually(t, func() bool {
		_, err := server.Do("PING")
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	}, bound, tick)
	requireRefused(t, ask(t, n, newAcquire("key", "token", ttl)), "BUSY")
	requireRefused(t, ask(t, n, newRelease("ours", "token", ttl)), "BUSY")
	// A connection made now could not report its server: there is none until it can.
	requireUnconnected(t, ask(t, late, newAcquire("key", "token", ttl)), "BUSY")

	do(t, server, "SCRIPT", "KILL")
	require.ErrorContains(t, <-ended, "killed")
	requireYes(t, n, newRelease("ours", "token", ttl))
	require.Eventually(t, func() bool {
		reply := ask(t, late, newAcquire("key", "token", ttl))
		return reply.Answer == quorum.Yes && reply.Server != ""
	}, bound, tick)
}

func TestRefusal_OfANodeOfACluster(t *testing.T) {
	_, n := openReal(t, "--cluster-enabled", "yes")
	requireRefused(t, ask(t, n, newAcquire("key", "token", ttl)), "CLUSTERDOWN")
	requireRefused(t, ask(t, n, newRelease("key", "token", ttl)), "CLUSTERDOWN")
}

func TestRefusal_OfAServerWithoutRoomForOneMoreClient(t *testing.T) {
	server := testredis.Real(t, 1, "--maxclients", "1")[0]
	only := open(t, server.Addr(), patient())
	requireBack(t, only) // the connections that looked whether the server is up have gone
	reply := ask(t, open(t, server.Addr(), patient()), newAcquire("key", "token", ttl))
	requireUnconnected(t, reply, "ERR")
	require.ErrorContains(t, reply.Err, "max number of clients")
}

func TestServerError_NamesTheCodeAndAddsAHint(t *testing.T) {
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
			n := f.open(t, patient())
			for _, cmd := range []*wire.Command{
				newAcquire("key", "token", ttl),
				newRelease("key", "token", ttl),
				newExtend("key", "token", ttl),
				newDelete("key", "token"),
				form.Exclusive{}.Heal("key", "token"),
				form.Exclusive{}.Observe("key"),
			} {
				reply := ask(t, n, cmd)
				if reply.Answer == quorum.No { // the key does not hold the token
					require.ErrorIs(t, reply.Err, nodeerr.ErrForeign)
				} else {
					requireRefused(t, reply, code)
				}
				require.Greater(t, len(reply.Err.Error()), len(refusal), "it has a hint")
			}
			require.Equal(t, 1, f.connections(), "a refusal is an answer")
		})
	}
}

func TestServerError_WithoutAHintIsPassedOnAsItIs(t *testing.T) {
	for _, refusal := range []string{"ERR something", "SOMETHING", ""} {
		f := newFake(t, answering("SET", fmt.Sprintf("-%s\r\n", refusal)))
		reply := ask(t, f.open(t, patient()), newAcquire("key", "token", ttl))
		require.Equal(t, quorum.Refused, reply.Answer)
		require.EqualError(t, reply.Err, refusal)
	}
}

func TestServerError_OfACommandWithinAScriptHasTheCodeOfThatCommand(t *testing.T) {
	for sent, code := range map[string]string{
		"ERR Error running script (call to f_d34e443058): @user_script:6: @user_script: 6: -READONLY You can't write against a read only replica.":      "READONLY",
		"@user_script: 2: -OOM command not allowed when used memory > 'maxmemory'.":                                                                     "OOM",
		"ERR @user_script: 17: -NOREPLICAS Not enough good replicas to write.":                                                                          "NOREPLICAS",
		"ERR Error running script (call to f_d34): @user_script:6: @user_script: 6: The user executing the script can't run this command or subcommand": "NOPERM",
		"ERR The user executing the script can't run this command or subcommand script: d34, on @user_script:6.":                                        "NOPERM",
		"ERR ACL failure in script: User locker has no permissions to run the 'get' command":                                                            "NOPERM",
		"ERR @user_script: no number": "ERR",
	} {
		f := newFake(t, answering("EVAL", "-"+sent+"\r\n"))
		requireRefused(t, ask(t, f.open(t, patient()), newRelease("key", "token", ttl)), code)
	}
}
