package pool_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

func TestALookTellsWhatAKeyHoldsAndHowLongStill(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		requireReply(t, pool.No, pool.ErrAbsent, ask(t, node, pool.Look("key")))
		for _, value := range []string{"", "token", "a\r\n\x00b"} {
			do(t, server, "SET", "key", value, "PX", ttl.Milliseconds())
			reply := ask(t, node, pool.Look("key"))
			require.NoError(t, reply.Err)
			assert.Equal(t, pool.Yes, reply.Answer)
			assert.Equal(t, value, reply.Value)
			assert.Greater(t, reply.TTL, ttl/2)
			assert.LessOrEqual(t, reply.TTL, ttl)
			assert.False(t, reply.Watched, "nobody listens")
		}
		do(t, server, "SET", "key", "token")
		require.Equal(t, pool.NoTTL, ask(t, node, pool.Look("key")).TTL)
	})
}

// The last millisecond of a key is not the end of time.
func TestALookTellsNoTTLOnlyWhereThereIsNone(t *testing.T) {
	for left, want := range map[string]time.Duration{":0": 0, ":1": time.Millisecond, ":-1": pool.NoTTL} {
		node := newFake(t, answering("EVAL", "*2\r\n"+bulk("v")+left+"\r\n")).open(t, patient())
		reply := ask(t, node, pool.Look("key"))
		require.Equal(t, pool.Yes, reply.Answer)
		require.Equal(t, want, reply.TTL, left)
	}
}

func TestALookThatIsAnsweredByNonsenseIsMaybe(t *testing.T) {
	for _, text := range []string{
		":1\r\n", bulk("v"), "*0\r\n", "*1\r\n" + bulk("v"), "*2\r\n" + bulk("v") + ":-2\r\n", "*2\r\n:1\r\n:1\r\n",
		"*2\r\n$-1\r\n:1\r\n", "*3\r\n" + bulk("v") + ":1\r\n:1\r\n",
	} {
		node := newFake(t, answering("EVAL", text)).open(t, patient())
		requireReply(t, pool.Maybe, pool.ErrProtocol, ask(t, node, pool.Look("key")))
	}
}

// What is sent again for its source would have nothing before it that makes it watched.
func TestALookIsNeverSentByItsHash(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), patient())
	for range 3 {
		requireReply(t, pool.No, pool.ErrAbsent, ask(t, node, pool.Look("key")))
		do(t, server, "SCRIPT", "FLUSH")
	}
	requireCalls(t, server, "eval", 3)
	requireCalls(t, server, "evalsha", 0)
	requireCalls(t, server, "client|caching", 0)
}

// A lock that a node has lost is given to it again, to last as long as on the others.
func TestExtendPlantsAKeyThatIsNotThere(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		for range 2 { // by its source, and by its hash
			requireReply(t, pool.Planted, pool.ErrPlanted, ask(t, node, pool.Extend("key", "token", ttl)))
			require.Equal(t, "token", holds(t, server, "key"))
			require.Greater(t, left(t, server, "key"), ttl/2)
			require.LessOrEqual(t, left(t, server, "key"), ttl)
			requireYes(t, node, pool.Extend("key", "token", ttl))
			requireYes(t, node, pool.Release("key", "token", ttl))
		}
	})
}

func TestAnExtendThatMayNotPlantSaysWhy(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), patient())
	do(t, server, "CONFIG", "SET", "maxmemory", 1)
	requireRefused(t, ask(t, node, pool.Extend("key", "token", ttl)), "OOM")
	require.Empty(t, holds(t, server, "key"))
}

func TestExtendGivesAKeyWithoutATTLOne(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		do(t, server, "SET", "key", "token")
		requireYes(t, open(t, server.URL(), patient()), pool.Extend("key", "token", ttl))
		require.Greater(t, left(t, server, "key"), ttl/2)
	})
}

func TestForceDeletesAKeyWhateverStringItHolds(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		for _, value := range []string{"", "token", "0"} {
			requireReply(t, pool.No, pool.ErrAbsent, ask(t, node, pool.Force("key")))
			do(t, server, "SET", "key", value)
			requireYes(t, node, pool.Force("key"))
			require.EqualValues(t, 0, do(t, server, "EXISTS", "key"))
		}
	})
}

func TestHealDeletesOnlyWhatNothingElseWouldEverEnd(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		requireReply(t, pool.No, pool.ErrAbsent, ask(t, node, pool.Heal("key", "value")))
		for _, value := range []string{"value", ""} {
			do(t, server, "SET", "key", value, "PX", ttl.Milliseconds())
			requireReply(t, pool.No, pool.ErrHeld, ask(t, node, pool.Heal("key", value)))
			do(t, server, "SET", "key", "another")
			requireReply(t, pool.No, pool.ErrHeld, ask(t, node, pool.Heal("key", value)))
			require.Equal(t, "another", holds(t, server, "key"))
			do(t, server, "SET", "key", value)
			requireYes(t, node, pool.Heal("key", value))
			require.EqualValues(t, 0, do(t, server, "EXISTS", "key"))
		}
	})
}

func TestPublishIsDoneWhetherSomebodyListensOrNot(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		requireYes(t, open(t, server.URL(), patient()), pool.Publish("channel", "message"))
	})
}
