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
	var cmds []*pool.Command
	for i := range keys {
		cmds = append(cmds, pool.Acquire(string(rune(i)), "token", ttl), pool.Release(string(rune(i)), "token", ttl))
	}
	requireAllYes(t, together(t, node, cmds))
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

// Trap 3, where the server asks for the script again: an acquire or an extension that went out behind its release would
// make a key that nobody knows of.
func TestWhatMakesAKeyIsNotSentAgainBehindItsRelease(t *testing.T) {
	release, undo := pool.Release("key", "token", ttl), pool.Restore("key", "token", ttl)
	for name, tt := range map[string]struct {
		cmd, then *pool.Command
		again     bool
	}{
		"acquire, release":           {pool.AcquireFenced("key", "token", ttl, pool.Counter{}), pool.ReleaseFenced("key", "token", 0, ttl), false},
		"extend, release":            {pool.Extend("key", "token", ttl), release, false},
		"extend, restore":            {pool.Extend("key", "token", ttl), undo, false},
		"acquire, another's release": {pool.AcquireFenced("key", "other", ttl, pool.Counter{}), release, true},
		"acquire, another key's":     {pool.AcquireFenced("another", "token", ttl, pool.Counter{}), release, true},
		"extend, extend":             {pool.Extend("key", "token", ttl), pool.Extend("key", "token", 2*ttl), true},
		"release, release":           {release, release, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mute atomic.Bool
				var sources atomic.Int32
				f := newFake(t, func(c *peer, args []string) string {
					if isScript(args) && mute.Load() {
						if args[0] == "EVAL" {
							sources.Add(1)
							return likeRedis(c, args)
						}
						return ""
					}
					return likeRedis(c, args)
				})
				node := f.open(t, pool.WithTimeout(bound/2))
				requireYes(t, node, tt.cmd) // they are known now
				requireYes(t, node, tt.then)
				mute.Store(true)
				reply, behind := send(node, tt.cmd), send(node, tt.then)
				synctest.Wait()
				_, err := io.WriteString(f.peer(1), "-NOSCRIPT No matching script.\r\n:1\r\n")
				require.NoError(t, err)
				require.Equal(t, pool.Yes, behind.next(t).Answer)
				if tt.again {
					synctest.Wait()
					require.EqualValues(t, 1, sources.Load())
					_, err := io.WriteString(f.peer(1), ":1\r\n")
					require.NoError(t, err)
					require.Equal(t, pool.Yes, reply.next(t).Answer)
				} else {
					requireServerError(t, reply.next(t), pool.Refused, "NOSCRIPT")
					require.Zero(t, sources.Load())
				}
			})
		})
	}
}
