package node_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// events is a Listener that writes down what it is notified of.
type events chan string

func (e events) Invalidated(number int, key string) { e <- fmt.Sprint(number, " invalidated ", key) }

// Changed implements [node.Listener].
func (e events) Changed(number int, key string, _ wire.Receiver, _ wire.Tag, _ *wire.Reply) bool {
	e.Invalidated(number, key)
	return false
}
func (e events) TrackingActive(number int)       { e <- fmt.Sprint(number, " active") }
func (e events) TrackingLost(number int)         { e <- fmt.Sprint(number, " lost") }
func (e events) Message(number int, text string) { e <- fmt.Sprint(number, " message ", text) }

// next waits for the next notification.
func (e events) next(t testing.TB) string {
	t.Helper()
	return next(t, e, "nothing is reported")
}

// await passes over the notifications before this one.
func (e events) await(t testing.TB, want string) {
	t.Helper()
	for got := ""; got != want; {
		got = e.next(t)
	}
}

// listen has a new listener notified by the node, under the number 0.
func listen(n *node.Node, channel string) events {
	l := make(events, 10_000)
	n.Listen(l, 0, channel)
	return l
}

// requireTracked observes the key and fails the test unless the next change to it will be reported.
func requireTracked(t testing.TB, n *node.Node, key string) {
	t.Helper()
	require.True(t, ask(t, n, form.Exclusive{}.Observe(key)).Tracked, "%s is not tracked", key)
}

// requireReported observes a key, changes it, and waits until that is reported.
func requireReported(t testing.TB, server testredis.Server, n *node.Node, l events) {
	t.Helper()
	requireTracked(t, n, "reported")
	do(t, server, "INCR", "reported")
	l.await(t, "0 invalidated reported")
}

// requireSubscribed waits until so many connections are subscribed to the channel.
func requireSubscribed(t testing.TB, server testredis.Server, channel string, want int64) {
	t.Helper()
	require.Eventually(t, func() bool { return testredis.Subscribers(t, server, channel) == want }, bound, tick)
}

// requireUntracked fails the test unless the node does all but tracking.
func requireUntracked(t testing.TB, n *node.Node) {
	t.Helper()
	for range 3 {
		requireYes(t, n, newAcquire("key", "token", ttl))
		reply := ask(t, n, form.Exclusive{}.Observe("key"))
		require.Equal(t, quorum.Yes, reply.Answer)
		require.Equal(t, "token", reply.Value)
		require.False(t, reply.Tracked)
		requireYes(t, n, newRelease("key", "token", ttl))
	}
}

func TestTracking_AChangeToAnObservedKeyIsReportedOnce(t *testing.T) {
	server, n := openReal(t)
	l := listen(n, "")
	require.Equal(t, "0 active", l.next(t)) // no command was ever sent
	for _, change := range [][]any{
		{"SET", "key", "token", "PX", 1_000_000}, // it did not exist
		{"PEXPIRE", "key", 2_000_000},
		{"SET", "key", "other"},
		{"DEL", "key"},
	} {
		requireTracked(t, n, "key")
		do(t, server, change[0].(string), change[1:]...)
		require.Equal(t, "0 invalidated key", l.next(t), change)
		do(t, server, "APPEND", "key", "once more")
	}
	do(t, server, "DEL", "key")
	requireReply(t, quorum.No, nodeerr.ErrAbsent, ask(t, n, form.Exclusive{}.Observe("key")))
	requireYes(t, n, newAcquire("key", "token", ttl))
	requireTracked(t, n, "key")
	for _, own := range []*wire.Command{newExtend("key", "token", 2*ttl), newRelease("key", "token", ttl)} {
		requireYes(t, n, own)
		require.Equal(t, "0 invalidated key", l.next(t), "by the node itself")
	}
	requireReply(t, quorum.No, nodeerr.ErrAbsent, ask(t, n, newRelease("key", "token", ttl)))
	do(t, server, "SET", "key", "token", "PX", 1000)
	requireTracked(t, n, "key")
	require.Equal(t, "0 invalidated key", l.next(t), "by its expiry")
	require.Empty(t, l)
	require.Len(t, clients(t, server), 1)
}

