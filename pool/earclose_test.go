package pool_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

func TestCloseOfANodeThatHearsIsPrompt(t *testing.T) {
	for wire, open := range wires {
		t.Run(wire, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newEarFake(t, nil)
				node := open(f.fake, t)
				l := listen(node, "channel")
				require.Equal(t, "0 hearing", l.next(t))
				start := time.Now()
				require.NoError(t, node.Close())
				require.Zero(t, time.Since(start))
				require.Equal(t, "0 deaf", l.next(t))
				pass(time.Minute)
				require.Empty(t, l)
			})
		})
	}
}

func TestCloseDoesNotWaitForAnEarThatConnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newEarFake(t, nil)
		nodes, err := pool.Open([]string{"redis://fake"}, pool.WithDialTimeout(time.Hour),
			pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				if f.connections() == 1 {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return f.dial(ctx, network, address)
			}))
		require.NoError(t, err)
		l := listen(nodes[0], "")
		pass(time.Minute)
		start := time.Now()
		require.NoError(t, nodes[0].Close())
		require.Zero(t, time.Since(start))
		require.Empty(t, l)
	})
}

func TestCloseOfANodeThatListensAndNeverConnectedIsPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, dial := range []func(context.Context, string, string) (net.Conn, error){refusingDial, hangingDial} {
			nodes, err := pool.Open([]string{"redis://fake"}, pool.WithDialer(dial), pool.WithDialTimeout(time.Hour))
			require.NoError(t, err)
			l := listen(nodes[0], "channel")
			pass(time.Minute)
			start := time.Now()
			require.NoError(t, nodes[0].Close())
			require.LessOrEqual(t, time.Since(start), nodes[0].Timeout())
			require.Empty(t, l)
		}
	})
}

// Trap 22: redigo's pool ends the subscriptions of what it gets back, and waits for the answers.
func TestCloseOfAFrozenServerWithAnEarDoesNotHang(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	redisPool := earPool(server)
	opened, err := pool.Open([]string{server.URL()}, impatient()...)
	require.NoError(t, err)
	wrapped, err := pool.Wrap([]*redis.Pool{redisPool}, impatient()...)
	require.NoError(t, err)
	nodes := []*pool.Node{opened[0], wrapped[0]}
	for _, node := range nodes {
		listen(node, "channel").await(t, "0 hearing")
	}
	requireSubscribed(t, server, "channel", 2)
	server.Freeze()
	for _, node := range nodes {
		start := time.Now()
		closeInTime(t, node)
		require.Less(t, time.Since(start), 5*time.Second)
	}
	require.Zero(t, redisPool.ActiveCount())
	server.Thaw()
	require.NoError(t, redisPool.Close())
	require.Eventually(t, func() bool { return len(clients(t, server)) == 0 }, bound, tick)
}

func TestAWrappedPoolGetsNoEarBackAndItsLinkAsItWas(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	redisPool := earPool(server)
	for range 3 {
		nodes, err := pool.Wrap([]*redis.Pool{redisPool}, patient())
		require.NoError(t, err)
		listen(nodes[0], "channel").await(t, "0 hearing")
		requireWatched(t, nodes[0], "key")
		closeInTime(t, nodes[0])
		require.Equal(t, 1, redisPool.ActiveCount())
		require.Equal(t, 1, redisPool.IdleCount())
		conn := redisPool.Get()
		info, err := redis.Values(conn.Do("CLIENT", "TRACKINGINFO"))
		require.NoError(t, err)
		flags, err := redis.Strings(info[1], nil)
		require.NoError(t, err)
		require.Equal(t, []string{"off"}, flags)
		require.NoError(t, conn.Close())
	}
	require.NoError(t, redisPool.Close())
}
