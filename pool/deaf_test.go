package pool_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

// Where a node may not hear, it is deaf and does all the rest.

// restricted starts a server with a user of these rules, and opens a node for it.
func restricted(t testing.TB, rules ...any) (*redistest.Process, *pool.Node) {
	t.Helper()
	server := redistest.Real(t, 1)[0]
	do(t, server, "ACL", append([]any{"SETUSER", "locker", "on", ">pw", "~*", "+@all"}, rules...)...)
	return server, open(t, as(server, "locker", "pw"), patient())
}

func permit(t testing.TB, server *redistest.Process, rules ...any) {
	t.Helper()
	do(t, server, "ACL", append([]any{"SETUSER", "locker"}, rules...)...)
}

func requireUnwatched(t testing.TB, node *pool.Node) {
	t.Helper()
	for range 3 {
		requireYes(t, node, pool.Acquire("key", "token", ttl))
		reply := ask(t, node, pool.Look("key"))
		require.Equal(t, pool.Yes, reply.Answer)
		require.Equal(t, "token", reply.Value)
		require.False(t, reply.Watched)
		requireYes(t, node, pool.Release("key", "token", ttl))
	}
}

func TestANodeThatMayNotTrackIsDeafUntilItMay(t *testing.T) {
	server, node := restricted(t, "allchannels", "-client|tracking")
	l := listen(node, "channel")
	requireSubscribed(t, server, "channel", 1)
	require.Eventually(t, func() bool {
		info, err := redis.String(do(t, server, "INFO", "commandstats"), nil)
		return err == nil && strings.Contains(info, "cmdstat_client|tracking:calls=0,")
	}, bound, tick, "it has not tried")
	requireUnwatched(t, node)
	require.Empty(t, l, "it hears")
	do(t, server, "PUBLISH", "channel", "x")
	require.Equal(t, "0 message x", l.next(t))
	permit(t, server, "+client|tracking")
	require.Equal(t, "0 hearing", l.next(t))
	requireTold(t, server, node, l)
}

func TestANodeThatMayNotMakeALookWatchedSaysSo(t *testing.T) {
	_, node := restricted(t, "allchannels", "-client|caching")
	l := listen(node, "")
	require.Equal(t, "0 hearing", l.next(t))
	requireUnwatched(t, node)
}

func TestANodeThatMaySubscribeToNothingIsDeafUntilItMay(t *testing.T) {
	server, node := restricted(t, "resetchannels")
	l := listen(node, "channel")
	requireLog(t, server, "__redis__:invalidate", "channel")
	requireUnwatched(t, node)
	require.Empty(t, l)
	permit(t, server, "allchannels")
	require.Equal(t, "0 hearing", l.next(t))
	requireTold(t, server, node, l)
	requireSubscribed(t, server, "channel", 1)
}

// requireLog waits until the server has refused these channels.
func requireLog(t testing.TB, server *redistest.Process, channels ...string) {
	t.Helper()
	require.Eventually(t, func() bool {
		log, err := redis.Values(do(t, server, "ACL", "LOG"), nil)
		require.NoError(t, err)
		refused := ""
		for _, entry := range log {
			fields, err := redis.Values(entry, nil)
			require.NoError(t, err)
			for _, field := range fields {
				if text, ok := field.([]byte); ok {
					refused += string(text) + "\n"
				}
			}
		}
		for _, channel := range channels {
			if !strings.Contains(refused, "\n"+channel+"\n") {
				return false
			}
		}
		return true
	}, bound, tick)
}

func TestANodeThatMayNotSubscribeToItsListenersChannelHearsAllTheSame(t *testing.T) {
	server, node := restricted(t, "resetchannels", "&__redis__:invalidate")
	l := listen(node, "channel")
	requireLog(t, server, "channel")
	require.Equal(t, "0 hearing", l.next(t))
	requireTold(t, server, node, l)
	do(t, server, "PUBLISH", "channel", "x")
	permit(t, server, "&channel")
	requireSubscribed(t, server, "channel", 1)
	do(t, server, "PUBLISH", "channel", "y")
	require.Equal(t, "0 message y", l.next(t))
}

