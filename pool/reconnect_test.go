package pool_test

import (
	"context"
	"crypto/rand"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

func TestNothingIsConnectedBeforeTheFirstCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		node := f.open(t)
		pass(time.Hour)
		require.Zero(t, f.connections())
		requireYes(t, node, pool.Acquire("key", "token", ttl))
		require.Equal(t, 1, f.connections())
	})
}

func TestANodeConnectsAgainAfterARestartWithoutBeingAsked(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), patient())
	requireYes(t, node, pool.Acquire("key", "token", ttl))
	for range 3 {
		server.Stop()
		server.Start()
		require.Eventually(t, func() bool { return len(clients(t, server)) == 1 }, bound, tick)
		requireBack(t, node)
	}
}

// requireBack waits until the node does what it is asked to.
func requireBack(t testing.TB, node *pool.Node) {
	t.Helper()
	require.Eventually(t, func() bool {
		reply := ask(t, node, pool.Acquire(rand.Text(), "token", ttl))
		return reply.Answer == pool.Yes
	}, bound, tick)
}

func TestANodeConnectsAgainWhenItsConnectionIsCut(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), patient())
	requireYes(t, node, pool.Acquire("key", "token", ttl))
	for range 3 {
		before := clients(t, server)
		do(t, server, "CLIENT", "KILL", "TYPE", "normal")
		require.Eventually(t, func() bool {
			now := clients(t, server)
			return len(now) == 1 && now[0] != before[0]
		}, bound, tick)
		requireBack(t, node)
	}
}

func TestAServerThatIsDownIsRefusedAtOnceWithTheReason(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	server.Stop()
	for url, reason := range map[string]error{
		server.URL(): syscall.ECONNREFUSED,
		"unix://" + filepath.Join(t.TempDir(), "no.sock"): syscall.ENOENT,
	} {
		node := open(t, url, patient())
		requireUnreachable(t, reason, ask(t, node, pool.Acquire("key", "token", ttl)))
		for range 100 {
			replies := send(node, pool.Acquire("key", "token", ttl))
			require.Len(t, replies, 1, "it was not told within Send")
			requireUnreachable(t, reason, replies.next(t))
		}
	}
}

func requireUnreachable(t testing.TB, reason error, reply pool.Reply) {
	t.Helper()
	requireReply(t, pool.Unsent, reason, reply)
	require.ErrorAs(t, reply.Err, new(*pool.ConnectError))
	require.ErrorAs(t, reply.Err, new(*net.OpError))
}

func TestThereIsOneAttemptToConnectAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dialing, most, dials atomic.Int32
		node := open(t, "redis://fake", pool.WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
			dials.Add(1)
			most.Store(max(most.Load(), dialing.Add(1)))
			defer dialing.Add(-1)
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		var asking sync.WaitGroup
		for range 100 {
			asking.Go(func() {
				for range 100 {
					if reply := <-send(node, pool.Acquire("key", "token", ttl)); reply.Answer != pool.Unsent {
						t.Error(reply)
					}
					pass(time.Millisecond)
				}
			})
		}
		asking.Wait()
		pass(5 * time.Second)
		require.EqualValues(t, 1, most.Load())
		require.Less(t, dials.Load(), int32(10))
	})
}

func TestThePausesBetweenAttemptsGrowUpToASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var dials []time.Time
		node := open(t, "redis://fake", pool.WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			dials = append(dials, time.Now())
			return nil, errDown
		}))
		requireReply(t, pool.Unsent, errDown, ask(t, node, pool.Acquire("key", "token", ttl)))
		pass(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		require.Greater(t, len(dials), 12)
		for i, longest := 1, 20*time.Millisecond; i < len(dials); i++ {
			pause := dials[i].Sub(dials[i-1])
			require.GreaterOrEqual(t, pause, longest/2, "pause %d", i)
			require.LessOrEqual(t, pause, longest, "pause %d", i)
			longest = min(2*longest, time.Second)
		}
	})
}

func TestThePausesBetweenAttemptsStartOverAfterAConnectionThatWasOfUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &breakable{fake: newFake(t, nil)}
		b.down.Store(true)
		node := open(t, "redis://fake", pool.WithDialer(b.dial))
		for range 2 {
			require.Equal(t, pool.Unsent, ask(t, node, pool.Acquire("key", "token", ttl)).Answer)
			pass(time.Minute)
			b.down.Store(false)
			pass(time.Second)
			requireYes(t, node, pool.Acquire("key", "token", ttl))
			b.breakNetwork()
			pass(time.Nanosecond)
			b.down.Store(false)
			pass(20 * time.Millisecond)
			requireYes(t, node, pool.Acquire("key", "token", ttl))
			b.breakNetwork()
			synctest.Wait()
		}
	})
}

func TestTheReasonOfAnEarlierTimeIsNotTheReasonOfThisOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		dials := make(chan error)
		node := open(t, "redis://fake", pool.WithDialer(func(context.Context, string, string) (net.Conn, error) {
			if err := <-dials; err != nil {
				return nil, err
			}
			return f.connect(), nil
		}))
		t.Cleanup(func() { close(dials) })
		early := send(node, pool.Acquire("key", "token", ttl))
		dials <- errDown
		requireReply(t, pool.Unsent, errDown, early.next(t))
		dials <- nil
		synctest.Wait()
		requireYes(t, node, pool.Acquire("key", "token", ttl))
		require.NoError(t, f.peer(1).Close())
		synctest.Wait()
		late := send(node, pool.Acquire("key", "token", ttl))
		require.Empty(t, late, "refused before the attempt to connect has failed")
		dials <- nil
		require.Equal(t, pool.Yes, late.next(t).Answer)
	})
}

func TestANodeIsBackAtMostASecondAfterItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &breakable{fake: newFake(t, nil)}
		node := open(t, "redis://fake", pool.WithDialer(b.dial))
		requireYes(t, node, pool.Acquire("key", "token", ttl))
		for _, down := range []time.Duration{0, time.Millisecond, time.Second, time.Hour} {
			b.breakNetwork()
			pass(down)
			b.down.Store(false)
			pass(time.Second)
			requireYes(t, node, pool.Acquire("key", "token", ttl))
		}
	})
}

// Whatever the reason, a connection that comes about and is of no use must not be made over and over again.
func TestAServerThatHangsUpIsNotConnectedToWithoutAPause(t *testing.T) {
	hangUpOn := func(matches func(args []string) bool) func(c *peer, args []string) string {
		return func(c *peer, args []string) string {
			if matches(args) {
				_ = c.Close()
				return ""
			}
			return likeRedis(c, args)
		}
	}
	for name, answer := range map[string]func(c *peer, args []string) string{
		"on scripts": hangUpOn(isScript), // while a release is owed
		"after the greeting": func(c *peer, args []string) string {
			if args[0] == "CLIENT" {
				go c.Close()
			}
			return likeRedis(c, args)
		},
		"on anything": hangUpOn(func([]string) bool { return true }),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, answer)
				node := f.open(t)
				send(node, pool.Release("key", "token", 10*time.Second))
				pass(10 * time.Second)
				require.Less(t, f.connections(), 40)
				require.Greater(t, f.connections(), 8)
			})
		})
	}
}

func TestAConnectionThatWasOfUseIsReplacedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		node := f.open(t)
		start := time.Now()
		for number := 1; number <= 10; number++ {
			requireYes(t, node, pool.Acquire("key", "token", ttl))
			require.NoError(t, f.peer(number).Close())
			synctest.Wait()
			require.Equal(t, number+1, f.connections())
		}
		require.Zero(t, time.Since(start))
	})
}
