package node_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
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

const guard = 10 * time.Second

// requireQuarantined wants acquires refused with so much time left.
func requireQuarantined(t *testing.T, n *node.Node, left time.Duration) {
	t.Helper()
	require.NoError(t, quarantineOf(t, n, left).Err)
}

// quarantineOf wants acquires refused with so much time left. It returns the refusal.
func quarantineOf(t *testing.T, n *node.Node, left time.Duration) *nodeerr.QuarantineError {
	t.Helper()
	refusal := (*nodeerr.QuarantineError)(nil)
	for _, cmd := range []*wire.Command{
		newAcquire("key", "token", time.Second), newAcquireFenced("key", "token", time.Second, counted{}),
		newAcquireAll("token", time.Second, "key", "beside"), newAcquireAllFenced("token", time.Second, counted{}, "key", "beside"),
	} {
		reply := ask(t, n, cmd)
		requireReply(t, quorum.Unsent, nodeerr.ErrQuarantined, reply)
		require.ErrorAs(t, reply.Err, &refusal)
		require.Equal(t, left, refusal.Left)
	}
	return refusal
}

// keeper is a server that keeps a stamp.
type keeper struct {
	*fake
	mu       sync.Mutex
	id       int // of the process
	history  int
	refusal  string // of the stamp; "" if it is kept
	silent   bool   // nothing is answered to INFO, and what comes behind it
	second   string // master_replid2
	key      string
	value    string
	expires  time.Time
	stamping int // how often
}

const sixtyDays = 60 * 24 * time.Hour

// newKeeper makes a server that was stamped so long ago; below zero: never.
func newKeeper(t *testing.T, age time.Duration) *keeper {
	k := &keeper{}
	if age >= 0 {
		k.value, k.expires = "process-0:history0", time.Now().Add(sixtyDays-age)
	}
	k.fake = newFake(t, k.answer)
	return k
}

func (k *keeper) answer(c *peer, args []string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case args[0] == "INFO" && k.silent:
		return ""
	case args[0] == "INFO" && args[1] == "server":
		return testredis.Bulk(fmt.Sprintf("# Server\r\nrun_id:process-%d\r\n", k.id))
	case args[0] == "INFO":
		return testredis.Bulk(fmt.Sprintf("# Replication\r\nrole:master\r\nmaster_replid:history%d\r\nmaster_replid2:%s\r\n", k.history, cmp.Or(k.second, strings.Repeat("0", 40))))
	case args[0] != "EVAL" || args[1] != wire.StampScript.Source:
		return likeRedis(c, args)
	}
	k.stamping++
	if k.refusal != "" {
		return "-" + k.refusal + "\r\n"
	}
	k.key = args[3]
	switch set := args[4:]; {
	case set[1] == "XX":
		k.value = set[0]
	case k.value == "" || set[1] == "PX":
		ms, _ := strconv.Atoi(set[len(set)-1])
		k.value, k.expires = set[0], time.Now().Add(time.Duration(ms)*time.Millisecond)
	}
	return "*2\r\n" + testredis.Bulk(k.value) + fmt.Sprintf(":%d\r\n", time.Until(k.expires).Milliseconds())
}

// answersStamps changes what is answered to a stamp.
func (k *keeper) answersStamps(change func(answer string) string) {
	k.fake.answer = func(c *peer, args []string) string {
		answer := k.answer(c, args)
		if args[0] == "EVAL" && args[1] == wire.StampScript.Source {
			return change(answer)
		}
		return answer
	}
}

// set changes the server, and breaks its connection.
func (k *keeper) set(t *testing.T, change func()) {
	k.mu.Lock()
	change()
	k.mu.Unlock()
	require.NoError(t, k.peer(k.connections()).Close())
	synctest.Wait()
}

func (k *keeper) stamps() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stamping
}

func TestGuard_AServerVotesWhenItHasBeenInUseForTheLongestTTL(t *testing.T) {
	for _, age := range []time.Duration{-1, 0, 300 * time.Millisecond, 4700 * time.Millisecond, 10050 * time.Millisecond, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			k := newKeeper(t, age)
			n := k.open(t, withGuard(guard))
			voted := began.Add(guard + guard/100 - max(0, age))
			for reply := ask(t, n, newAcquire("key", "token", time.Second)); reply.Answer != quorum.Yes; {
				require.ErrorIs(t, reply.Err, nodeerr.ErrQuarantined)
				require.True(t, time.Now().Before(voted))
				pass(10 * time.Millisecond)
				reply = ask(t, n, newAcquire("key", "token", time.Second))
			}
			require.False(t, time.Now().Before(voted), "it may have forgotten a lock")
			if voted.After(began) {
				require.Less(t, time.Since(voted), 20*time.Millisecond)
			}
			synctest.Wait()
			require.Equal(t, "quorumlock:since:fake", k.key)
			require.Equal(t, 1, k.stamps(), "in the greeting")
		})
	}
}

