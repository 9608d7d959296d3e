package node_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

func TestAcquire_SetsAFreeKeyToTheTokenWithATTL(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		requireYes(t, n, newAcquire("key", "token", ttl))
		require.Equal(t, "token", holds(t, server, "key"))
		assert.Greater(t, left(t, server, "key"), time.Duration(0))
		assert.LessOrEqual(t, left(t, server, "key"), ttl)
	})
}

func TestAcquire_LeavesAHeldKeyAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for _, holder := range []string{"other", "token", ""} {
			do(t, server, "SET", "key", holder)
			requireReply(t, quorum.No, nodeerr.ErrHeld, ask(t, n, newAcquire("key", "token", ttl)))
			require.Equal(t, holder, holds(t, server, "key"))
			require.Negative(t, left(t, server, "key"), "a TTL though there was none")
		}
	})
}

// SET with PX 0 is an error, and without PX it would be a lock for ever.
func TestAcquire_ATTLUnderAMillisecondIsRefusedAndSetsNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		reply := ask(t, n, newAcquire("key", "token", time.Millisecond-1))
		requireRefused(t, reply, "ERR")
		require.Empty(t, holds(t, server, "key"))
	})
}

// Absent and held by another are different answers. A token that only begins like another one, or goes on behind it, is
// another one.
func TestCommand_OnlyTheHolderOfTheTokenReleasesExtendsAndHeals(t *testing.T) {
	commands := map[string]func() *wire.Command{
		"release": func() *wire.Command { return newRelease("key", "token", ttl) },
		"heal":    func() *wire.Command { return form.Exclusive{}.Heal("key", "token") },
		"extend":  func() *wire.Command { return newExtend("key", "token", ttl) },
	}
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for name, command := range commands {
			do(t, server, "DEL", "key")
			if name == "extend" {
				requireReply(t, quorum.Recreated, nodeerr.ErrRecreated, ask(t, n, command()))
			} else {
				requireReply(t, quorum.No, nodeerr.ErrAbsent, ask(t, n, command()))
				require.Empty(t, holds(t, server, "key"), "%s made a key", name)
			}
			for _, holder := range []string{"other", "toke", "token2", "TOKEN", ""} {
				do(t, server, "SET", "key", holder, "PX", 1_000_000)
				requireReply(t, quorum.No, nodeerr.ErrHeld, ask(t, n, command()))
				require.Equal(t, holder, holds(t, server, "key"), name)
				require.Greater(t, left(t, server, "key"), ttl, name)
			}
			do(t, server, "SET", "key", "token", "PX", 1_000_000)
			if name == "heal" {
				do(t, server, "PERSIST", "key")
			}
			requireYes(t, n, command())
		}
	})
}

func TestExtend_MakesATTLLongerAndNeverShorter(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		requireYes(t, n, newAcquire("key", "token", ttl))
		requireYes(t, n, newExtend("key", "token", 3*ttl))
		require.Greater(t, left(t, server, "key"), 2*ttl)
		requireYes(t, n, newExtend("key", "token", ttl))
		require.Greater(t, left(t, server, "key"), 2*ttl)
	})
}

// A lock that a node has lost is given to it again, to last as long as on the others.
func TestExtend_RecreatesAKeyThatDoesNotExist(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for range 2 { // by its source, and by its hash
			requireReply(t, quorum.Recreated, nodeerr.ErrRecreated, ask(t, n, newExtend("key", "token", ttl)))
			require.Equal(t, "token", holds(t, server, "key"))
			require.Greater(t, left(t, server, "key"), ttl/2)
			require.LessOrEqual(t, left(t, server, "key"), ttl)
			requireYes(t, n, newExtend("key", "token", ttl))
			requireYes(t, n, newRelease("key", "token", ttl))
		}
	})
}

func TestExtend_ReportsWhyItCouldNotRecreate(t *testing.T) {
	server, n := openReal(t)
	do(t, server, "CONFIG", "SET", "maxmemory", 1)
	requireRefused(t, ask(t, n, newExtend("key", "token", ttl)), "OOM")
	require.Empty(t, holds(t, server, "key"))
}

func TestExtend_GivesAKeyWithoutATTLOne(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		do(t, server, "SET", "key", "token")
		requireYes(t, n, newExtend("key", "token", ttl))
		require.Greater(t, left(t, server, "key"), ttl/2)
	})
}

// Whatever the key holds, if it is not a lock it is somebody's data.
func TestCommand_DataOfAnotherTypeIsReportedAndLeftAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		do(t, server, "RPUSH", "key", "somebody's", "data")
		requireReply(t, quorum.No, nodeerr.ErrHeld, ask(t, n, newAcquire("key", "token", ttl)))
		requireReply(t, quorum.No, nodeerr.ErrForeign, ask(t, n, newRelease("key", "token", ttl)))
		requireReply(t, quorum.No, nodeerr.ErrForeign, ask(t, n, newExtend("key", "token", ttl)))
		requireReply(t, quorum.No, nodeerr.ErrForeign, ask(t, n, newDelete("key", "token")))
		requireRefused(t, ask(t, n, form.Exclusive{}.Heal("key", "token")), "WRONGTYPE")
		requireRefused(t, ask(t, n, form.Exclusive{}.Observe("key")), "WRONGTYPE")
		data, err := redis.Strings(do(t, server, "LRANGE", "key", 0, -1), nil)
		require.NoError(t, err)
		require.Equal(t, []string{"somebody's", "data"}, data)
		require.Negative(t, left(t, server, "key"))
	})
}

