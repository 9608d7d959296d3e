package node_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

const maxAttended = 4096

// attend has the node attend a channel.
func attend(t testing.TB, n *node.Node, channel string) {
	t.Helper()
	require.True(t, n.Attend(channel))
}

func TestAttend_ServersCountANodeUntilItHasLeftAsOften(t *testing.T) {
	server, n := openReal(t)
	other := open(t, server.Addr(), patient())
	attend(t, n, "early") // before it is connected
	l := listen(n, "own")
	listen(other, "")
	requireSubscribed(t, server, "early", 1)
	for range 2 {
		attend(t, n, "waits")
	}
	attend(t, other, "waits")
	requireSubscribed(t, server, "waits", 2)
	n.Leave("waits")
	n.Leave("early")
	requireSubscribed(t, server, "early", 0)
	requireSubscribed(t, server, "waits", 2)
	n.Leave("waits")
	requireSubscribed(t, server, "waits", 1)
	requireSubscribed(t, server, "own", 1)
	closeInTime(t, other)
	requireSubscribed(t, server, "waits", 0)
	require.False(t, other.Attend("waits"), "after Close")
	l.await(t, "0 active")
	requireReported(t, server, n, l)
}

func TestAttend_ItsMessagesAreIgnoredAndTrackingGoesOn(t *testing.T) {
	server, n := openReal(t)
	l := listen(n, "own")
	require.Equal(t, "0 active", l.next(t))
	requireSubscribed(t, server, "own", 1)
	attend(t, n, "waits")
	requireSubscribed(t, server, "waits", 1)
	requireTracked(t, n, "key")
	do(t, server, "PUBLISH", "waits", "x")
	do(t, server, "PUBLISH", "own", "y")
	require.Equal(t, "0 message y", l.next(t))
	do(t, server, "SET", "key", "token")
	require.Equal(t, "0 invalidated key", l.next(t))
	n.Leave("waits")
	requireSubscribed(t, server, "waits", 0)
	require.Empty(t, l)
	require.Len(t, clients(t, server), 1)
	if !testredis.IsOld(t, server) {
		requireCalls(t, server, "client|tracking", 1)
	}
}

func TestAttend_GoesOnWithTheNextConnection(t *testing.T) {
	server, n := openReal(t)
	l := listen(n, "own")
	for i := range 100 {
		attend(t, n, fmt.Sprint("waits-", i))
	}
	attend(t, n, "waits")
	for range 3 {
		l.await(t, "0 active")
		requireSubscribed(t, server, "waits", 1)
		requireSubscribed(t, server, "waits-99", 1)
		do(t, server, "CLIENT", "KILL", "ID", clients(t, server)[0])
		l.await(t, "0 lost")
	}
	n.Leave("waits")
	l.await(t, "0 active")
	requireSubscribed(t, server, "own", 1)
	requireSubscribed(t, server, "waits", 0)
}

// The danger: a process that waits for many names has no room for its commands.
func TestAttend_ManyChannelsLeaveRoomForCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		f := newFake(t, func(c *peer, args []string) string {
			if slow.Load() && strings.HasSuffix(args[0], "SUBSCRIBE") {
				pass(time.Millisecond)
			}
			return likeRedis(c, args)
		})
		n := f.open(t, patient())
		l := listen(n, "own")
		l.await(t, "0 active")
		for i := range maxAttended {
			attend(t, n, fmt.Sprint("waits-", i))
		}
		require.False(t, n.Attend("more"), "a node has a bound")
		attend(t, n, "waits-0")
		n.Leave("waits-0")
		synctest.Wait()
		require.Equal(t, maxAttended, f.count("1 SUBSCRIBE waits-"))

		slow.Store(true)
		require.NoError(t, f.peer(1).Close())
		l.await(t, "0 lost")
		l.await(t, "0 active")
		start := time.Now()
		requireYes(t, n, newAcquire("key", "token", ttl))
		require.Less(t, time.Since(start), 200*time.Millisecond, "behind a part of the channels")
		pass(10 * time.Second)
		require.Equal(t, maxAttended, f.count("2 SUBSCRIBE waits-"))
		for i := range maxAttended {
			n.Leave(fmt.Sprint("waits-", i))
		}
		pass(10 * time.Second)
		require.Equal(t, maxAttended, f.count("2 UNSUBSCRIBE waits-"))
		attend(t, n, "more")
		require.Equal(t, 2, f.connections())
	})
}

func TestLeave_OfAChannelWhoseSubscriptionIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, func(c *peer, args []string) string {
			pass(time.Millisecond)
			return likeRedis(c, args)
		})
		n := f.open(t)
		listen(n, "").await(t, "0 active")
		for range 3 { // of which only the last counts
			attend(t, n, "waits")
			n.Leave("waits")
		}
		pass(time.Second)
		require.Equal(t, 1, f.count("1 SUBSCRIBE waits"))
		require.Equal(t, 1, f.count("1 UNSUBSCRIBE waits"))
		f.send(t, 1, push("message", "waits")+testredis.Bulk("text")) // that nobody asked for
		pass(time.Second)
		require.Equal(t, 2, f.connections())
	})
}

