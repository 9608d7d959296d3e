package pool_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

// Trap 22: Close never hangs. That it leaves no goroutine is seen by synctest, which
// does not end before they do, and in the other tests by goleak.

// openUnowned makes a node that the test has to close itself.
func openUnowned(t testing.TB, f *fake, opts ...pool.Option) *pool.Node {
	t.Helper()
	nodes, err := pool.Open([]string{"redis://fake"}, append([]pool.Option{pool.WithDialer(f.dial)}, opts...)...)
	require.NoError(t, err)
	return nodes[0]
}

func TestCloseOfANodeThatWasNeverUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		node := openUnowned(t, f)
		for range 2 {
			require.NoError(t, node.Close())
			requireReply(t, pool.Unsent, pool.ErrClosed, ask(t, node, pool.Acquire("key", "token", ttl)))
			requireReply(t, pool.Unsent, pool.ErrClosed, ask(t, node, pool.Release("key", "token", ttl)))
		}
		require.Zero(t, f.connections())
	})
}

func TestCloseLetsWhatIsUnderWayEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, func(c *peer, args []string) string {
			pass(5 * time.Millisecond)
			return likeRedis(c, args)
		})
		node := openUnowned(t, f)
		start := time.Now()
		acquired := send(node, pool.Acquire("key", "token", ttl))
		released := send(node, pool.Release("key", "token", ttl))
		require.NoError(t, node.Close()) // which has not even connected yet
		require.Equal(t, pool.Yes, acquired.next(t).Answer)
		require.Equal(t, pool.Yes, released.next(t).Answer)
		require.Less(t, time.Since(start), node.Timeout())
	})
}

func TestCloseOfAnIdleNodeDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := openUnowned(t, newFake(t, nil))
		requireYes(t, node, pool.Acquire("key", "token", ttl))
		start := time.Now()
		require.NoError(t, node.Close())
		require.Zero(t, time.Since(start))
	})
}

func TestCloseWaitsForTheNodeTimeoutAtTheLongest(t *testing.T) {
	type dialer = func(context.Context, string, string) (net.Conn, error)
	frozenOn := func(command string) func(testing.TB) dialer {
		return func(t testing.TB) dialer {
			var f *fake
			f = newFake(t, func(c *peer, args []string) string {
				if args[0] == command {
					<-f.end // and reads no more
				}
				return likeRedis(c, args)
			})
			return f.dial
		}
	}
	silent := func(command string) func(testing.TB) dialer {
		return func(t testing.TB) dialer { return silentOn(t, command).dial }
	}
	for name, server := range map[string]struct {
		scheme string
		dialer func(testing.TB) dialer
		more   []pool.Option
	}{
		"while answers are missing":         {dialer: silent("SET")},
		"while a write hangs":               {dialer: frozenOn("SET")},
		"during the greeting":               {dialer: silent("INFO")},
		"while the greeting cannot be sent": {dialer: frozenOn("INFO")},
		"during AUTH":                       {dialer: silent("AUTH"), more: []pool.Option{password("pw")}},
		"during a TLS handshake":            {dialer: blackHole, scheme: "rediss"},
		"in the pause between two dials":    {dialer: func(testing.TB) dialer { return refusingDial }},
		"during a dial":                     {dialer: func(testing.TB) dialer { return hangingDial }},
		"while the credentials are looked up": {dialer: silent("SET"), more: []pool.Option{
			pool.WithCredentials(func(ctx context.Context) (string, string, error) {
				<-ctx.Done()
				return "", "", ctx.Err()
			}),
		}},
	} {
		for _, wait := range []time.Duration{time.Millisecond, 10 * time.Second} {
			t.Run(fmt.Sprint(name, " for ", wait), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					opts := append([]pool.Option{
						pool.WithDialer(server.dialer(t)), pool.WithMaxOverdue(time.Hour), pool.WithDialTimeout(time.Hour),
					}, server.more...)
					nodes, err := pool.Open([]string{cmp.Or(server.scheme, "redis") + "://fake"}, opts...)
					require.NoError(t, err)
					node := nodes[0]
					acquired := send(node, pool.Acquire("key", "token", ttl))
					synctest.Wait()
					released := send(node, pool.Release("key", "token", ttl))
					pass(wait)

					start := time.Now()
					var closing sync.WaitGroup
					for range 3 {
						closing.Go(func() { require.NoError(t, node.Close()) })
					}
					closing.Wait()
					require.LessOrEqual(t, time.Since(start), node.Timeout())
					require.Len(t, acquired, 1, "a command was never answered, or twice")
					require.Len(t, released, 1, "a command was never answered, or twice")
					require.NotEqual(t, pool.Yes, acquired.next(t).Answer)
					require.NotEqual(t, pool.Yes, released.next(t).Answer)
				})
			})
		}
	}
}