func TestTracking_AfterAFlushEverythingHasToBeObservedAgain(t *testing.T) {
	server, n := openReal(t)
	l := listen(n, "")
	l.await(t, "0 active")
	for _, flush := range []string{"FLUSHALL", "FLUSHDB"} {
		do(t, server, "SET", "key", "token")
		requireTracked(t, n, "key")
		do(t, server, flush)
		require.Equal(t, "0 active", l.next(t))
		requireReported(t, server, n, l)
	}
}

// The holder of a lock has each extension tracked: what it does itself is reported once, and then the next change.
func TestTracking_AnExtensionCanBeTracked(t *testing.T) {
	server, n := openReal(t)
	l := listen(n, "")
	l.await(t, "0 active")
	for _, extend := range []*wire.Command{newExtend("key", "token", ttl), newExtendFenced("key", "token", 7, ttl, ttl)} {
		extend.Tracked = true
		do(t, server, "DEL", "key")
		for _, change := range [][]any{
			{"PEXPIRE", "key", 1000}, // it was re-created
			{"DEL", "key"},           // it was extended
			{"SET", "key", "other"},
		} {
			do(t, server, "SCRIPT", "FLUSH")
			reply := ask(t, n, extend)
			require.Contains(t, []quorum.Answer{quorum.Yes, quorum.Recreated}, reply.Answer)
			require.True(t, reply.Tracked)
			require.Equal(t, "0 invalidated key", l.next(t), "by the node itself")
			do(t, server, change[0].(string), change[1:]...)
			require.Equal(t, "0 invalidated key", l.next(t), change)
		}
		requireReply(t, quorum.No, nodeerr.ErrHeld, ask(t, n, extend))
		do(t, server, "DEL", "key")
		require.Equal(t, "0 invalidated key", l.next(t), "that another token holds")
	}
	require.Empty(t, l)
}

// What other commands read would be reported too, and held in the memory of the server.
func TestTracking_OnlyWhatIsToBeIsTracked(t *testing.T) {
	server, n := openReal(t)
	require.False(t, ask(t, n, form.Exclusive{}.Observe("key")).Tracked, "nobody listens")
	require.Zero(t, calls(t, server, "client|tracking"))
	l := listen(n, "")
	l.await(t, "0 active")
	for range 2 {
		requireYes(t, n, newAcquire("key", "token", ttl))
		requireYes(t, n, newExtend("key", "token", 2*ttl))
		requireReply(t, quorum.No, nodeerr.ErrHeld, ask(t, n, newRelease("key", "other", ttl)))
		requireReply(t, quorum.No, nodeerr.ErrHeld, ask(t, n, form.Exclusive{}.Heal("key", "token")))
		requireYes(t, n, newDelete("key", "token"))
	}
	require.Equal(t, "0", testredis.Info(t, server, "stats", "tracking_total_keys"))
	requireTracked(t, n, "another")
	require.Equal(t, "1", testredis.Info(t, server, "stats", "tracking_total_keys"))
	if !testredis.IsOld(t, server) {
		requireCalls(t, server, "client|caching", 1)
	}
}

// Anybody may publish anything. A text that is out of bounds is dropped unread.
func TestTracking_AHugeMessageIsDropped(t *testing.T) {
	server, n := openReal(t)
	l := listen(n, "channel")
	requireSubscribed(t, server, "channel", 1)
	l.await(t, "0 active")
	do(t, server, "PUBLISH", "channel", make([]byte, wire.MaxPushed+1))
	requireYes(t, n, node.Publish("channel", "a\r\n\x00b"))
	require.Equal(t, "0 message a\r\n\x00b", l.next(t))
	require.Len(t, clients(t, server), 1, "it is one connection")
	requireReported(t, server, n, l)
}

