package node_test

import (
	"context"
	"io"
	stdlog "log"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// closable is a connection of which nothing works but Close.
type closable struct {
	net.Conn
	closes int
}

func (c *closable) Close() error {
	c.closes++
	return nil
}

// A receive whose context is over before it begins closes the connection and touches nothing else of it: a
// node breaks its connection in this way from beside the goroutines that read and write.
func TestRedigo_AReceiveThatIsOverOnlyClosesTheConnection(t *testing.T) {
	over, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer cancel()
	for _, timeout := range []time.Duration{0, time.Nanosecond, time.Hour} {
		network := new(closable)
		direct := redis.NewConn(network, timeout, timeout)
		pooled := (&redis.Pool{Dial: func() (redis.Conn, error) { return direct, nil }}).Get()
		_, err := redis.ReceiveContext(pooled, over)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, pooled.Err(), context.DeadlineExceeded)
		require.Equal(t, 1, network.closes)
		require.NoError(t, pooled.Close())
	}
}

// It does so while others are in the middle of a read and of a write, and ends both.
func TestRedigo_AReceiveThatIsOverEndsReaderAndWriter(t *testing.T) {
	over, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer cancel()
	for range 200 {
		ours, theirs := net.Pipe()
		conn := redis.NewConn(ours, 0, 0)
		reading, writing, begun := make(chan error), make(chan error), make(chan struct{})
		go func() {
			_, err := redis.ReceiveWithTimeout(conn, 0)
			reading <- err
		}()
		go func() {
			close(begun)
			var err error
			for err == nil { // theirs takes the first byte and no more
				_ = conn.Send("PING")
				err = conn.Flush()
			}
			writing <- err
		}()
		<-begun
		_, err := io.ReadFull(theirs, make([]byte, 1))
		require.NoError(t, err)
		go func() { _, _ = redis.ReceiveContext(conn, over) }()
		_, _ = redis.ReceiveContext(conn, over)
		require.Error(t, <-reading)
		require.Error(t, <-writing)
		require.NoError(t, theirs.Close())
	}
}

// A reply that is read before Send has returned must not leave the connection with an answer to wait for:
// its pool would wait for it.
func TestRedigo_AConnectionWithAllAnswersReadGoesBackAtOnce(t *testing.T) {
	f := newFake(t, nil)
	redisPool := f.pool()
	defer redisPool.Close()
	conn := redisPool.Get()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			_, _ = redis.ReceiveWithTimeout(conn, 0)
		}
	}()
	for range 1000 {
		require.NoError(t, conn.Send("PING"))
		require.NoError(t, conn.Flush())
	}
	<-done
	require.NoError(t, conn.Close())
	require.Equal(t, 1, redisPool.IdleCount())
}

func TestWrapped_ThePoolDoesNotKeepAnUnusableConnection(t *testing.T) {
	f := newFake(t, answering("INFO", "-NOAUTH Authentication required.\r\n"))
	redisPool := f.pool()
	n := wrap(t, redisPool, patient())
	for range 3 {
		requireUnconnected(t, ask(t, n, newAcquire("key", "token", ttl)), "NOAUTH")
	}
	require.Zero(t, redisPool.IdleCount())
	require.Eventually(t, func() bool { return f.connections() > 1 }, bound, tick)
}

// After a restart of its server a pool may be full of connections that ended unnoticed.
func TestWrapped_DeadIdleConnectionsDoNotHoldUpANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		redisPool := f.pool()
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
		requireYes(t, wrap(t, redisPool), newAcquire("key", "token", ttl))
		require.Zero(t, time.Since(start))
	})
}

