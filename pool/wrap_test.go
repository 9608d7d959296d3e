package pool_test

import (
	"context"
	stdlog "log"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
)

// wrappable makes a redigo pool whose connections the fake serves.
func wrappable(f *fake) *redis.Pool {
	return &redis.Pool{
		MaxIdle:     8,
		DialContext: func(context.Context) (redis.Conn, error) { return redis.NewConn(f.connect(), 0, 0), nil },
	}
}

// wrap makes a node of the pool, and closes both with the test.
func wrap(t testing.TB, redisPool *redis.Pool, opts ...pool.Option) *pool.Node {
	t.Helper()
	nodes, err := pool.Wrap([]*redis.Pool{redisPool}, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		closeInTime(t, nodes[0])
		require.NoError(t, redisPool.Close())
	})
	return nodes[0]
}

func TestAWrappedPoolDoesNotKeepAConnectionThatIsNotUsable(t *testing.T) {
	f := newFake(t, answering("INFO", "-NOAUTH Authentication required.\r\n"))
	redisPool := wrappable(f)
	node := wrap(t, redisPool, patient())
	for range 3 {
		requireUnconnected(t, ask(t, node, pool.Acquire("key", "token", ttl)), "NOAUTH")
	}
	require.Zero(t, redisPool.IdleCount())
	require.Eventually(t, func() bool { return f.connections() > 1 }, bound, tick)
}

// After a restart of its server a pool may be full of connections that ended unnoticed.
func TestDeadConnectionsOfAWrappedPoolDoNotHoldUpANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		redisPool := wrappable(f)
		idle := make([]redis.Conn, redisPool.MaxIdle)
		for i := range idle {
			idle[i] = redisPool.Get()
		}
		for i, conn := range idle {
			require.NoError(t, conn.Close())
			require.NoError(t, f.peer(i+1).Close())
		}
		require.Equal(t, len(idle), redisPool.IdleCount())
		start := time.Now()
		requireYes(t, wrap(t, redisPool), pool.Acquire("key", "token", ttl))
		require.Zero(t, time.Since(start))
	})
}

func TestAWrappedPoolThatHasNoConnectionToGiveSaysWhy(t *testing.T) {
	exhausted := wrappable(newFake(t, nil))
	exhausted.MaxActive = 1
	busy := exhausted.Get()
	defer busy.Close()
	reply := ask(t, wrap(t, exhausted, patient()), pool.Acquire("key", "token", ttl))
	requireReply(t, pool.Unsent, redis.ErrPoolExhausted, reply)
	require.NotErrorIs(t, reply.Err, pool.ErrProtocol)

	closed := wrappable(newFake(t, nil))
	require.NoError(t, closed.Close())
	reply = ask(t, wrap(t, closed, patient()), pool.Acquire("key", "token", ttl))
	require.ErrorContains(t, reply.Err, "closed pool")
	require.NotErrorIs(t, reply.Err, pool.ErrProtocol)
}

func TestTheTimeoutsOfAWrappedPoolDoNotMatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		redisPool := &redis.Pool{Dial: func() (redis.Conn, error) {
			return redis.NewConn(f.connect(), time.Millisecond, time.Millisecond), nil
		}}
		node := wrap(t, redisPool)
		for range 3 {
			requireYes(t, node, pool.Acquire("key", "token", ttl))
			pass(time.Second)
		}
		require.Equal(t, 1, f.connections())
	})
}

// A refusal says something about the server, not about the connection.
func TestAServerThatRefusesDoesNotCostAWrappedPoolItsConnections(t *testing.T) {
	f := newFake(t, answering("INFO", "-BUSY Redis is busy running a script.\r\n"))
	redisPool := wrappable(f)
	idle := []redis.Conn{redisPool.Get(), redisPool.Get(), redisPool.Get(), redisPool.Get(), redisPool.Get()}
	for _, conn := range idle {
		require.NoError(t, conn.Close())
	}
	nodes, err := pool.Wrap([]*redis.Pool{redisPool}, patient())
	require.NoError(t, err)
	requireUnconnected(t, ask(t, nodes[0], pool.Acquire("key", "token", ttl)), "BUSY")
	closeInTime(t, nodes[0])
	require.GreaterOrEqual(t, redisPool.IdleCount(), 3)
	require.NoError(t, redisPool.Close())
}

func TestAWrappedPoolMayLogItsConnections(t *testing.T) {
	f := newFake(t, nil)
	var log strings.Builder
	redisPool := &redis.Pool{Dial: func() (redis.Conn, error) {
		return redis.NewLoggingConn(redis.NewConn(f.connect(), 0, 0), stdlog.New(&log, "", 0), "lock"), nil
	}}
	nodes, err := pool.Wrap([]*redis.Pool{redisPool}, patient())
	require.NoError(t, err)
	requireYes(t, nodes[0], pool.Acquire("key", "token", ttl))
	closeInTime(t, nodes[0])
	require.Contains(t, log.String(), "SET")
	require.NoError(t, redisPool.Close())
}

func TestAWrappedPoolWhoseConnectionsAreNotOfRedigoSaysSo(t *testing.T) {
	f := newFake(t, nil)
	redisPool := &redis.Pool{Dial: func() (redis.Conn, error) {
		return struct{ redis.Conn }{redis.NewConn(f.connect(), 0, 0)}, nil
	}}
	reply := ask(t, wrap(t, redisPool, patient()), pool.Acquire("key", "token", ttl))
	require.Equal(t, pool.Unsent, reply.Answer)
	require.ErrorAs(t, reply.Err, new(*pool.ConnectError))
	require.ErrorContains(t, reply.Err, "does not support")
}
