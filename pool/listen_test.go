package pool_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

// told is a Listener that writes down what it is told.
type told chan string

func (l told) Changed(node int, key string)  { l <- fmt.Sprint(node, " changed ", key) }
func (l told) Hearing(node int)              { l <- fmt.Sprint(node, " hearing") }
func (l told) Deaf(node int)                 { l <- fmt.Sprint(node, " deaf") }
func (l told) Message(node int, text string) { l <- fmt.Sprint(node, " message ", text) }

// await passes over what l is told until it is this.
func (l told) await(t testing.TB, want string) {
	t.Helper()
	over := time.After(bound)
	for seen := []string(nil); ; {
		select {
		case got := <-l:
			if got == want {
				return
			}
			seen = append(seen, got)
		case <-over:
			require.FailNow(t, "never told", "%q, only %q", want, seen)
		}
	}
}

// next is what l is told next.
func (l told) next(t testing.TB) string {
	t.Helper()
	select {
	case got := <-l:
		return got
	case <-time.After(bound):
		require.FailNow(t, "nothing is told")
		return ""
	}
}

// listen has a new listener told what happens on the node, under the number 0.
func listen(node *pool.Node, channel string) told {
	l := make(told, 10_000)
	node.Listen(l, 0, channel)
	return l
}

// requireWatched looks at the key and fails the test unless the next change to it will be told.
func requireWatched(t testing.TB, node *pool.Node, key string) {
	t.Helper()
	require.True(t, ask(t, node, pool.Look(key)).Watched, "%s is not watched", key)
}

// requireTold looks at a key, changes it, and waits until that is told.
func requireTold(t testing.TB, server redistest.Server, node *pool.Node, l told) {
	t.Helper()
	requireWatched(t, node, "told")
	do(t, server, "INCR", "told")
	l.await(t, "0 changed told")
}

func TestAKeyThatChangesIsAnnounced(t *testing.T) {
	onBothNodes(t, []pool.Option{patient()}, func(t *testing.T, server *redistest.Process, node *pool.Node) {
		do(t, server, "DEL", "key")
		l := listen(node, "")
		require.Equal(t, "0 hearing", l.next(t)) // no command was ever sent
		for _, change := range [][]any{
			{"SET", "key", "token", "PX", 1_000_000}, // it was not there
			{"PEXPIRE", "key", 2_000_000},
			{"SET", "key", "other"},
			{"DEL", "key"},
		} {
			requireWatched(t, node, "key")
			do(t, server, change[0].(string), change[1:]...)
			require.Equal(t, "0 changed key", l.next(t), change)
		}
		requireReply(t, pool.No, pool.ErrAbsent, ask(t, node, pool.Look("key")))
		requireYes(t, node, pool.Acquire("key", "token", ttl))
		require.Equal(t, "0 changed key", l.next(t), "by the node itself")
		requireWatched(t, node, "key")
		requireYes(t, node, pool.Release("key", "token", ttl))
		require.Equal(t, "0 changed key", l.next(t), "by the node itself")
	})
}

func TestAKeyThatExpiresIsAnnounced(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), patient())
	l := listen(node, "")
	l.await(t, "0 hearing")
	do(t, server, "SET", "key", "token", "PX", 50)
	requireWatched(t, node, "key")
	l.await(t, "0 changed key")
}

func TestAfterAFlushEverythingHasToBeLookedAtAgain(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), patient())
	l := listen(node, "")
	l.await(t, "0 hearing")
	for _, flush := range []string{"FLUSHALL", "FLUSHDB"} {
		do(t, server, "SET", "key", "token")
		requireWatched(t, node, "key")
		do(t, server, flush)
		require.Equal(t, "0 hearing", l.next(t))
		requireTold(t, server, node, l)
	}
}

// The hot path is not tracked: what it reads would be announced, and held in the server's memory.
func TestOnlyWhatIsLookedAtIsTracked(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), patient())
	l := listen(node, "")
	l.await(t, "0 hearing")
	for range 2 {
		requireYes(t, node, pool.Acquire("key", "token", ttl))
		requireYes(t, node, pool.Extend("key", "token", 2*ttl))
		requireReply(t, pool.No, pool.ErrHeld, ask(t, node, pool.Release("key", "other", ttl)))
		requireYes(t, node, pool.Restore("key", "token", ttl))
		requireReply(t, pool.No, pool.ErrHeld, ask(t, node, pool.Heal("key", "token")))
		requireYes(t, node, pool.Force("key"))
	}
	tracked := func() string {
		info, err := redis.String(do(t, server, "INFO", "stats"), nil)
		require.NoError(t, err)
		_, after, _ := strings.Cut(info, "tracking_total_keys:")
		count, _, _ := strings.Cut(after, "\r\n")
		return count
	}
	require.Equal(t, "0", tracked())
	requireWatched(t, node, "another")
	require.Equal(t, "1", tracked())
	requireCalls(t, server, "client|caching", 1)
}