func TestTracking_ListenersHaveNumbersAndChannelsOfTheirOwn(t *testing.T) {
	server, n := openReal(t)
	first, second, third := make(events, 100), make(events, 100), make(events, 100)
	n.Listen(first, 1, "one")
	require.Equal(t, "1 active", first.next(t))
	n.Listen(second, 2, "two")
	require.Equal(t, "2 active", second.next(t), "as the first time, for one that comes later")
	n.Listen(third, 3, "")
	require.Equal(t, "3 active", third.next(t))
	requireSubscribed(t, server, "one", 1)
	requireSubscribed(t, server, "two", 1)

	do(t, server, "PUBLISH", "one", "x")
	first.await(t, "1 message x")
	do(t, server, "PUBLISH", "two", "y")
	second.await(t, "2 message y")
	do(t, server, "PUBLISH", "", "z")
	requireTracked(t, n, "key")
	do(t, server, "SET", "key", "token")
	require.Equal(t, "1 invalidated key", first.next(t))
	require.Equal(t, "2 invalidated key", second.next(t))
	require.Equal(t, "3 invalidated key", third.next(t))

	n.Unlisten(first)
	n.Unlisten(first)
	requireSubscribed(t, server, "one", 0)
	requireTracked(t, n, "key")
	do(t, server, "SET", "key", "token")
	require.Equal(t, "2 invalidated key", second.next(t))
	require.Equal(t, "3 invalidated key", third.next(t))
	require.Empty(t, first)

	n.Listen(second, 20, "one")
	require.Equal(t, "20 active", second.next(t))
	requireSubscribed(t, server, "one", 1)
	requireSubscribed(t, server, "two", 0)
	do(t, server, "PUBLISH", "one", "x")
	require.Equal(t, "20 message x", second.next(t))
	require.Equal(t, "3 active", third.next(t), "once more")
	require.Empty(t, third)
}

// leaving takes itself and another off when it is notified of a change.
type leaving struct {
	events
	n     *node.Node
	other node.Listener
}

func (l *leaving) Invalidated(number int, key string) {
	l.events.Invalidated(number, key)
	l.n.Unlisten(l)
	l.n.Unlisten(l.other)
}

func TestUnlisten_EndsTheNotifications(t *testing.T) {
	server, n := openReal(t)
	n.Unlisten(make(events)) // that never listened
	other := make(events, 100)
	l := &leaving{make(events, 100), n, other}
	n.Listen(l, 0, "channel")
	l.await(t, "0 active")
	n.Listen(other, 0, "channel") // and is notified after the first
	other.await(t, "0 active")
	l.await(t, "0 active")
	requireSubscribed(t, server, "channel", 1)
	requireTracked(t, n, "a")
	requireTracked(t, n, "b")
	do(t, server, "MSET", "a", "1", "b", "1")
	do(t, server, "PUBLISH", "channel", "x")
	l.next(t)
	requireSubscribed(t, server, "channel", 0)
	closeInTime(t, n)
	require.Empty(t, l.events)
	require.Empty(t, other)
}

func TestUnlisten_LeavesAChannelWhoseSubscriptionIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, func(c *peer, args []string) string {
			pass(time.Millisecond)
			return likeRedis(c, args)
		})
		n := f.open(t)
		l := listen(n, "channel")
		require.Equal(t, "0 active", l.next(t))
		n.Unlisten(l)
		pass(time.Second)
		require.Equal(t, 1, f.count("1 SUBSCRIBE channel"))
		require.Equal(t, 1, f.count("1 UNSUBSCRIBE channel"))
		n.Listen(l, 0, "channel") // and enters it again
		n.Unlisten(l)
		n.Listen(l, 0, "channel")
		pass(time.Second)
		require.Equal(t, "0 active", l.next(t))
		f.send(t, 1, push("message", "channel")+testredis.Bulk("text"))
		l.await(t, "0 message text")
		require.Equal(t, 1, f.connections())
	})
}

func TestTracking_IsLostWithTheConnectionAndSetUpOnTheNext(t *testing.T) {
	server, n := openReal(t)
	l := listen(n, "channel")
	require.Equal(t, "0 active", l.next(t))
	for name, cut := range map[string]func(){
		"cut":     func() { do(t, server, "CLIENT", "KILL", "ID", clients(t, server)[0]) },
		"restart": func() { server.Stop(); server.Start() },
	} {
		for range 3 {
			requireTracked(t, n, "key")
			cut()
			require.Equal(t, "0 lost", l.next(t), name)
			require.Equal(t, "0 active", l.next(t), name)
			requireReported(t, server, n, l)
			requireSubscribed(t, server, "channel", 1)
			require.Len(t, clients(t, server), 1)
		}
	}
}

