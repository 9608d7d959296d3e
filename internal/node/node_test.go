package node_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
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

func TestNode_CommandsDoNotWaitForTheAnswersBeforeThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := silentOn(t, "SET")
		n := f.open(t)
		requireYes(t, n, newExtend("key", "token", ttl))
		goroutines := runtime.NumGoroutine()
		for range 300 {
			sendTo(n, newAcquire("key", "token", ttl), nil, 0)
		}
		synctest.Wait()
		require.Equal(t, 300, f.count("1 SET "))
		require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
		require.Equal(t, 1, f.connections())
	})
}

func TestNode_CommandsAreCarriedOutInTheirOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		var asking sync.WaitGroup
		for i := range 32 {
			asking.Go(func() {
				key, replies := fmt.Sprint(i), make(inbox, 100)
				for j := range 25 {
					token := fmt.Sprint(j)
					for _, cmd := range []*wire.Command{
						newAcquire(key, token, ttl), newAcquire(key, "other", ttl),
						newExtend(key, token, 2*ttl), newRelease(key, token, ttl),
					} {
						sendTo(n, cmd, replies, 0)
					}
				}
				for j := range cap(replies) {
					if got := (<-replies).Answer; (got == quorum.No) != (j%4 == 1) || got > quorum.No {
						t.Errorf("command %d of caller %d: %v", j, i, got)
					}
				}
			})
		}
		asking.Wait()
		require.EqualValues(t, 0, do(t, server, "DBSIZE"))
	})
}

func TestNode_ReceiversMaySendFromWithinReply(t *testing.T) {
	_, n := openReal(t)
	var count atomic.Int32
	done := make(chan struct{})
	var next receiver
	next = func(wire.Tag) {
		switch count := count.Add(1); {
		case count == 1000:
			close(done)
		case count < 1000:
			sendTo(n, newRelease("key", "token", ttl), next, 0)
		}
	}
	for range 8 {
		sendTo(n, newAcquire("key", "token", ttl), next, 0)
	}
	<-done
}

func TestClose_OfANodeThatWasNeverUsedEndsItToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		n := f.openUnowned()
		for range 2 {
			require.NoError(t, n.Close())
			requireReply(t, quorum.Unsent, nodeerr.ErrClosed, ask(t, n, newAcquire("key", "token", ttl)))
			requireReply(t, quorum.Unsent, nodeerr.ErrClosed, ask(t, n, newRelease("key", "token", ttl)))
			l := listen(n, "channel")
			n.Unlisten(l)
			pass(time.Minute)
			require.Empty(t, l)
		}
		require.Zero(t, f.connections())
	})
}

func TestClose_LetsWhatIsUnderWayEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, func(c *peer, args []string) string {
			pass(5 * time.Millisecond)
			return likeRedis(c, args)
		})
		n := f.openUnowned()
		start := time.Now()
		acquired := send(n, newAcquire("key", "token", ttl))
		released := send(n, newRelease("key", "token", ttl))
		require.NoError(t, n.Close()) // which has not even connected yet
		require.Equal(t, quorum.Yes, acquired.next(t).Answer)
		require.Equal(t, quorum.Yes, released.next(t).Answer)
		require.Less(t, time.Since(start), n.Config().Timeout)
	})
}

func TestClose_WaitsForTheNodeTimeoutAtTheLongest(t *testing.T) {
	stages := maps.Clone(hanging)
	stages["missing answers"] = silent("SET")
	stages["write"] = func(t testing.TB, opts ...option) *node.Node { return stuckOn(t, "SET").open(t, opts...) }
	stages["pause between two dials"] = dialing(failing(errDown))
	for name, open := range stages {
		for _, wait := range []time.Duration{0, time.Millisecond, 10 * time.Second} {
			bubble(t, fmt.Sprint(name, " for ", wait), func(t *testing.T) {
				n := open(t, withMaxOverdue(time.Hour), withDialTimeout(time.Hour))
				acquired := send(n, newAcquire("key", "token", ttl))
				synctest.Wait()
				released := send(n, newRelease("key", "token", ttl))
				listening := listen(n, "channel")
				pass(wait)

				start := time.Now()
				var closing sync.WaitGroup
				for range 3 {
					closing.Go(func() { require.NoError(t, n.Close()) })
				}
				closing.Wait()
				require.LessOrEqual(t, time.Since(start), n.Config().Timeout)
				for len(listening) > 0 {
					require.Contains(t, []string{"0 active", "0 lost"}, listening.next(t))
				}
				for _, replies := range []inbox{acquired, released} {
					require.Len(t, replies, 1, "a command was never answered, or twice")
					require.NotEqual(t, quorum.Yes, replies.next(t).Answer)
				}
			})
		}
	}
}