// Another program may set the stamp while this one connects.
func TestGuard_AStampThatChangesWithinTheGreetingIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, time.Hour)
		k.answersStamps(func(answer string) string {
			if k.stamps() == 1 {
				return invalidation("quorumlock:since:fake") + answer
			}
			return answer
		})
		n := k.open(t, withGuard(guard))
		requireYes(t, n, newAcquire("key", "token", time.Second))
		synctest.Wait()
		require.Equal(t, 2, k.stamps())
		k.pushes(t, invalidation("quorumlock:since:fake"), func() { k.value = "" })
		require.Equal(t, 3, k.stamps())
		requireQuarantined(t, n, guard+guard/100)
	})
}

func TestGuard_TheGreetingIsTwoWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, writes := newKeeper(t, time.Hour), 0
		n := k.open(t, withGuard(guard), withDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := k.dial(ctx, network, address)
			return countedWrites{conn, &writes}, err
		}))
		requireYes(t, n, newAcquire("key", "token", time.Second))
		pass(time.Second)
		require.Equal(t, 3, writes, "with that of the acquire")
	})
}

// countedWrites counts what is written at once.
type countedWrites struct {
	net.Conn
	writes *int
}

func (c countedWrites) Write(p []byte) (int, error) {
	*c.writes++
	return c.Conn.Write(p)
}

func TestGuard_WithoutItNothingIsStamped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, -1)
		requireYes(t, k.open(t), newAcquire("key", "token", time.Second))
		pass(time.Minute)
		require.Zero(t, k.stamps())
	})
}

func TestGuard_OfAWrappedPoolGoesByTheNameOfTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, time.Hour)
		requireYes(t, wrap(t, k.pool(), withGuard(guard)), newAcquire("key", "token", time.Second))
		pass(time.Minute)
		require.Equal(t, "quorumlock:since:wrapped", k.key)
		require.Equal(t, 1, k.stamps(), "nothing is pushed to it")
	})
}

func TestGuard_AllButAcquiresIsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newKeeper(t, -1).open(t, withGuard(guard))
		for kind, cmd := range everyKind() {
			if !strings.HasPrefix(kind, "acquire") {
				requireYes(t, n, cmd)
			}
		}
		requireQuarantined(t, n, guard+guard/100)
		require.Equal(t, guard, n.Config().MaxTTL)
	})
}

func TestGuard_AServerInThePlaceOfAnotherDoesNotVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, time.Hour)
		n := k.open(t, withGuard(guard))
		for range 2 { // it is the same one
			requireYes(t, n, newAcquire("key", "token", time.Second))
			k.set(t, func() {})
		}
		k.set(t, func() { k.id, k.history = 1, 1 })
		requireQuarantined(t, n, guard+guard/100)
		require.Equal(t, "process-1:history1", k.value)
		requireQuarantined(t, k.open(t, withGuard(guard)), guard+guard/100) // and a program that has not met the other
	})
}

// The node comes back to a server whose stamp is from before the other one.
func TestGuard_AServerThatComesBackAfterAnotherDoesNotVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, time.Hour)
		n := k.open(t, withGuard(guard))
		requireYes(t, n, newAcquire("key", "token", time.Second))
		k.set(t, func() { k.id, k.history = 1, 1 })
		requireQuarantined(t, n, guard+guard/100)
		pass(time.Hour)
		requireYes(t, n, newAcquire("key", "token", time.Second))
		k.set(t, func() { k.id, k.history, k.value = 0, 0, "process-0:history0" })
		requireQuarantined(t, n, guard+guard/100)
	})
}