func TestAttend_ThatIsRefusedIsAskedForAgainAndChangesNothingElse(t *testing.T) {
	for _, refused := range []string{"SUBSCRIBE waits", "UNSUBSCRIBE waits"} {
		synctest.Test(t, func(t *testing.T) {
			f, permit := barring(t, refused)
			n := f.open(t)
			l := listen(n, "own")
			attend(t, n, "waits")
			synctest.Wait()
			if refused == "UNSUBSCRIBE waits" {
				n.Leave("waits")
			}
			pass(time.Hour)
			require.InDelta(t, 360, f.count("1 "+refused), 5, "every ten seconds")
			require.Equal(t, 1, f.count("CLIENT TRACKING"))
			require.Equal(t, 1, f.count("1 SUBSCRIBE own"))
			require.Equal(t, 1, f.connections(), "it is no fault of the connection")
			require.Equal(t, "0 active", l.next(t))
			requireTracked(t, n, "key")
			f.send(t, 1, push("message", "own")+testredis.Bulk("x"))
			require.Equal(t, "0 message x", l.next(t))
			permit()
			before := f.count("1 " + refused)
			pass(time.Hour)
			require.Equal(t, before+1, f.count("1 "+refused))
			require.Empty(t, l)
		})
	}
}

func TestAttend_OfARealServerThatRefusesTheChannel(t *testing.T) {
	server, n := restricted(t, "resetchannels", "&own")
	l := listen(n, "own")
	require.Equal(t, "0 active", l.next(t))
	attend(t, n, "waits")
	requireSubscribed(t, server, "own", 1)
	requireYes(t, n, newAcquire("key", "token", ttl))
	requireReported(t, server, n, l)
	requireSubscribed(t, server, "waits", 0)
	require.Equal(t, "1", testredis.Info(t, server, "stats", "total_error_replies"))
	require.Empty(t, l)
}

// miniredis would accept no other command.
func TestAttend_WithoutTrackingAsksForNothing(t *testing.T) {
	refused := answering("CLIENT TRACKING", "-NOPERM no\r\n")
	for name, open := range map[string]func(t *testing.T) (*fake, *node.Node){
		"it is refused": func(t *testing.T) (*fake, *node.Node) { f := newFake(t, refused); return f, f.open(t) },
		"RESP2": func(t *testing.T) (*fake, *node.Node) {
			f := newFake(t, answering("HELLO", "-ERR unknown\r\n"))
			return f, f.open(t)
		},
		"a wrapped pool": func(t *testing.T) (*fake, *node.Node) { f := newFake(t, nil); return f, wrap(t, f.pool()) },
	} {
		bubble(t, name, func(t *testing.T) {
			f, n := open(t)
			listen(n, "own")
			attend(t, n, "waits")
			requireUntracked(t, n)
			pass(time.Minute)
			n.Leave("waits")
			pass(time.Minute)
			requireUntracked(t, n)
			require.Zero(t, f.count("SUBSCRIBE"))
		})
	}
}

// What is not asked of a node that owes an answer, or could not be written in time, is asked once it answers again.
func TestAttend_IsAskedForAsSoonAsTheNodeAnswersAgain(t *testing.T) {
	for what, early := range map[string]bool{"it owes an answer": false, "a command is being written": true} {
		bubble(t, what, func(t *testing.T) {
			goesOn := make(chan struct{})
			f := newFake(t, func(c *peer, args []string) string {
				switch args[0] {
				case "SET":
					<-goesOn
				case "SUBSCRIBE":
					pass(75 * time.Millisecond) // longer than the node timeout
				}
				return likeRedis(c, args)
			})
			n := f.open(t, withMaxOverdue(time.Hour))
			listen(n, "").await(t, "0 active")
			attend(t, n, "left")
			pass(time.Second)
			for range 2 { // the second is written when the first has been answered
				_ = send(n, newAcquire("key", "token", ttl))
				synctest.Wait()
			}
			change := func() {
				attend(t, n, "waits")
				n.Leave("left")
			}
			if early {
				change()
			}
			pass(75 * time.Millisecond)
			if !early {
				change()
			}
			close(goesOn)
			pass(time.Second) // it would be asked for after ten anyway
			require.Equal(t, 1, f.count("1 SUBSCRIBE waits"))
			require.Equal(t, 1, f.count("1 UNSUBSCRIBE left"))
			require.Equal(t, 1, f.connections())
		})
	}
}

// The danger: a request that ends in an unusual way is counted twice or never, and then the node asks for nothing more.
func TestAttend_AfterAnyTroubleServersCountWhatIsAttended(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	n := open(t, server.Addr(), withTimeout(20*time.Millisecond), withMaxOverdue(100*time.Millisecond))
	listen(n, "own")
	var busy sync.WaitGroup
	for i := range 4 {
		busy.Go(func() {
			channel := func(j int) string { return fmt.Sprint("waits-", i, "-", j) }
			for j := range 100 {
				if !n.Attend(channel(j)) {
					t.Error("there is room")
				}
				<-send(n, newRelease("key", "token", ttl))
				if j%10 > 0 {
					n.Leave(channel(j))
				}
			}
		})
	}
	busy.Go(func() {
		for range 5 {
			do(t, server, "CLIENT", "KILL", "TYPE", []string{"normal", "pubsub"}[rand.N(2)])
			server.Freeze()
			_ = send(n, newRelease("key", "token", ttl)).next(t)
			server.Thaw()
			requireBack(t, n)
		}
	})
	busy.Wait()
	requireBack(t, n)
	for i := range 4 {
		for j := range 20 {
			want := int64(0)
			if j%10 == 0 {
				want = 1
			}
			requireSubscribed(t, server, fmt.Sprint("waits-", i, "-", j), want)
		}
	}
	require.NotEqual(t, quorum.Unsent, ask(t, n, newRelease("key", "token", ttl)).Answer)
}