func TestNothingIsWatchedWhereNobodyListens(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), patient())
	require.False(t, ask(t, node, pool.Look("key")).Watched)
	require.Equal(t, "0", calls(t, server, "client|tracking"))
	require.Len(t, clients(t, server), 1)
}

func TestAMessageOnTheChannelOfAListenerArrives(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		l := listen(node, "channel")
		requireSubscribed(t, server, "channel", 1)
		requireYes(t, node, pool.Publish("other", "to nobody"))
		do(t, server, "PUBLISH", "channel", "from anybody")
		l.await(t, "0 message from anybody")
		requireYes(t, node, pool.Publish("channel", "a\r\n\x00b"))
		require.Equal(t, "0 message a\r\n\x00b", l.next(t))
	})
}

// requireSubscribed waits until so many connections are subscribed to the channel.
func requireSubscribed(t testing.TB, server redistest.Server, channel string, want int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		counts, err := redis.Values(do(t, server, "PUBSUB", "NUMSUB", channel), nil)
		require.NoError(t, err)
		count, err := redis.Int64(counts[1], nil)
		return err == nil && count == want
	}, bound, tick)
}

func TestListenersOfANodeHaveNumbersAndChannelsOfTheirOwn(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), patient())
	first, second, third := make(told, 100), make(told, 100), make(told, 100)
	node.Listen(first, 1, "one")
	require.Equal(t, "1 hearing", first.next(t))
	node.Listen(second, 2, "two")
	require.Equal(t, "2 hearing", second.next(t), "as the first time, for one that comes later")
	node.Listen(third, 3, "")
	require.Equal(t, "3 hearing", third.next(t))
	require.Len(t, clients(t, server), 2, "one ear hears for all")
	requireSubscribed(t, server, "one", 1)
	requireSubscribed(t, server, "two", 1)

	do(t, server, "PUBLISH", "one", "x")
	require.Equal(t, "1 message x", first.next(t))
	do(t, server, "PUBLISH", "two", "y")
	require.Equal(t, "2 message y", second.next(t))
	do(t, server, "PUBLISH", "", "z")
	requireWatched(t, node, "key")
	do(t, server, "SET", "key", "token")
	require.Equal(t, "1 changed key", first.next(t))
	require.Equal(t, "2 changed key", second.next(t))
	require.Equal(t, "3 changed key", third.next(t))

	node.Unlisten(first)
	node.Unlisten(first)
	requireSubscribed(t, server, "one", 0)
	requireWatched(t, node, "key")
	do(t, server, "SET", "key", "token")
	require.Equal(t, "2 changed key", second.next(t))
	require.Equal(t, "3 changed key", third.next(t))
	require.Empty(t, first)

	node.Listen(second, 20, "one")
	require.Equal(t, "20 hearing", second.next(t))
	requireSubscribed(t, server, "one", 1)
	requireSubscribed(t, server, "two", 0)
	do(t, server, "PUBLISH", "one", "x")
	require.Equal(t, "20 message x", second.next(t))
	require.Empty(t, third)
}

// leaving takes itself and another off when it is told of a change.
type leaving struct {
	told
	node  *pool.Node
	other pool.Listener
}

func (l *leaving) Changed(node int, key string) {
	l.told.Changed(node, key)
	l.node.Unlisten(l)
	l.node.Unlisten(l.other)
}

func TestAListenerThatHasBeenTakenOffIsToldNothingMore(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), patient())
	other := make(told, 100)
	l := &leaving{make(told, 100), node, other}
	node.Listen(l, 0, "channel")
	l.await(t, "0 hearing")
	node.Listen(other, 0, "channel") // and is told after the first
	other.await(t, "0 hearing")
	requireSubscribed(t, server, "channel", 1)
	requireWatched(t, node, "a")
	requireWatched(t, node, "b")
	do(t, server, "MSET", "a", "1", "b", "1") // one message, or two at once
	do(t, server, "PUBLISH", "channel", "x")
	l.next(t)
	requireSubscribed(t, server, "channel", 0)
	closeInTime(t, node)
	require.Empty(t, l.told)
	require.Empty(t, other)
}

func TestListenAfterCloseDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		node := openUnowned(t, f)
		require.NoError(t, node.Close())
		l := listen(node, "channel")
		node.Unlisten(l)
		pass(time.Minute)
		require.Empty(t, l)
		require.Zero(t, f.connections())
		require.NoError(t, node.Close())
	})
}

func TestANodeThatNobodyListensToMayBeTakenOffFrom(t *testing.T) {
	node := newFake(t, nil).open(t)
	node.Unlisten(make(told))
}

// earPool makes a redigo pool of the server.
func earPool(server *redistest.Process) *redis.Pool {
	return &redis.Pool{MaxIdle: 8, DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialURLContext(ctx, server.URL())
	}}
}