// A server that refuses its stamp votes when it keeps it, whatever the reason was. It is reported.
func TestGuard_AStampThatIsRefusedIsSentAgain(t *testing.T) {
	for _, refusal := range []string{"NOREPLICAS not enough", "NOPERM no right", "OOM command not allowed"} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeeper(t, time.Hour)
			k.refusal = refusal
			n := k.open(t, withGuard(guard))
			seen := make(reports, 100)
			n.Report(seen, 0)
			why := quarantineOf(t, n, 0)
			require.ErrorContains(t, why, "the server may have forgotten locks, and it is not known since when it has been this node: "+refusal)
			require.ErrorAs(t, why, new(*nodeerr.ServerError))
			require.Equal(t, node.Health{Up: true, Quarantined: true, Err: why.Err}, seen.next(t))
			pass(5 * time.Second)
			require.InDelta(t, 6, k.stamps(), 1)
			require.Empty(t, seen)
			k.mu.Lock()
			k.refusal = ""
			k.mu.Unlock()
			pass(1100 * time.Millisecond)
			requireYes(t, n, newAcquire("key", "token", time.Second))
			require.Equal(t, node.Health{Up: true, Same: true}, seen.next(t))
			stamps := k.stamps()
			pass(time.Minute)
			require.Equal(t, stamps, k.stamps())
		})
	}
}

func TestGuard_AReplicaThatRefusesItsStampIsNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, time.Hour)
		k.refusal = "READONLY You can't write against a read only replica."
		reply := ask(t, k.open(t, withGuard(guard)), form.Exclusive{}.Observe("key"))
		require.ErrorAs(t, reply.Err, new(*nodeerr.ConnectError))
		require.ErrorContains(t, reply.Err, "READONLY")
	})
}

// pushes has the server push something while the node does nothing, before which it has changed.
func (k *keeper) pushes(t *testing.T, text string, change func()) {
	synctest.Wait()
	k.mu.Lock()
	change()
	k.mu.Unlock()
	k.send(t, k.connections(), text)
	synctest.Wait()
}

// Each answer shows an age that is younger by the time for which it was on its way.
func TestGuard_AQuarantineIsReportedOnceAlthoughItsStampIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, time.Second)
		k.answersStamps(func(answer string) string {
			pass(time.Duration(k.stamps()) * 10 * time.Millisecond)
			return answer
		})
		n, seen := k.open(t, withGuard(guard)), make(reports, 10)
		n.Report(seen, 0)
		require.ErrorIs(t, ask(t, n, newAcquire("key", "token", time.Second)).Err, nodeerr.ErrQuarantined)
		k.pushes(t, invalidation("quorumlock:since:fake"), func() {})
		require.Equal(t, 1, k.stamps(), "it does not vote in any case")
		pass(2 * time.Second)
		require.Equal(t, 2, k.stamps())
		require.Equal(t, node.Health{Up: true, Quarantined: true, Left: 9100 * time.Millisecond}, seen.next(t))
		require.Empty(t, seen)
	})
}

const everything = ">2\r\n$10\r\ninvalidate\r\n_\r\n"

func TestGuard_AStampThatMayHaveChangedIsReadAgain(t *testing.T) {
	stamp := invalidation("another", "quorumlock:since:fake")
	for name, row := range map[string]struct {
		push    string
		change  func(k *keeper)
		votes   bool
		dials   int
		stamped int // how often, beside those of each connection's beginning
	}{
		"another key":         {invalidation("another"), func(k *keeper) { k.value = "another" }, true, 1, 0},
		"it has not":          {stamp, func(*keeper) {}, true, 1, 1},
		"nor has anything":    {everything, func(*keeper) {}, true, 1, 1},
		"it is gone":          {everything, func(k *keeper) { k.value = "" }, false, 1, 1},
		"it is another's":     {stamp, func(k *keeper) { k.value = "process-9:history9" }, false, 1, 2},
		"the server is, too":  {stamp, func(k *keeper) { k.history, k.second, k.value = 2, "f1", "process-9:history9" }, false, 2, 1},
		"a first replica":     {stamp, func(k *keeper) { k.history, k.value = 2, "process-0:history2" }, true, 1, 1},
		"it is refused":       {stamp, func(k *keeper) { k.refusal = "OOM x" }, false, 1, 1},
		"it is not read, yet": {stamp, func(k *keeper) { k.silent = true }, false, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, time.Hour)
				n, seen := k.open(t, withGuard(guard)), make(reports, 10)
				n.Report(seen, 0)
				requireYes(t, n, newAcquire("key", "token", time.Second))
				synctest.Wait()
				require.Equal(t, node.Health{Up: true}, seen.next(t))
				require.Equal(t, 1, k.stamps())
				k.pushes(t, row.push, func() { row.change(k) })
				reply := ask(t, n, newAcquire("key", "token", time.Second))
				if row.votes {
					require.Equal(t, quorum.Yes, reply.Answer, "%v", reply.Err)
				} else {
					requireReply(t, quorum.Unsent, nodeerr.ErrQuarantined, reply)
				}
				if k.silent {
					require.ErrorContains(t, reply.Err, "its stamp may have changed")
				}
				require.Equal(t, row.dials, k.connections())
				if changed := !row.votes && !k.silent; row.dials == 1 && changed {
					report := seen.next(t)
					require.True(t, report.Same && report.Quarantined, "%+v", report)
				} else if row.dials == 1 {
					require.Empty(t, seen)
				}
				require.Equal(t, row.dials+row.stamped, k.stamps())
			})
		})
	}
}

