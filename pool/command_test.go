package pool_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

// left returns how long the key has to live, a negative time where it is not there or has no TTL.
func left(t testing.TB, server redistest.Server, key string) time.Duration {
	t.Helper()
	ms, err := redis.Int64(do(t, server, "PTTL", key), nil)
	require.NoError(t, err)
	return time.Duration(ms) * time.Millisecond
}

// holds returns what the key holds, "" where it is not there.
func holds(t testing.TB, server redistest.Server, key string) string {
	t.Helper()
	value, err := redis.String(do(t, server, "GET", key), nil)
	if !errors.Is(err, redis.ErrNil) {
		require.NoError(t, err)
	}
	return value
}

func TestAcquireSetsAFreeKeyToTheTokenWithATTL(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		requireYes(t, open(t, server.URL(), patient()), pool.Acquire("key", "token", ttl))
		require.Equal(t, "token", holds(t, server, "key"))
		assert.Greater(t, left(t, server, "key"), time.Duration(0))
		assert.LessOrEqual(t, left(t, server, "key"), ttl)
	})
}

func TestAcquireLeavesAKeyAloneThatIsHeldByWhomever(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		for _, holder := range []string{"other", "token", ""} {
			do(t, server, "SET", "key", holder)
			requireReply(t, pool.No, pool.ErrHeld, ask(t, node, pool.Acquire("key", "token", ttl)))
			require.Equal(t, holder, holds(t, server, "key"))
			require.Negative(t, left(t, server, "key"), "a TTL where there was none")
		}
	})
}

// Trap 12: SET with PX 0 is an error, and without PX it would be a lock for ever.
func TestATTLUnderAMillisecondIsRefusedAndSetsNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		reply := ask(t, open(t, server.URL(), patient()), pool.Acquire("key", "token", time.Millisecond-1))
		requireRefused(t, reply, "ERR")
		require.Empty(t, holds(t, server, "key"))
	})
}

// Trap 16: absent and held by another are different answers.
// Trap 5: a token that only begins like another one, or goes on behind it, is another one.
func TestOnlyTheHolderOfATokenReleasesExtendsAndRestores(t *testing.T) {
	commands := map[string]func() *pool.Command{
		"release": func() *pool.Command { return pool.Release("key", "token", ttl) },
		"heal":    func() *pool.Command { return pool.Heal("key", "token") },
		"extend":  func() *pool.Command { return pool.Extend("key", "token", ttl) },
		"restore": func() *pool.Command { return pool.Restore("key", "token", ttl) },
	}
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		for name, command := range commands {
			do(t, server, "DEL", "key")
			if name == "extend" {
				requireReply(t, pool.Planted, pool.ErrPlanted, ask(t, node, command()))
			} else {
				requireReply(t, pool.No, pool.ErrAbsent, ask(t, node, command()))
				require.Empty(t, holds(t, server, "key"), "%s made a key", name)
			}
			for _, holder := range []string{"other", "toke", "token2", "TOKEN", ""} {
				do(t, server, "SET", "key", holder, "PX", 1_000_000)
				requireReply(t, pool.No, pool.ErrHeld, ask(t, node, command()))
				require.Equal(t, holder, holds(t, server, "key"), name)
				require.Greater(t, left(t, server, "key"), ttl, name)
			}
			do(t, server, "SET", "key", "token", "PX", 1_000_000)
			if name == "heal" {
				do(t, server, "PERSIST", "key")
			}
			requireYes(t, node, command())
		}
	})
}

func TestReleaseDeletesTheKey(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		requireYes(t, node, pool.Acquire("key", "token", ttl))
		requireYes(t, node, pool.Release("key", "token", ttl))
		require.EqualValues(t, 0, do(t, server, "EXISTS", "key"))
	})
}