func TestTracking_IsLostWhenTheServerFreezesAndBackWhenItThaws(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	n := open(t, server.Addr(), withTimeout(time.Second), withMaxOverdue(100*time.Millisecond))
	l := listen(n, "")
	require.Equal(t, "0 active", l.next(t))
	for range 2 {
		server.Freeze()
		requireReply(t, quorum.Unknown, nodeerr.ErrTimeout, ask(t, n, form.Exclusive{}.Observe("key")))
		l.await(t, "0 lost")
		server.Thaw()
		l.await(t, "0 active")
		require.Eventually(t, func() bool { return ask(t, n, form.Exclusive{}.Observe("reported")).Tracked }, bound, tick)
		requireReported(t, server, n, l)
	}
	if !testredis.IsOld(t, server) {
		require.Positive(t, calls(t, server, "client|kill"), "the server is asked to end the connection with the answers that were missing")
	}
}

// Whenever the connection is cut: a key that is tracked has its change reported, or that tracking was lost.
func TestTracking_NoChangeIsMissedWhileConnectionsAreCut(t *testing.T) {
	server, n := openReal(t)
	l := listen(n, "")
	l.await(t, "0 active")
	for tracked, i := 0, 0; tracked < 30; i++ {
		for len(l) > 0 {
			<-l
		}
		var cutting sync.WaitGroup
		if i%2 == 1 {
			cutting.Go(func() { do(t, server, "CLIENT", "KILL", "TYPE", []string{"normal", "pubsub"}[i/2%2]) })
		}
		reply := ask(t, n, form.Exclusive{}.Observe("key"))
		cutting.Wait() // which would cut what changes the key as well
		if reply.Tracked {
			tracked++
			do(t, server, "INCR", "key")
			l.next(t)
		}
	}
}

func TestTracking_ThatIsRefusedIsAskedForAgain(t *testing.T) {
	for _, refused := range []string{"CLIENT TRACKING", "SUBSCRIBE"} {
		synctest.Test(t, func(t *testing.T) {
			f, permit := barring(t, refused)
			n := f.open(t)
			l := listen(n, "channel")
			synctest.Wait()
			require.Equal(t, refused == "SUBSCRIBE", ask(t, n, form.Exclusive{}.Observe("key")).Tracked)
			pass(time.Hour)
			require.Equal(t, 1, f.connections(), "it is no fault of the connection")
			require.InDelta(t, 360, f.count(refused), 5, "every ten seconds")
			permit()
			pass(11 * time.Second)
			require.Equal(t, "0 active", l.next(t))
			requireTracked(t, n, "key")
			f.send(t, 1, push("message", "channel")+testredis.Bulk("x"))
			require.Equal(t, "0 message x", l.next(t))
		})
	}
}

func TestTracking_OfARealServerGoesAsFarAsTheACLAllows(t *testing.T) {
	for rules, tt := range map[[2]any]struct {
		tracks  bool
		permits any
	}{
		{"allchannels", "-client|tracking"}: {false, "+client|tracking"}, {"resetchannels", "+@all"}: {true, "&channel"},
	} {
		server := testredis.Real(t, 1)[0]
		if testredis.IsOld(t, server) && !tt.tracks { // whose rules cannot take away a subcommand
			rules[1], tt.permits = "-client", "+client"
		}
		do(t, server, "ACL", "SETUSER", "locker", "on", ">pw", "~*", "+@all", rules[0], rules[1])
		n := open(t, server.Addr(), withLogin("locker", "pw"), patient())
		l := listen(n, "channel")
		if tt.tracks {
			require.Equal(t, "0 active", l.next(t))
			requireReported(t, server, n, l)
		} else {
			requireUntracked(t, n)
		}
		requireSubscribed(t, server, "channel", 0)
		require.Empty(t, l)
		do(t, server, "ACL", "SETUSER", "locker", tt.permits)
		n.Listen(l, 0, "channel") // asks at once
		requireSubscribed(t, server, "channel", 1)
		do(t, server, "PUBLISH", "channel", "x")
		l.await(t, "0 message x")
		requireReported(t, server, n, l)
	}
}

