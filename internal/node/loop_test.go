package node_test

import (
	"context"
	"crypto/tls"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

func TestLoop_NothingIsConnectedBeforeTheFirstCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		n := f.open(t)
		pass(time.Hour)
		require.Zero(t, f.connections())
		requireYes(t, n, newAcquire("key", "token", ttl))
		require.Equal(t, 1, f.connections())
	})
}

func TestLoop_AServerThatIsDownFailsCommandsAtOnceWithTheReason(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	server.Stop()
	for address, reason := range map[string]error{
		server.Addr():                         syscall.ECONNREFUSED,
		filepath.Join(t.TempDir(), "no.sock"): syscall.ENOENT,
	} {
		n := open(t, address, patient())
		for i := range 100 {
			replies := send(n, newAcquire("key", "token", ttl))
			require.True(t, i == 0 || len(replies) == 1, "not answered within Send")
			reply := replies.next(t)
			requireReply(t, quorum.Unsent, reason, reply)
			require.ErrorAs(t, reply.Err, new(*nodeerr.ConnectError))
			require.ErrorAs(t, reply.Err, new(*net.OpError))
		}
	}
}

func TestLoop_OneAttemptToConnectAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dialing, most, dials atomic.Int32
		n := open(t, "fake", withDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
			dials.Add(1)
			most.Store(max(most.Load(), dialing.Add(1)))
			defer dialing.Add(-1)
			return hangingDial(ctx, "", "")
		}))
		for range 5000 {
			sendTo(n, newAcquire("key", "token", ttl), nil, 0)
			sendTo(n, newRelease("key", "token", ttl), nil, 0)
			pass(time.Millisecond)
		}
		require.EqualValues(t, 1, most.Load())
		require.Less(t, dials.Load(), int32(10))
	})
}

func TestLoop_PausesGrowUpToASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials []time.Time
		n := open(t, "fake", withDialer(func(context.Context, string, string) (net.Conn, error) {
			dials = append(dials, time.Now())
			return nil, errDown
		}))
		requireReply(t, quorum.Unsent, errDown, ask(t, n, newAcquire("key", "token", ttl)))
		pass(10 * time.Second)
		synctest.Wait()
		require.Greater(t, len(dials), 12)
		for i, longest := 1, 20*time.Millisecond; i < len(dials); i++ {
			pause := dials[i].Sub(dials[i-1])
			require.GreaterOrEqual(t, pause, longest/2, "pause %d", i)
			require.LessOrEqual(t, pause, longest, "pause %d", i)
			longest = min(2*longest, time.Second)
		}
	})
}

// The pauses start over after a useful connection.
func TestLoop_IsBackAtMostASecondAfterItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		n := f.open(t)
		requireYes(t, n, newAcquire("key", "token", ttl))
		for range 2 {
			for _, tt := range []struct{ down, back time.Duration }{
				{0, 20 * time.Millisecond}, {1, 20 * time.Millisecond}, {time.Second, time.Second}, {time.Hour, time.Second},
			} {
				f.breakNetwork()
				pass(tt.down)
				f.down.Store(false)
				pass(tt.back)
				requireYes(t, n, newAcquire("key", "token", ttl))
			}
		}
	})
}

// Whatever the reason, a connection that comes about and is of no use must not be made over and over again.
func TestLoop_PausesIfTheServerHangsUp(t *testing.T) {
	for name, tt := range map[string]struct {
		on      string
		answers bool
	}{
		"on scripts":         {"EVAL", false}, // while a release is pending
		"after the greeting": {"CLIENT ID", true},
		"on anything":        {"", false},
		"on subscriptions":   {"SUBSCRIBE", false}, // tracking was confirmed
	} {
		bubble(t, name, func(t *testing.T) {
			f := newFake(t, func(c *peer, args []string) string {
				switch {
				case !strings.HasPrefix(strings.Join(args, " "), tt.on):
				case tt.answers:
					time.AfterFunc(time.Millisecond, func() { _ = c.Close() }) // one that ends in the greeting is greeted in another way
				default:
					_ = c.Close()
					return ""
				}
				return likeRedis(c, args)
			})
			n := f.open(t)
			listen(n, "channel")
			send(n, newRelease("key", "token", 10*time.Second))
			pass(10 * time.Second)
			require.Less(t, f.connections(), 150, "one each 50 ms for three seconds, and as often after the release was answered; then one a second")
			require.Greater(t, f.connections(), 8)
		})
	}
}