func TestExtendMakesATTLLongerAndNeverShorter(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		requireYes(t, node, pool.Acquire("key", "token", ttl))
		requireYes(t, node, pool.Extend("key", "token", 3*ttl))
		require.Greater(t, left(t, server, "key"), 2*ttl)
		requireYes(t, node, pool.Extend("key", "token", ttl))
		require.Greater(t, left(t, server, "key"), 2*ttl)
	})
}

func TestRestoreMakesATTLShorterAndLonger(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		requireYes(t, node, pool.Acquire("key", "token", 3*ttl))
		requireYes(t, node, pool.Restore("key", "token", ttl))
		require.LessOrEqual(t, left(t, server, "key"), ttl)
		requireYes(t, node, pool.Restore("key", "token", 3*ttl))
		require.Greater(t, left(t, server, "key"), 2*ttl)
	})
}

// Trap 26: whatever the key holds, if it is not a lock it is somebody's data.
func TestDataOfAnotherTypeIsNamedAndLeftAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		do(t, server, "RPUSH", "key", "somebody's", "data")
		requireReply(t, pool.No, pool.ErrHeld, ask(t, node, pool.Acquire("key", "token", ttl)))
		requireRefused(t, ask(t, node, pool.Release("key", "token", ttl)), "WRONGTYPE")
		requireRefused(t, ask(t, node, pool.Extend("key", "token", ttl)), "WRONGTYPE")
		requireRefused(t, ask(t, node, pool.Restore("key", "token", ttl)), "WRONGTYPE")
		requireRefused(t, ask(t, node, pool.Force("key")), "WRONGTYPE")
		requireRefused(t, ask(t, node, pool.Heal("key", "token")), "WRONGTYPE")
		requireRefused(t, ask(t, node, pool.Look("key")), "WRONGTYPE")
		data, err := redis.Strings(do(t, server, "LRANGE", "key", 0, -1), nil)
		require.NoError(t, err)
		require.Equal(t, []string{"somebody's", "data"}, data)
		require.Negative(t, left(t, server, "key"))
	})
}

func TestKeysAndTokensMayHoldAnyBytes(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		for _, text := range []string{"", "\x00", "a b\r\n$-1\r\n", "\xff\xfe", "{k}", strings.Repeat("x", 100_000)} {
			requireYes(t, node, pool.Acquire("k"+text, "t"+text, ttl))
			require.Equal(t, "t"+text, holds(t, server, "k"+text))
			requireYes(t, node, pool.Extend("k"+text, "t"+text, 2*ttl))
			requireYes(t, node, pool.Release("k"+text, "t"+text, ttl))
		}
	})
}

func TestCommandsOnTheWire(t *testing.T) {
	var mu sync.Mutex
	var got []string
	f := newFake(t, func(c *peer, args []string) string {
		mu.Lock()
		defer mu.Unlock()
		got = args
		return likeRedis(c, args)
	})
	node := f.open(t, patient())
	const ms = time.Millisecond
	for want, cmd := range map[string]*pool.Command{
		"SET k t NX PX 1000":      pool.Acquire("k", "t", time.Second),
		"SET k t NX PX 1":         pool.Acquire("k", "t", 2*ms-1),
		"script 1 k t":            pool.Release("k", "t", ttl),
		"script 1 k t 1000 plant": pool.Extend("k", "t", time.Second),
		"script 1 k t 1 plant":    pool.Extend("k", "t", 2*ms-1),
		"script 1 k t 1000 exact": pool.Restore("k", "t", time.Second),
		"script 1 k t 2 exact":    pool.Restore("k", "t", ms+1),
		"script 1 k v":            pool.Heal("k", "v"),
		"script 1 k":              pool.Force("k"),
		"PUBLISH c m":             pool.Publish("c", "m"),
	} {
		requireYes(t, node, cmd)
		mu.Lock()
		if isScript(got) {
			got = append([]string{"script"}, got[2:]...)
		}
		assert.Equal(t, want, strings.Join(got, " "))
		mu.Unlock()
	}
}