func TestClose_EndsWhatWaitsForAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := hanging["dial"](t, withTimeout(time.Second), withDialTimeout(time.Second/2))
		seen := make(reports, 1000)
		n.Report(seen, 0)
		acquired, released := send(n, newAcquire("key", "token", ttl)), send(n, newRelease("key", "token", ttl))
		synctest.Wait()
		require.NoError(t, n.Close())
		requireReply(t, quorum.Unsent, nodeerr.ErrClosed, acquired.next(t))
		requireReply(t, quorum.Unknown, nodeerr.ErrClosed, released.next(t))
		require.Len(t, seen, 1)
		require.Equal(t, node.Health{Failed: 1, Err: nodeerr.ErrClosed}, seen.next(t))
	})
}

func TestClose_NoReplyComesAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 5 {
			n := silentOn(t, "SET").openUnowned()
			var replied atomic.Bool
			sendTo(n, newAcquire("key", "token", ttl), receiver(func(wire.Tag) {
				pass(time.Millisecond)
				replied.Store(true)
			}), 0)
			pass(1)
			require.NoError(t, n.Close()) // which ends right after the command's timeout
			require.True(t, replied.Load())
		}
	})
}

func TestClose_OfAFrozenServerLeavesNoConnection(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	n := newNode(server.Addr(), withTimeout(200*time.Millisecond))
	require.Eventually(t, func() bool { return ask(t, n, newAcquire("key", "token", ttl)).Answer != quorum.Unsent }, bound, tick)
	require.Len(t, clients(t, server), 1)
	server.Freeze()
	reply := send(n, newRelease("key", "token", ttl))
	closeInTime(t, n)
	require.Equal(t, quorum.Unknown, reply.next(t).Answer)
	server.Thaw()
	require.Eventually(t, func() bool { return len(clients(t, server)) == 0 }, bound, tick)
}

func TestClose_WhileManyCallersSendAnswersEachCommandOnce(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	for range 20 {
		n := newNode(server.Addr(), patient())
		var sending sync.WaitGroup
		inboxes := make([]inbox, 16)
		for i := range inboxes {
			inboxes[i] = make(inbox, 101)
			sending.Go(func() {
				for range 100 {
					sendTo(n, newRelease("key", "token", ttl), inboxes[i], 0)
				}
			})
		}
		closeInTime(t, n)
		sending.Wait()
		for _, replies := range inboxes {
			require.Len(t, replies, 100)
		}
	}
}

// hammer lets many callers take and release a few keys at once, until finish ends it.
type hammer struct {
	n       *node.Node
	forgets bool // the server loses keys meanwhile: a key may be taken twice
	stop    atomic.Bool
	callers sync.WaitGroup
	tokens  atomic.Int64
	holders [8]atomic.Int32 // by key
	answers [8]atomic.Int64 // by Answer
}

func startHammer(t testing.TB, n *node.Node, forgets bool) *hammer {
	h := &hammer{n: n, forgets: forgets}
	for range 64 {
		h.callers.Go(func() {
			for !h.stop.Load() {
				h.cycle(t)
			}
		})
	}
	return h
}

// cycle takes a key and releases it, unless the acquire had no effect.
func (h *hammer) cycle(t testing.TB) {
	key := rand.IntN(len(h.holders))
	name, token := strconv.Itoa(key), strconv.FormatInt(h.tokens.Add(1), 10)
	acquired := send(h.n, newAcquire(name, token, ttl))
	answer := (<-acquired).Answer
	h.answers[answer].Add(1)
	switch answer {
	case quorum.Yes:
		if h.holders[key].Add(1) > 1 && !h.forgets {
			t.Error("a key was taken that was held")
		}
		h.holders[key].Add(-1)
	case quorum.Unknown:
	case quorum.Unsent:
		<-time.After(tick) // who is refused at once does not ask again at once
		return
	default:
		return
	}
	extended := send(h.n, newExtend(name, token, 2*ttl))
	observed := send(h.n, form.Exclusive{}.Observe(name))
	released := send(h.n, newRelease(name, token, ttl))
	for _, replies := range []inbox{extended, released} {
		reply := <-replies
		if answer == quorum.Yes && reply.Answer == quorum.No && !h.forgets {
			t.Errorf("a key that was held was not there any more: %v", reply.Err)
		}
	}
	h.callers.Go(func() { // while the server is frozen this one stays out
		<-observed
		if len(acquired)+len(extended)+len(observed)+len(released) > 0 {
			t.Error("a command was answered twice")
		}
	})
}