func TestLoop_AUsefulConnectionIsReplacedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		n := f.open(t)
		start := time.Now()
		for number := 1; number <= 10; number++ {
			requireYes(t, n, newAcquire("key", "token", ttl))
			require.NoError(t, f.peer(number).Close())
			synctest.Wait()
			require.Equal(t, number+1, f.connections())
		}
		require.Zero(t, time.Since(start))
	})
}

// A dead connection is not kept until the operating system gives it up.
func TestLoop_AConnectionWithOverdueAnswersIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const overdue = 3 * time.Second
		f := newFake(t, atFirst(answering("SET", "")))
		n := f.open(t, withMaxOverdue(overdue))
		requireReply(t, quorum.Unknown, nodeerr.ErrTimeout, ask(t, n, newAcquire("key", "token", ttl)))
		pass(overdue - 1)
		require.Equal(t, 1, f.connections())
		requireReply(t, quorum.Unsent, nodeerr.ErrSuspended, ask(t, n, newAcquire("key", "token", ttl)))
		pass(1)
		synctest.Wait()
		require.Equal(t, 2, f.connections())
		requireYes(t, n, newAcquire("key", "token", ttl))
	})
}

func TestLoop_AConnectionThatDiesWhileIdleIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, atFirst(answering("PING", "")))
		n := f.open(t)
		requireYes(t, n, newAcquire("key", "token", ttl))
		pass(12 * time.Second) // the pause between two pings, and what an answer may take
		require.Equal(t, 2, f.connections())
		start := time.Now()
		requireYes(t, n, newAcquire("key", "token", ttl))
		require.Zero(t, time.Since(start))
		pass(time.Minute)
		require.Equal(t, 2, f.connections(), "a connection that lives is kept")
	})
}

func TestLoop_PingsOnlyIfNothingElseIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := silentOn(t, "SET")
		n := f.open(t, withMaxOverdue(time.Hour))
		requireYes(t, n, newExtend("key", "token", ttl))
		pass(35 * time.Second)
		require.Equal(t, 3, f.count("PING"))
		requireReply(t, quorum.Unknown, nodeerr.ErrTimeout, ask(t, n, newAcquire("key", "token", ttl)))
		pass(time.Minute)
		require.Equal(t, 3, f.count("PING"))
	})
}

func TestLoop_AReleaseFollowsItsAcquireToAFrozenServer(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	n := open(t, server.Addr(), withTimeout(500*time.Millisecond), withMaxOverdue(time.Hour))
	requireBack(t, n)
	client := clients(t, server)
	server.Freeze()
	requireReply(t, quorum.Unknown, nodeerr.ErrTimeout, ask(t, n, newAcquire("key", "token", ttl)))
	requireReply(t, quorum.Unknown, nodeerr.ErrTimeout, ask(t, n, newRelease("key", "token", ttl)))
	server.Thaw()
	requireCalls(t, server, "eval", 2) // the first acquire, and the release
	require.Empty(t, holds(t, server, "key"))
	require.Equal(t, client, clients(t, server), "on the same connection")
}

// The danger: handshakes are given up when they are nearly done, so a server is busy with those that nobody waits for.
func TestLoop_AThousandClientsOverTLSAreAllServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cert := newCertificate(t, "redis.test")
		f := newFake(t, nil)
		f.secure = &tls.Config{Certificates: []tls.Certificate{cert}}
		turn := make(chan struct{}, 1) // goroutines get through it in the order in which they came
		f.greets = func() {
			turn <- struct{}{}
			pass(8 * time.Millisecond) // one handshake after the other, which costs as much if the client has gone
			<-turn
		}
		const clients = 1000
		start, served := time.Now(), make(chan bool, clients)
		for range clients { // with the timeouts that are the default of package pool
			n := f.open(t, withTLS(trusting(cert, "redis.test")), withTimeout(300*time.Millisecond), withDialTimeout(5*time.Second))
			go func() {
				yes := false
				for !yes && time.Since(start) < time.Minute {
					yes = ask(t, n, newAcquire("key", "token", ttl)).Answer == quorum.Yes
					pass(time.Second)
				}
				served <- yes
			}()
		}
		for i := range clients {
			require.True(t, <-served, "the first %d were served", i)
		}
		t.Logf("within %v, over %d connections", time.Since(start), f.connections())
	})
}