func TestANodeThatMayNotBeToldOfChangesIsStillToldMessages(t *testing.T) {
	server, node := restricted(t, "resetchannels", "&channel")
	l := listen(node, "channel")
	requireSubscribed(t, server, "channel", 1)
	requireLog(t, server, "__redis__:invalidate")
	requireUnwatched(t, node)
	require.Empty(t, l)
	do(t, server, "PUBLISH", "channel", "x")
	require.Equal(t, "0 message x", l.next(t))
	require.Equal(t, "0", calls(t, server, "client|tracking"))
}

func TestANodeOfAServerThatCannotTrackIsDeaf(t *testing.T) {
	server := redistest.Mini(t, 1)[0]
	node := open(t, server.URL(), patient())
	l := listen(node, "channel")
	requireSubscribed(t, server, "channel", 1)
	requireUnwatched(t, node)
	do(t, server, "PUBLISH", "channel", "x")
	require.Equal(t, "0 message x", l.next(t))
}

func TestWhatIsRefusedIsNotAskedForInABusyLoop(t *testing.T) {
	for name, refuse := range map[string]func(c *peer, args []string) bool{
		"TRACKING":     func(_ *peer, args []string) bool { return args[0] == "CLIENT" && args[1] == "TRACKING" },
		"SUBSCRIBE":    func(_ *peer, args []string) bool { return args[0] == "SUBSCRIBE" },
		"SUBSCRIBE ch": func(_ *peer, args []string) bool { return args[0] == "SUBSCRIBE" && args[1] == "ch" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var permitted atomic.Bool
				f := newEarFake(t, func(c *peer, args []string) (string, bool) {
					return "-NOPERM this user has no permissions\r\n", !permitted.Load() && refuse(c, args)
				})
				node := f.open(t)
				l := listen(node, "ch")
				const hour = 60
				pass(hour * time.Minute)
				if name == "SUBSCRIBE ch" {
					require.Equal(t, "0 hearing", l.next(t))
				}
				require.Empty(t, l)
				require.Equal(t, 2, f.connections(), "it is no fault of the connection")
				for what, most := range map[string]int{"CLIENT TRACKING": 1, "SUBSCRIBE __redis__": 1, "SUBSCRIBE ch": 1} {
					if strings.HasPrefix(what, name) || strings.HasSuffix(what, name) {
						require.Greater(t, f.count(what), 2*hour, what)
						most = 4*hour + 10
					}
					require.LessOrEqual(t, f.count(what), most, what)
				}
				permitted.Store(true)
				pass(31 * time.Second)
				if name != "SUBSCRIBE ch" {
					require.Equal(t, "0 hearing", l.next(t))
				}
				require.Empty(t, l)
			})
		})
	}
}

func TestAServerWithoutRoomForAnEarIsNotAskedInABusyLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newEarFake(t, func(c *peer, _ []string) (string, bool) {
			return "-ERR max number of clients reached\r\n", c.number > 1
		})
		node := f.open(t)
		l := listen(node, "")
		pass(time.Hour)
		require.Empty(t, l)
		require.Greater(t, f.connections(), 100)
		require.Less(t, f.connections(), 260)
		requireYes(t, node, pool.Acquire("key", "token", ttl))
	})
}

// Trap 22: a pool with one connection has it for the locks.
func TestAWrappedPoolWithOneConnectionIsDeaf(t *testing.T) {
	for name, wait := range map[string]bool{"that says so": false, "that waits": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newEarFake(t, nil)
				redisPool := wrappable(f.fake)
				redisPool.MaxActive, redisPool.Wait = 1, wait
				node := wrap(t, redisPool, pool.WithDialTimeout(20*time.Second)) // the ear waits most of the time
				l := listen(node, "channel")
				for number := 1; number <= 5; number++ {
					require.False(t, ask(t, node, pool.Look("key")).Watched)
					pass(10 * time.Second)
					requireYes(t, node, pool.Acquire("key", "token", ttl))
					require.Equal(t, number, f.connections())
					require.NoError(t, f.peer(number).Close())
					synctest.Wait()
					requireYes(t, node, pool.Acquire("key", "token", ttl)) // the ear has not taken its place
				}
				require.Empty(t, l)
				start := time.Now()
				closeInTime(t, node)
				require.Zero(t, time.Since(start))
			})
		})
	}
}
