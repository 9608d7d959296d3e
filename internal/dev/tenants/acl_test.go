package tenants_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// A user with the rights that docs/operations.md proposes can do nothing of what the same section warns of.
func TestTenants_TheUserOfTheDocumentationCannotHarmLocks(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	old := testredis.IsOld(t, server)
	run := func(conn interface {
		Do(string, ...any) (any, error)
	}, command string) error {
		name, rest, _ := strings.Cut(command, " ")
		_, err := conn.Do(name, redis.Args{}.AddFlat(strings.Fields(rest))...)
		return err
	}
	text, err := os.ReadFile("../../../docs/operations.md")
	require.NoError(t, err)
	rules := regexp.MustCompile(`ACL SETUSER tenant .*`).FindAllString(string(text), -1)
	require.Len(t, rules, 2)
	for _, rule := range rules {
		require.NoError(t, run(server, rule))
	}
	conn, err := redis.Dial("tcp", server.Addr(), redis.DialUsername("tenant"), redis.DialPassword("secret"))
	require.NoError(t, err)
	defer conn.Close()

	for _, key := range []string{"lock:name", "{lock:name}:fence", "name", "account:guard"} {
		require.NoError(t, run(server, "SET "+key+" held"))
		for _, command := range []string{
			"GET %s", "SET %s x", "DEL %s", "UNLINK %s", "GETDEL %s", "GETEX %s PERSIST", "APPEND %s x", "SETRANGE %s 0 x", "INCR %s",
			"EXPIRE %s 1", "PEXPIRE %s 1", "PERSIST %s", "TOUCH %s", "RENAME %s app:a", "RENAME app:a %s", "COPY %s app:a",
			"COPY app:a %s REPLACE", "MOVE %s 1", "SETBIT %s 1 1", "PFADD %s a", "BITOP NOT %s app:a", "LPUSH %s a",
			"LMOVE app:list %s LEFT LEFT", "SMOVE app:set %s a", "SORT app:list STORE %s", "SUNIONSTORE %s app:set",
			"ZRANGESTORE %s app:zset 0 1", "GEOSEARCHSTORE %s app:geo FROMLONLAT 0 0 BYRADIUS 1 m", "PFMERGE %s app:hll",
			"RESTORE %s 0 x", "MIGRATE 127.0.0.1 1 %s 0 1", "DUMP %s", "OBJECT FREQ %s", "TYPE %s", "MSET app:a 1 %s 1",
			"EVAL return 1 %s", "XADD %s * a b",
		} {
			require.ErrorContains(t, run(conn, fmt.Sprintf(command, key)), "NOPERM", command)
		}
		value, err := redis.String(server.Do("GET", key))
		require.NoError(t, err)
		require.Equal(t, "held", value)
	}
	for _, command := range []string{
		"FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "KEYS *", "CONFIG SET maxmemory 1", "CONFIG GET maxmemory", "CONFIG RESETSTAT",
		"CLIENT KILL TYPE normal", "CLIENT LIST", "CLIENT PAUSE 1000", "CLIENT UNPAUSE", "CLIENT NO-EVICT on", "CLIENT UNBLOCK 1",
		"SHUTDOWN NOSAVE", "REPLICAOF 127.0.0.1 1", "SLAVEOF 127.0.0.1 1", "FAILOVER", "SAVE", "BGSAVE", "BGREWRITEAOF",
		"ACL SETUSER tenant allkeys", "ACL LIST", "MONITOR", "MODULE LIST", "CLUSTER RESET", "SYNC", "PSYNC ? -1", "INFO", "LATENCY RESET",
		"SLOWLOG RESET", "SCRIPT FLUSH", "SCRIPT KILL", "FUNCTION FLUSH", "EVAL return 0", "EVALSHA x 0", "FCALL f 0",
		"PUBLISH quorumlock:ABCDEFGH x", "SUBSCRIBE quorumlock:ABCDEFGH", "PSUBSCRIBE quorumlock:*", "PSUBSCRIBE *",
	} {
		err := run(conn, command)
		if old && err != nil && strings.Contains(err.Error(), "unknown command") {
			continue
		}
		require.ErrorContains(t, err, "NOPERM", command)
	}
	for _, command := range []string{
		"SET app:a 1", "GET app:a", "EXPIRE app:a 100", "DEL app:a", "RPUSH app:list 1", "PUBLISH app:news x", "MULTI", "INCR app:n", "EXEC",
		"PING", "SCAN 0",
	} {
		require.NoError(t, run(conn, command), command)
	}
	if !old { // which takes all of CLIENT away
		require.NoError(t, run(conn, "CLIENT ID"))
	}
}