func TestCommand_KeysAndTokensMayHoldAnyBytes(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for _, text := range []string{"", "\x00", "a b\r\n$-1\r\n", "\xff\xfe", "{k}", strings.Repeat("x", 100_000)} {
			token := ("t" + text)[:min(1+len(text), wire.MaxToken)]
			requireYes(t, n, newAcquire("k"+text, token, ttl))
			require.Equal(t, token, holds(t, server, "k"+text))
			requireYes(t, n, newExtend("k"+text, token, 2*ttl))
			requireYes(t, n, newRelease("k"+text, token, ttl))
		}
	})
}

func TestObserve_ReturnsWhatAKeyHoldsAndItsTTL(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		requireReply(t, quorum.No, nodeerr.ErrAbsent, ask(t, n, form.Exclusive{}.Observe("key")))
		for _, value := range []string{"", "token", "a\r\n\x00b"} {
			do(t, server, "SET", "key", value, "PX", ttl.Milliseconds())
			reply := ask(t, n, form.Exclusive{}.Observe("key"))
			require.NoError(t, reply.Err)
			assert.Equal(t, quorum.Yes, reply.Answer)
			assert.Equal(t, value, reply.Value)
			assert.Greater(t, reply.TTL, ttl/2)
			assert.LessOrEqual(t, reply.TTL, ttl)
			assert.False(t, reply.Tracked, "nobody listens")
		}
		do(t, server, "SET", "key", "token")
		require.Equal(t, wire.NoTTL, ask(t, n, form.Exclusive{}.Observe("key")).TTL)
	})
}

// Somebody's data under the name of a lock must not cost those who wait for it the connection.
func TestObserve_DoesNotFetchWhatIsLongerThanAnyToken(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		value := strings.Repeat("x", wire.MaxToken)
		do(t, server, "SET", "key", value)
		require.Equal(t, value, ask(t, n, form.Exclusive{}.Observe("key")).Value)
		for _, size := range []int{wire.MaxToken + 1, 2 << 20} {
			do(t, server, "SET", "key", strings.Repeat("x", size))
			reply := ask(t, n, form.Exclusive{}.Observe("key"))
			requireReply(t, quorum.Refused, nodeerr.ErrForeign, reply)
			require.Empty(t, reply.Value)
		}
		require.EqualValues(t, 1, do(t, server, "DEL", "key"))
		do(t, server, "RPUSH", "key", "data")
		requireReply(t, quorum.Refused, nodeerr.ErrForeign, ask(t, n, form.Exclusive{}.Observe("key")))
	})
}

// A round that is denied learns from its own release what holds the key.
func TestRelease_ReportsWhatHoldsTheKey(t *testing.T) {
	long := strings.Repeat("x", wire.MaxToken+1)
	for name, release := range map[string]*wire.Command{
		"plain":  newRelease("key", "token", ttl),
		"fenced": newReleaseFenced("key", "token", 7, ttl),
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
				do(t, server, "SET", "key", "another", "PX", "10000")
				reply := ask(t, n, release)
				requireReply(t, quorum.No, nodeerr.ErrHeld, reply)
				require.NotErrorIs(t, reply.Err, nodeerr.ErrNoExpiry)
				do(t, server, "SET", "key", "another")
				reply = ask(t, n, release)
				requireReply(t, quorum.No, nodeerr.ErrHeld, reply)
				require.ErrorIs(t, reply.Err, nodeerr.ErrNoExpiry)
				for _, data := range [][]any{{"SET", "key", long}, {"SET", "key", long, "PX", "10000"}} {
					do(t, server, data[0].(string), data[1:]...)
					requireReply(t, quorum.No, nodeerr.ErrForeign, ask(t, n, release))
				}
				require.Equal(t, int64(len(long)), do(t, server, "STRLEN", "key"), "it is left alone")
			})
		})
	}
}

func TestDelete_NeverDeletesAnotherValueThanTheOneThatWasSeen(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for _, value := range []string{"", "token", "token|7"} {
			requireReply(t, quorum.No, nodeerr.ErrAbsent, ask(t, n, newDelete("key", value)))
			do(t, server, "SET", "key", "another", "PX", ttl.Milliseconds())
			requireReply(t, quorum.No, nodeerr.ErrHeld, ask(t, n, newDelete("key", value)))
			do(t, server, "SET", "key", "token|8")
			requireReply(t, quorum.No, nodeerr.ErrNoExpiry, ask(t, n, newDelete("key", value)))
			do(t, server, "SET", "key", strings.Repeat("x", wire.MaxToken+1))
			requireReply(t, quorum.No, nodeerr.ErrForeign, ask(t, n, newDelete("key", value)))
			require.EqualValues(t, wire.MaxToken+1, do(t, server, "STRLEN", "key"))
			do(t, server, "SET", "key", value)
			requireYes(t, n, newDelete("key", value))
			require.EqualValues(t, 0, do(t, server, "EXISTS", "key"))
		}
	})
}