// The push stands before the answer, so the server may have forgotten what others hold when it carried the acquire out.
func TestGuard_WhatAServerGrantsBehindAPushDoesNotCount(t *testing.T) {
	for _, push := range []string{everything, invalidation("quorumlock:since:fake")} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeeper(t, time.Hour)
			n := k.open(t, withGuard(guard))
			requireYes(t, n, newAcquire("key", "token", time.Second))
			k.fake.answer = func(c *peer, args []string) string {
				if args[0] == "SET" && args[1] == "flushed" {
					return push + k.answer(c, args)
				}
				return k.answer(c, args)
			}
			reply := ask(t, n, newAcquire("flushed", "token", time.Second))
			requireReply(t, quorum.Refused, nodeerr.ErrQuarantined, reply)
			require.ErrorContains(t, reply.Err, "its stamp may have changed")
			synctest.Wait()
			requireYes(t, n, newAcquire("key", "another", time.Second))
		})
	}
}

// A server that was promoted drops what it has kept for replicas, and gets another history once more.
func TestGuard_AServerThatDropsItsBacklogIsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, time.Hour)
		k.second = "f1"
		n := k.open(t, withGuard(guard))
		requireYes(t, n, newAcquire("key", "token", time.Second))
		k.pushes(t, everything, func() { k.history, k.second = 2, "" })
		requireYes(t, n, newAcquire("key", "token", time.Second))
		require.Equal(t, 1, k.connections())
	})
}

// What is no stamp of a server is put right once, and not again and again.
func TestGuard_AServerThatKeepsNoStampNeverVotes(t *testing.T) {
	for name, stamp := range map[string]string{
		"another value": "*2\r\n" + testredis.Bulk("another") + ":5000\r\n",
		"no TTL":        "*2\r\n" + testredis.Bulk("process-0:history0") + ":-1\r\n",
		"a longer TTL":  "*2\r\n" + testredis.Bulk("process-0:history0") + ":5184000001\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, time.Hour)
				k.answersStamps(func(string) string { return stamp })
				n := k.open(t, withGuard(guard))
				require.ErrorContains(t, quarantineOf(t, n, 0), "it does not keep the stamp that it was sent")
				synctest.Wait()
				require.Equal(t, 2, k.stamps(), "once more without NX")
			})
		})
	}
}

func TestGuard_AServerThatDoesNotSayWhoItIsNeverVotes(t *testing.T) {
	server := testredis.Mini(t, 1)[0]
	n := open(t, server.Addr(), patient(), withGuard(guard))
	require.ErrorContains(t, quarantineOf(t, n, 0), "it does not say which server it is (INFO: run_id, master_replid)")
	requireReply(t, quorum.No, nodeerr.ErrAbsent, ask(t, n, newRelease("key", "token", ttl)))
	require.Empty(t, holds(t, server, "key"))
}

func TestGuard_ARealServerThatWasRestartedDoesNotVote(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	n := open(t, server.Addr(), patient(), withGuard(time.Hour))
	for range 2 {
		reply := ask(t, n, newAcquire("key", "token", time.Second))
		requireReply(t, quorum.Unsent, nodeerr.ErrQuarantined, reply)
		require.ErrorContains(t, reply.Err, "the server may have forgotten locks: asked again in 1h0m")
		require.Empty(t, holds(t, server, "key"))
		server.Stop()
		server.Start()
		require.Eventually(t, func() bool {
			return ask(t, n, form.Exclusive{}.Observe("key")).Answer == quorum.No
		}, bound, 10*time.Millisecond, "connected again")
	}
}