func TestTracking_DoesNotExistOverRESP2(t *testing.T) {
	for name, hello := range map[string]string{
		"is refused": "-NOPERM no\r\n", "is unknown": "-ERR unknown\r\n", "is never sent": "",
		"is answered in RESP2": "*2\r\n+proto\r\n:2\r\n",
	} {
		bubble(t, "HELLO "+name, func(t *testing.T) {
			n := wrap(t, newFake(t, nil).pool())
			if hello != "" {
				n = newFake(t, answering("HELLO", hello)).open(t)
			}
			l := listen(n, "channel")
			requireUntracked(t, n)
			pass(time.Hour)
			requireUntracked(t, n)
			require.Empty(t, l)
		})
	}
}

// miniredis speaks RESP3, and accepts no command on a connection that has subscribed to a channel.
func TestTracking_OfOtherServersIsRefusedAndAllElseWorks(t *testing.T) {
	for _, server := range []testredis.Server{testredis.Mini(t, 1)[0], testredis.Real(t, 1, "--rename-command", "HELLO", "")[0]} {
		n := open(t, server.Addr(), patient())
		l := listen(n, "channel")
		requireUntracked(t, n)
		requireSubscribed(t, server, "channel", 0)
		require.Empty(t, l)
	}
}

func TestTracked_OnlyIfCachingWasConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, func(c *peer, args []string) string {
			if c.number == 1 && strings.Join(args, " ") == "CLIENT CACHING YES" {
				return "-NOPERM no\r\n"
			}
			return likeRedis(c, args)
		})
		n := f.open(t)
		listen(n, "").await(t, "0 active")
		for _, confirmed := range []bool{false, true} {
			for range 3 {
				observed, acquired := send(n, form.Exclusive{}.Observe("key")), send(n, newAcquire("key", "token", ttl))
				again, deleted := send(n, form.Exclusive{}.Observe("key")), send(n, newDelete("key", "token"))
				for tracked, inboxes := range map[bool][]inbox{confirmed: {observed, again}, false: {acquired, deleted}} {
					for _, reply := range replies(t, inboxes) {
						requireReply(t, quorum.Yes, nil, reply)
						require.Equal(t, tracked, reply.Tracked)
					}
				}
			}
			require.NoError(t, f.peer(f.connections()).Close())
			synctest.Wait()
		}
	})
}

// What the server did not carry out is not tracked, whatever came before it.
func TestTracked_NotIfTheObserveWasRefused(t *testing.T) {
	_, n := restricted(t, "-eval")
	listen(n, "").await(t, "0 active")
	for range 2 {
		reply := ask(t, n, form.Exclusive{}.Observe("key"))
		requireRefused(t, reply, "NOPERM")
		require.False(t, reply.Tracked)
	}
}

// What follows CLIENT TRACKING on the connection is tracked though the confirmation has not come yet.
func TestTracked_BehindTheRequestForTracking(t *testing.T) {
	n := open(t, testredis.Real(t, 1)[0].Addr(), patient())
	requireYes(t, n, newAcquire("key", "token", ttl))
	l := listen(n, "")
	require.True(t, send(n, form.Exclusive{}.Observe("key")).next(t).Tracked)
	l.await(t, "0 active")
	requireYes(t, n, newRelease("key", "token", ttl))
	l.await(t, "0 invalidated key")
}

func TestTracked_AlsoIfTheConfirmationIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, func(c *peer, args []string) string {
			if strings.HasPrefix(strings.Join(args, " "), "CLIENT TRACKING") {
				pass(100 * time.Millisecond)
			}
			return likeRedis(c, args)
		})
		n := f.open(t)
		l := listen(n, "")
		pass(75 * time.Millisecond) // longer than the node timeout
		require.Empty(t, l)
		pass(75 * time.Millisecond)
		require.Equal(t, "0 active", l.next(t))
		requireTracked(t, n, "key")
		require.Equal(t, 1, f.count("CLIENT TRACKING"))
	})
}