func TestHeal_DeletesOnlyAKeyWithoutATTL(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		requireReply(t, quorum.No, nodeerr.ErrAbsent, ask(t, n, form.Exclusive{}.Heal("key", "value")))
		for _, value := range []string{"value", ""} {
			do(t, server, "SET", "key", value, "PX", ttl.Milliseconds())
			requireReply(t, quorum.No, nodeerr.ErrHeld, ask(t, n, form.Exclusive{}.Heal("key", value)))
			do(t, server, "SET", "key", "another")
			requireReply(t, quorum.No, nodeerr.ErrHeld, ask(t, n, form.Exclusive{}.Heal("key", value)))
			require.Equal(t, "another", holds(t, server, "key"))
			do(t, server, "SET", "key", value)
			requireYes(t, n, form.Exclusive{}.Heal("key", value))
			require.EqualValues(t, 0, do(t, server, "EXISTS", "key"))
		}
	})
}

func TestPublish_IsDoneWhetherSomebodyListensOrNot(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		requireYes(t, n, node.Publish("channel", "message"))
	})
}

func TestCommand_OnTheWire(t *testing.T) {
	var mu sync.Mutex
	var got []string
	f := newFake(t, func(c *peer, args []string) string {
		mu.Lock()
		defer mu.Unlock()
		got = args
		return likeRedis(c, args)
	})
	n := f.open(t, patient())
	const ms = time.Millisecond
	for want, cmd := range map[string]*wire.Command{
		"SET k t NX PX 1000": newAcquire("k", "t", time.Second),
		"SET k t NX PX 1":    newAcquire("k", "t", 2*ms-1),
		"script 1 k t":       newRelease("k", "t", ttl),
		"script 1 k t 1000":  newExtend("k", "t", time.Second),
		"script 1 k t 1":     newExtend("k", "t", 2*ms-1),
		"script 1 k v":       form.Exclusive{}.Heal("k", "v"),
		"script 1 k w":       newDelete("k", "w"),
		"PUBLISH c m":        node.Publish("c", "m"),
	} {
		requireYes(t, n, cmd)
		mu.Lock()
		if isScript(got) {
			got = append([]string{"script"}, got[2:]...)
		}
		assert.Equal(t, want, strings.Join(got, " "))
		mu.Unlock()
	}
}

func TestCommand_WithFencingOnTheWire(t *testing.T) {
	got := make(chan []string, 1)
	f := newFake(t, func(c *peer, args []string) string {
		if isScript(args) {
			got <- append([]string{"script"}, args[2:]...)
		}
		return likeRedis(c, args)
	})
	n := f.open(t, patient())
	for want, cmd := range map[string]*wire.Command{
		"script 2 k {k}:fence t 1000 5":               newAcquireFenced("k", "t", time.Second, counted{Keep: 2 * time.Hour, Now: 5, Block: 1}),
		"script 2 k {k}:fence t 1000 5 60000":         newAcquireFenced("k", "t", time.Second, counted{Keep: time.Minute, Now: 5}),
		"script 2 k {k}:fence t 1000 5 7200000 3":     newAcquireFenced("k", "t", time.Second, counted{Keep: 2 * time.Hour, Now: 5, Floor: 3}),
		"script 2 k {k}:fence t 1000 5 7200000 0":     newAcquireFenced("k", "t", time.Second, counted{Keep: 2 * time.Hour, Now: 5, Advance: true}),
		"script 2 k {k}:fence t 1000 5 7200000  4096": newAcquireFenced("k", "t", time.Second, counted{Keep: 2 * time.Hour, Now: 5, Block: 4096}),
		"script 2 k {k}:fence t 1000 5 7200000 3 2":   newAcquireFenced("k", "t", time.Second, counted{Keep: 2 * time.Hour, Now: 5, Floor: 3, Block: 2}),
		"script 2 k {k}:fence t|5 t|7 7":              newRaise("k", "t", 5, 7),
		"script 2 k {k}:fence t|7":                    newReleaseFenced("k", "t", 7, ttl),
		"script 2 k {k}:fence t|0":                    newReleaseFenced("k", "t", 0, ttl),
		"script 2 k {k}:fence t 7 1000 60000":         newExtendFenced("k", "t", 7, time.Second, time.Minute),
		"script 2 k {k}:fence t 9007199254740991 1 0": newExtendFenced("k", "t", 1<<53-1, time.Millisecond, 0),
	} {
		requireYes(t, n, cmd)
		require.Equal(t, want, strings.Join(<-got, " "))
	}
}