// progress waits until the hammer has taken more keys.
func (h *hammer) progress(t testing.TB) {
	t.Helper()
	before := h.answers[quorum.Yes].Load()
	require.Eventually(t, func() bool { return h.answers[quorum.Yes].Load() > before+200 }, bound, tick)
}

// finish ends the hammer and waits until no key is left.
func (h *hammer) finish(t testing.TB, server testredis.Server) {
	t.Helper()
	h.stop.Store(true)
	h.callers.Wait()
	require.Eventually(t, func() bool {
		return ask(t, h.n, newRelease("key", "token", ttl)).Answer == quorum.No
	}, bound, tick, "the node does not recover")
	require.Eventually(t, func() bool { return fmt.Sprint(do(t, server, "DBSIZE")) == "0" }, bound, tick, "a key was never released")
}

func TestNode_ManyCallersOnFewKeysExcludeEachOther(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		h := startHammer(t, n, false)
		for range 5 {
			h.progress(t)
		}
		h.finish(t, server)
		require.Zero(t, h.answers[quorum.Unknown].Load()+h.answers[quorum.Refused].Load()+h.answers[quorum.Unsent].Load())
	})
}

// Whatever a server has taken in on connections that were given up meanwhile, no key is left and none is taken twice.
func TestNode_ManyCallersSurviveWhatHappensToTheServerAgainAndAgain(t *testing.T) {
	impatient := []option{withTimeout(500 * time.Millisecond)}
	for name, tt := range map[string]struct {
		opts    []option
		forgets bool
		times   int
		trouble func(t *testing.T, server *testredis.Process, h *hammer)
	}{
		"it is killed": {impatient, true, 8, func(t *testing.T, server *testredis.Process, _ *hammer) {
			server.Stop()
			server.Start()
		}},
		"connections are cut": {impatient, false, 20, func(t *testing.T, server *testredis.Process, _ *hammer) {
			do(t, server, "CLIENT", "KILL", "TYPE", "normal")
		}},
		"it freezes": {[]option{
			withTimeout(30 * time.Millisecond), withMaxOverdue(20 * time.Millisecond), withDialTimeout(100 * time.Millisecond),
		}, false, 8, func(t *testing.T, server *testredis.Process, h *hammer) {
			server.Freeze()
			suspended := h.answers[quorum.Unsent].Load()
			require.Eventually(t, func() bool { return h.answers[quorum.Unsent].Load() > suspended+500 }, bound, tick)
			server.Thaw()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothNodes(t, tt.opts, func(t *testing.T, server *testredis.Process, n *node.Node) {
				h := startHammer(t, n, tt.forgets)
				for range tt.times {
					h.progress(t)
					tt.trouble(t, server, h)
				}
				h.progress(t)
				h.finish(t, server)
			})
		})
	}
}

// An extension that comes late may set the key again: whoever sent it has to know.
func TestNode_ALateAnswerIsReportedToThoseWhoWantIt(t *testing.T) {
	t.Parallel()
	server := testredis.Real(t, 1)[0]
	n := open(t, server.Addr(), withTimeout(300*time.Millisecond), withMaxOverdue(bound))
	requireBack(t, n)
	server.Freeze()
	extend := newExtend("key", "token", ttl)
	extend.WantsLate = true
	wants := send(n, extend)
	wantsNot := send(n, newExtend("key", "token", ttl))
	requireReply(t, quorum.Unknown, nodeerr.ErrTimeout, wants.next(t))
	requireReply(t, quorum.Unknown, nodeerr.ErrTimeout, wantsNot.next(t))
	server.Thaw()
	late := wants.next(t)
	requireReply(t, quorum.Recreated, nodeerr.ErrRecreated, late)
	require.True(t, late.Late)
	requireBack(t, n)
	require.Empty(t, wants, "answered twice")
	require.Empty(t, wantsNot, "answered twice")
}