// What is not asked of a node that owes an answer, or could not be written in time, is asked once it answers again.
func TestTracking_IsAskedForAsSoonAsTheNodeAnswersAgain(t *testing.T) {
	for what, early := range map[string]bool{"it owes an answer": false, "a command is being written": true} {
		bubble(t, what, func(t *testing.T) {
			goesOn := make(chan struct{})
			f := newFake(t, func(c *peer, args []string) string {
				if args[0] == "SET" {
					<-goesOn
				}
				return likeRedis(c, args)
			})
			n := f.open(t, withMaxOverdue(time.Hour))
			for range 2 { // the second is written when the first has been answered
				_ = send(n, newAcquire("key", "token", ttl))
				synctest.Wait()
			}
			var l events
			if early {
				l = listen(n, "channel")
			}
			pass(75 * time.Millisecond) // longer than the node timeout
			if !early {
				l = listen(n, "channel")
			}
			close(goesOn)
			pass(time.Second) // it would be asked for after ten anyway
			require.NotEmpty(t, l)
			require.Equal(t, "0 active", l.next(t))
			requireTracked(t, n, "key")
			f.send(t, 1, push("message", "channel")+testredis.Bulk("x"))
			require.Equal(t, "0 message x", l.next(t))
			require.Equal(t, 1, f.connections())
		})
	}
}

// ordered is a Receiver and a Listener that writes down both in the order of their calls.
type ordered struct{ events }

func (o ordered) Reply(tag wire.Tag, _ *wire.Reply) { o.events <- fmt.Sprint(tag.Node, " reply") }

func TestTracking_PushesAreReportedInOrderWithTheReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, func(c *peer, args []string) string {
			if args[0] == "EVAL" {
				return invalidation("before") + "*2\r\n" + testredis.Bulk("token") + ":1\r\n" + invalidation("key", "other") + ">2\r\n" + testredis.Bulk("invalidate") + "_\r\n"
			}
			return likeRedis(c, args)
		})
		n := f.open(t)
		o := ordered{make(events, 100)}
		n.Listen(o, 7, "")
		require.Equal(t, "7 active", o.next(t))
		sendTo(n, form.Exclusive{}.Observe("key"), o, 8)
		for _, want := range []string{"7 invalidated before", "8 reply", "7 invalidated key", "7 invalidated other", "7 active"} {
			require.Equal(t, want, o.next(t))
		}
		require.Equal(t, 1, f.connections())
	})
}

// A listener may do anything but wait. What other goroutines do meanwhile must not stop the node, nor Close.
func TestListen_AndUnlistenAtAnyTimeNeitherBlockNorLoseReplies(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	for range 10 {
		n := newNode(server.Addr(), patient())
		var busy sync.WaitGroup
		for i := range 8 {
			busy.Go(func() {
				for j := range 30 {
					l := make(events, 10_000)
					n.Listen(l, i, fmt.Sprint("channel-", i%3))
					key := fmt.Sprint("key-", j%2)
					<-send(n, form.Exclusive{}.Observe(key))
					<-send(n, newAcquire(key, "token", ttl))
					<-send(n, node.Publish(fmt.Sprint("channel-", j%3), "text"))
					<-send(n, newRelease(key, "token", ttl))
					n.Unlisten(l)
				}
			})
		}
		busy.Wait()
		for i := range 3 {
			requireSubscribed(t, server, fmt.Sprint("channel-", i), 0)
		}
		busy.Go(func() {
			for range 100 {
				n.Unlisten(listen(n, "channel"))
			}
		})
		closeInTime(t, n)
		busy.Wait()
	}
}

func TestClose_OfANodeThatTracksIsPromptAndReportsTheLossLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFake(t, nil).openUnowned()
		l := listen(n, "channel")
		require.Equal(t, "0 active", l.next(t))
		start := time.Now()
		require.NoError(t, n.Close())
		require.Zero(t, time.Since(start))
		require.Equal(t, "0 lost", l.next(t))
		pass(time.Minute)
		require.Empty(t, l)
	})
}
