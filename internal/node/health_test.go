package node_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// reports is a Reporter that passes on what it is told.
type reports chan node.Health

func (r reports) Health(_ int, h node.Health) { r <- h }

func (r reports) next(t *testing.T) node.Health {
	t.Helper()
	return next(t, r, "no report")
}

func TestReport_SaysWhenTheNodeIsUpAndWhyItIsNot(t *testing.T) {
	t.Parallel()
	server := testredis.Real(t, 1)[0]
	n := newNode(server.Addr(), patient())
	seen := make(reports, 1000)
	n.Report(seen, 0)
	require.Equal(t, quorum.Yes, ask(t, n, newAcquire("key", "token", ttl)).Answer)
	require.Equal(t, node.Health{Up: true}, seen.next(t))

	late := make(reports, 1000)
	n.Report(late, 0)
	require.Equal(t, node.Health{Up: true}, late.next(t))
	n.Unreport(late)
	require.Equal(t, node.Health{Err: nodeerr.ErrClosed}, late.next(t), "a connection ends for it")

	server.Stop()
	broke := seen.next(t)
	require.False(t, broke.Up)
	require.Zero(t, broke.Failed)
	require.Error(t, broke.Err)
	for i := range 3 {
		failed := seen.next(t)
		require.False(t, failed.Up)
		require.Equal(t, 1+i, failed.Failed)
		require.ErrorAs(t, failed.Err, new(*nodeerr.ConnectError))
	}
	server.Start()
	up := seen.next(t)
	for !up.Up {
		up = seen.next(t)
	}
	require.GreaterOrEqual(t, up.Failed, 3)
	require.Positive(t, up.Down)
	require.NoError(t, up.Err)
	require.Empty(t, late)
	require.NoError(t, n.Close())
	require.Equal(t, node.Health{Err: nodeerr.ErrClosed}, seen.next(t))
	require.Empty(t, seen, "it is reported once")
	n.Unreport(seen)
	require.Equal(t, node.Health{Failed: 1, Err: nodeerr.ErrClosed}, seen.next(t), "no connection ends any more")
}

// lateConn keeps what it has read until the attempt to connect is over.
type lateConn struct {
	net.Conn
	over <-chan struct{}
}

func (c lateConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	<-c.over
	return n, err
}

// The connection is being cut then: whoever used it would not know whether the server has carried out the command.
func TestReport_AConnectionThatIsReadyTooLateIsNotUp(t *testing.T) {
	t.Parallel()
	server := testredis.Real(t, 1)[0]
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		over := make(chan struct{})
		context.AfterFunc(ctx, func() { time.AfterFunc(50*time.Millisecond, func() { close(over) }) })
		return lateConn{conn, over}, err
	}
	n := open(t, server.Addr(), patient(), withDialTimeout(100*time.Millisecond), withDialer(dial))
	seen := make(reports, 1000)
	n.Report(seen, 0)
	reply := ask(t, n, newAcquire("key", "token", ttl))
	require.ErrorAs(t, reply.Err, new(*nodeerr.ConnectError))
	h := seen.next(t)
	require.False(t, h.Up)
	require.ErrorIs(t, h.Err, nodeerr.ErrTimeout)
}