func TestWrapped_APoolWithoutAConnectionToGiveIsTheReason(t *testing.T) {
	exhausted, closed := newFake(t, nil).pool(), newFake(t, nil).pool()
	exhausted.MaxActive = 1
	defer exhausted.Get().Close()
	require.NoError(t, closed.Close())
	foreign := &redis.Pool{Dial: func() (redis.Conn, error) {
		return struct{ redis.Conn }{redis.NewConn(newFake(t, nil).connect(), 0, 0)}, nil
	}}
	for reason, redisPool := range map[string]*redis.Pool{"pool exhausted": exhausted, "closed pool": closed, "does not support": foreign} {
		reply := ask(t, wrap(t, redisPool, patient()), newAcquire("key", "token", ttl))
		require.Equal(t, quorum.Unsent, reply.Answer)
		require.ErrorAs(t, reply.Err, new(*nodeerr.ConnectError))
		require.ErrorContains(t, reply.Err, reason)
		require.NotErrorIs(t, reply.Err, nodeerr.ErrProtocol)
	}
}

func TestWrapped_TheTimeoutsOfThePoolDoNotMatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		redisPool := &redis.Pool{Dial: func() (redis.Conn, error) {
			return redis.NewConn(f.connect(), time.Millisecond, time.Millisecond), nil
		}}
		n := wrap(t, redisPool)
		for range 3 {
			requireYes(t, n, newAcquire("key", "token", ttl))
			pass(time.Second)
		}
		require.Equal(t, 1, f.connections())
	})
}

// A refusal is about the server, not about the connection.
func TestWrapped_ARefusalDoesNotCostThePoolItsConnections(t *testing.T) {
	f := newFake(t, answering("INFO", "-BUSY Redis is busy running a script.\r\n"))
	redisPool := f.pool()
	idle := []redis.Conn{redisPool.Get(), redisPool.Get(), redisPool.Get(), redisPool.Get(), redisPool.Get()}
	for _, conn := range idle {
		require.NoError(t, conn.Close())
	}
	n := newWrapped(redisPool, patient())
	requireUnconnected(t, ask(t, n, newAcquire("key", "token", ttl)), "BUSY")
	closeInTime(t, n)
	require.GreaterOrEqual(t, redisPool.IdleCount(), 3)
	require.NoError(t, redisPool.Close())
}

func TestWrapped_ThePoolMayLogItsConnections(t *testing.T) {
	f := newFake(t, nil)
	var log strings.Builder
	redisPool := &redis.Pool{Dial: func() (redis.Conn, error) {
		return redis.NewLoggingConn(redis.NewConn(f.connect(), 0, 0), stdlog.New(&log, "", 0), "lock"), nil
	}}
	n := newWrapped(redisPool, patient())
	requireYes(t, n, newAcquire("key", "token", ttl))
	closeInTime(t, n)
	require.Contains(t, log.String(), "EVAL")
	require.NoError(t, redisPool.Close())
}

func TestWrapped_CloseReturnsTheConnectionHealthy(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	redisPool := poolOf(server)
	redisPool.MaxIdle, redisPool.MaxActive = 1, 1
	defer redisPool.Close()
	for range 3 {
		n := newWrapped(redisPool, patient())
		l := listen(n, "channel")
		requireUntracked(t, n)
		require.Equal(t, 0, redisPool.IdleCount())
		closeInTime(t, n)
		require.Empty(t, l)
		require.Equal(t, 1, redisPool.ActiveCount())
		require.Equal(t, 1, redisPool.IdleCount())

		conn := redisPool.Get()
		pong, err := redis.String(conn.Do("PING"))
		require.NoError(t, err)
		require.Equal(t, "PONG", pong, "the connection is out of step")
		require.NoError(t, conn.Close())
	}
	require.Zero(t, calls(t, server, "client|kill", "client|tracking", "subscribe"))
	require.Len(t, clients(t, server), 1, "it was the same connection all the time")
}

func TestWrapped_CloseReturnsNoBrokenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redisPool := silentOn(t, "SET").pool()
		n := newWrapped(redisPool)
		requireReply(t, quorum.Unknown, nodeerr.ErrTimeout, ask(t, n, newAcquire("key", "token", ttl)))
		require.NoError(t, n.Close())
		require.Zero(t, redisPool.ActiveCount())
		require.Zero(t, redisPool.IdleCount())
		require.NoError(t, redisPool.Close())
	})
}
