package pool_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// What the node relies on in redigo beyond its documentation.

// countingConn counts the calls that reach the network.
type countingConn struct {
	net.Conn
	reads, writes, deadlines, closes int
}

func (c *countingConn) Read(p []byte) (int, error)       { c.reads++; return c.Conn.Read(p) }
func (c *countingConn) Write(p []byte) (int, error)      { c.writes++; return c.Conn.Write(p) }
func (c *countingConn) SetReadDeadline(time.Time) error  { c.deadlines++; return nil }
func (c *countingConn) SetWriteDeadline(time.Time) error { c.deadlines++; return nil }
func (c *countingConn) SetDeadline(time.Time) error      { c.deadlines++; return nil }
func (c *countingConn) Close() error                     { c.closes++; return c.Conn.Close() }

// A receive whose context is over before it begins closes the connection and touches nothing else of it: a
// node breaks its connection in this way from beside the goroutines that read and write.
func TestAReceiveThatIsOverBeforeItBeginsOnlyClosesTheConnection(t *testing.T) {
	over, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer cancel()
	for _, timeout := range []time.Duration{0, time.Nanosecond, time.Hour} {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		network := &countingConn{Conn: ours}
		direct := redis.NewConn(network, timeout, timeout)
		pooled := (&redis.Pool{Dial: func() (redis.Conn, error) { return direct, nil }}).Get()
		_, err := redis.ReceiveContext(pooled, over)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, pooled.Err(), context.DeadlineExceeded)
		require.Equal(t, countingConn{Conn: ours, closes: 1}, *network)
		require.NoError(t, pooled.Close())
	}
}

// It does so while others are in the middle of a read and of a write, and ends both.
func TestAReceiveThatIsOverBeforeItBeginsEndsReaderAndWriter(t *testing.T) {
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
func TestAConnectionWithAllAnswersReadGoesBackToItsPoolAtOnce(t *testing.T) {
	f := newFake(t, nil)
	redisPool := wrappable(f)
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