// The danger: an acquire is under way when the server forgets who holds the lock.
func TestGuard_ARealServerThatIsFlushedGrantsNothing(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	for range 20 {
		testredis.InUse(t, server, server.Addr(), 2*time.Hour)
		n := open(t, server.Addr(), patient(), withGuard(time.Hour))
		requireYes(t, n, newAcquire("key", "holder", ttl))
		flushed := make(chan error, 1)
		go func() {
			_, err := server.Do("FLUSHALL")
			flushed <- err
		}()
		for reply := (wire.Reply{}); !errors.Is(reply.Err, nodeerr.ErrQuarantined); {
			for _, inbox := range sendAll(n, slices.Repeat([]*wire.Command{newAcquire("key", "another", ttl)}, 20)) {
				reply = inbox.next(t)
				require.NotEqual(t, quorum.Yes, reply.Answer)
			}
		}
		require.NoError(t, next(t, flushed, "FLUSHALL hangs"))
		do(t, server, "DEL", "key")
	}
}

// The danger: a replica has been up for long, and has the stamp of its primary.
func TestGuard_AServerThatWasPromotedDoesNotVote(t *testing.T) {
	s := testredis.NewService(t)
	opened := func() *node.Node { return open(t, "service", withDialer(s.Dial), patient(), withGuard(time.Hour)) }
	testredis.InUse(t, s.Primary(), "service", 2*time.Hour)
	before := opened()
	requireYes(t, before, newAcquire("before", "token", ttl))
	s.FailOver()
	ask(t, before, newAcquire("key", "token", ttl)) // which a replica refuses
	for _, n := range []*node.Node{before, opened()} {
		requireStamped(t, n, time.Hour)
		requireYes(t, n, newExtend("before", "token", ttl))
	}
	idle := opened()
	ask(t, idle, form.Exclusive{}.Observe("key"))
	require.Eventually(t, func() bool {
		return testredis.Info(t, s.Primary(), "stats", "tracking_total_keys") != "0"
	}, bound, tick, "a change of the stamp is pushed")
	for range 2 { // there and back under a connection that is idle
		s.FailOver()
		requireStamped(t, opened(), time.Hour)
	}
	require.Eventually(t, func() bool { // the push may come later
		return ask(t, idle, newAcquire("other", "token", ttl)).Answer == quorum.Unsent
	}, bound, tick)
	requireStamped(t, idle, time.Hour)
}

// requireStamped wants acquires refused by a server that has been stamped just now.
func requireStamped(t *testing.T, n *node.Node, guard time.Duration) {
	t.Helper()
	refusal := (*nodeerr.QuarantineError)(nil)
	require.Eventually(t, func() bool { // each node that has left the former server stamps it, and that is pushed to the others
		reply := ask(t, n, newAcquire("key", "token", ttl))
		requireReply(t, quorum.Unsent, nodeerr.ErrQuarantined, reply)
		require.ErrorAs(t, reply.Err, &refusal)
		return refusal.Err == nil
	}, bound, tick)
	require.InDelta(t, guard+guard/100, refusal.Left, float64(guard/100))
}

// The danger: a backup of all servers stops all locks.
func TestGuard_AFirstReplicaIsNoPromotion(t *testing.T) {
	servers := testredis.Real(t, 2, "--repl-diskless-sync-delay", "0")
	testredis.InUse(t, servers[0], servers[0].Addr(), 2*time.Hour)
	history := testredis.Info(t, servers[0], "replication", "master_replid")
	host, port, _ := strings.Cut(servers[0].Addr(), ":")
	do(t, servers[1], "REPLICAOF", host, port)
	require.Eventually(t, func() bool {
		return testredis.Info(t, servers[1], "replication", "master_link_status") == "up"
	}, bound, tick)
	next := testredis.Info(t, servers[0], "replication", "master_replid")
	require.NotEqual(t, history, next)
	requireYes(t, open(t, servers[0].Addr(), patient(), withGuard(time.Hour)), newAcquire("key", "token", ttl))
	stamp, _ := do(t, servers[0], "GET", testredis.Stamps+servers[0].Addr()).([]byte)
	require.True(t, strings.HasSuffix(string(stamp), ":"+next), "%s", stamp)
	require.Less(t, left(t, servers[0], testredis.Stamps+servers[0].Addr()), sixtyDays-time.Hour, "it is as old as before")
}