func refusingDial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("refused")
}

func hangingDial(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// password logs in with a password that never changes.
func password(text string) pool.Option {
	return pool.WithCredentials(func(context.Context) (string, string, error) { return "", text, nil })
}

func TestCloseFreesWhatWaitsForAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialing := make(chan struct{}, 1)
		nodes, err := pool.Open([]string{"redis://fake"}, pool.WithTimeout(time.Second), pool.WithDialTimeout(time.Second/2),
			pool.WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
				dialing <- struct{}{}
				<-ctx.Done()
				return nil, ctx.Err()
			}))
		require.NoError(t, err)
		waiting := []inbox{
			send(nodes[0], pool.Acquire("key", "token", ttl)),
			send(nodes[0], pool.Release("key", "token", ttl)),
		}
		<-dialing
		require.NoError(t, nodes[0].Close())
		for _, reply := range waiting {
			requireReply(t, pool.Unsent, pool.ErrClosed, reply.next(t))
			require.Empty(t, reply)
		}
	})
}

func TestAReplyNeverComesAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 5 {
			node := openUnowned(t, silentOn(t, "SET"))
			reply := slowInbox(make(chan pool.Reply, 1))
			node.Send(time.Now(), pool.Acquire("key", "token", ttl), reply, 0)
			pass(1)
			require.NoError(t, node.Close()) // which ends right after the command's timeout
			require.Len(t, reply, 1)
		}
	})
}

// slowInbox is a Receiver that takes its time.
type slowInbox chan pool.Reply

func (b slowInbox) Reply(_ int, _ *pool.Command, reply pool.Reply) {
	pass(time.Millisecond)
	b <- reply
}

func TestCloseOfAFrozenServerLeavesNoConnection(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	nodes, err := pool.Open([]string{server.URL()}, pool.WithTimeout(200*time.Millisecond))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return ask(t, nodes[0], pool.Acquire("key", "token", ttl)).Answer != pool.Unsent }, bound, tick)
	require.Len(t, clients(t, server), 1)
	server.Freeze()
	reply := send(nodes[0], pool.Release("key", "token", ttl))
	closeInTime(t, nodes[0])
	require.Equal(t, pool.Maybe, reply.next(t).Answer)
	server.Thaw()
	require.Eventually(t, func() bool { return len(clients(t, server)) == 0 }, bound, tick)
}

func TestCloseWhileManyCallersSendAnswersEveryCommandOnce(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	for range 20 {
		nodes, err := pool.Open([]string{server.URL()}, patient())
		require.NoError(t, err)
		var sending sync.WaitGroup
		replies := make(chan inbox, 16)
		for range cap(replies) {
			sending.Go(func() {
				all := make(inbox, 101)
				for range 100 {
					nodes[0].Send(time.Now(), pool.Release("key", "token", ttl), all, 0)
				}
				replies <- all
			})
		}
		closeInTime(t, nodes[0])
		sending.Wait()
		for range cap(replies) {
			require.Len(t, <-replies, 100)
		}
	}
}

func TestCloseGivesAWrappedPoolItsConnectionBackHealthy(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	redisPool := &redis.Pool{MaxIdle: 1, MaxActive: 1, Dial: func() (redis.Conn, error) { return redis.DialURL(server.URL()) }}
	defer redisPool.Close()
	for range 3 {
		nodes, err := pool.Wrap([]*redis.Pool{redisPool}, patient())
		require.NoError(t, err)
		requireYes(t, nodes[0], pool.Acquire("key", "token", ttl))
		requireYes(t, nodes[0], pool.Release("key", "token", ttl))
		require.Equal(t, 0, redisPool.IdleCount())
		closeInTime(t, nodes[0])
		require.Equal(t, 1, redisPool.ActiveCount())
		require.Equal(t, 1, redisPool.IdleCount())

		conn := redisPool.Get()
		pong, err := redis.String(conn.Do("PING"))
		require.NoError(t, err)
		require.Equal(t, "PONG", pong, "the connection is out of step")
		require.NoError(t, conn.Close())
	}
	require.Equal(t, "0", calls(t, server, "client|kill"))
	require.Len(t, clients(t, server), 1, "it was the same connection all the time")
}

func TestCloseDoesNotGiveAWrappedPoolABrokenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redisPool := wrappable(silentOn(t, "SET"))
		nodes, err := pool.Wrap([]*redis.Pool{redisPool})
		require.NoError(t, err)
		requireReply(t, pool.Maybe, pool.ErrTimeout, ask(t, nodes[0], pool.Acquire("key", "token", ttl)))
		require.NoError(t, nodes[0].Close())
		require.Zero(t, redisPool.ActiveCount())
		require.Zero(t, redisPool.IdleCount())
		require.NoError(t, redisPool.Close())
	})
}
