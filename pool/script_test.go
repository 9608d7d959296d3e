package pool_test

import (
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

// Trap 25: a script costs one round trip, and its source is sent only where the server lacks it.

func TestScriptsAreSentByTheirHashAndByTheirSourceOnlyOnce(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), patient())
	const times = 50
	for range times {
		requireYes(t, node, pool.Acquire("key", "token", ttl))
		requireYes(t, node, pool.Extend("key", "token", 2*ttl))
		requireYes(t, node, pool.Restore("key", "token", ttl))
		requireYes(t, node, pool.Release("key", "token", ttl))
	}
	requireCalls(t, server, "eval", 2) // release and extend
	requireCalls(t, server, "evalsha", 3*times-2)
}

func TestScriptsThatAServerForgotAreTaughtAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		for range 5 {
			requireYes(t, node, pool.Acquire("key", "token", ttl))
			requireYes(t, node, pool.Extend("key", "token", 2*ttl))
			do(t, server, "SCRIPT", "FLUSH")
			requireYes(t, node, pool.Restore("key", "token", ttl))
			requireYes(t, node, pool.Release("key", "token", ttl))
			require.Empty(t, holds(t, server, "key"))
		}
	})
}

func TestManyScriptsUnderWayAreTaughtAllTheSame(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), patient())
	const keys = 500
	var replies []inbox
	for i := range keys {
		replies = append(replies,
			send(node, pool.Acquire(string(rune(i)), "token", ttl)),
			send(node, pool.Release(string(rune(i)), "token", ttl)))
	}
	for _, reply := range replies {
		require.Equal(t, pool.Yes, reply.next(t).Answer)
		require.Empty(t, reply)
	}
	require.EqualValues(t, 0, do(t, server, "DBSIZE"))
}

func TestAServerThatKeepsNoScriptsIsSentTheSourceEachTime(t *testing.T) {
	f := newFake(t, answering("EVALSHA", "-NOSCRIPT No matching script. Please use EVAL.\r\n"))
	node := f.open(t, patient())
	for range 3 {
		for kind, cmd := range everyKind() {
			require.Equal(t, pool.Yes, ask(t, node, cmd).Answer, kind)
		}
	}
}

// A release that is told already still has to be done; an extension must not come late.
func TestOfTheScriptsThatTimedOutOnlyAReleaseIsSentAgainByItsSource(t *testing.T) {
	for _, kind := range []string{"release", "extend"} {
		cmd := everyKind()[kind]
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sources atomic.Int32
				f := newFake(t, func(c *peer, args []string) string {
					switch args[0] {
					case "EVALSHA":
						return ""
					case "EVAL":
						sources.Add(1)
					}
					return likeRedis(c, args)
				})
				node := f.open(t, pool.WithMaxOverdue(time.Hour))
				requireYes(t, node, cmd)
				require.EqualValues(t, 1, sources.Load())
				reply := send(node, cmd)
				requireReply(t, pool.Maybe, pool.ErrTimeout, reply.next(t))
				_, err := io.WriteString(f.peer(1), "-NOSCRIPT No matching script.\r\n")
				require.NoError(t, err)
				synctest.Wait()
				if kind == "release" {
					require.EqualValues(t, 2, sources.Load())
				} else {
					require.EqualValues(t, 1, sources.Load())
				}
				require.Empty(t, reply, "told twice")
			})
		})
	}
}
