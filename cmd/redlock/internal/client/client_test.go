package client_test

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/client"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

func server(addr string) *node.Server {
	return &node.Server{Network: "tcp", Address: addr, Dial: new(net.Dialer).DialContext}
}

// connect makes a Client of a real server.
func connect(t *testing.T) (*testredis.Process, *client.Client) {
	s := testredis.Real(t, 1)[0]
	c, err := client.Connect(t.Context(), server(s.Addr()))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return s, c
}

func TestClient_RepliesAreGoTypes(t *testing.T) {
	t.Parallel()
	s, c := connect(t)
	replies, err := c.DoAll(t.Context(), [][]string{
		{"SET", "key", "value"}, {"GET", "key"}, {"GET", "none"}, {"LPUSH", "key", "x"}, {"RPUSH", "list", "a", "b"}, {"LRANGE", "list", "0", "-1"},
	})
	require.NoError(t, err)
	require.Equal(t, []any{"OK", "value", nil}, replies[:3])
	require.ErrorIs(t, replies[3].(error), nodeerr.ErrForeign)
	require.Equal(t, []any{int64(2), []any{"a", "b"}}, replies[4:])

	_, err = c.Do(t.Context(), "LPUSH", "key", "x")
	require.ErrorAs(t, err, new(*nodeerr.ServerError))
	reply, err := c.Do(t.Context(), "PING")
	require.NoError(t, err, "an error reply breaks nothing")
	require.Equal(t, "PONG", reply)

	reply, err = c.Do(t.Context(), "SUBSCRIBE", "channel")
	require.NoError(t, err)
	require.Equal(t, []any{"subscribe", "channel", int64(1)}, reply)
	_, err = s.Do("PUBLISH", "channel", "text")
	require.NoError(t, err)
	reply, err = c.Receive(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{"message", "channel", "text"}, reply)
}

func TestClient_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	s, c := connect(t)
	s.Freeze()
	defer s.Thaw()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Do(ctx, "PING")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = c.Do(t.Context(), "PING")
	require.ErrorIs(t, err, context.DeadlineExceeded, "a reply that comes now would be taken for the next one's")
}

// The danger: a server whose replies are long fills the memory, although each of them is short enough.
func TestClient_BoundsTheRepliesToOneMessage(t *testing.T) {
	t.Parallel()
	_, c := connect(t)
	_, err := c.Do(t.Context(), "SETRANGE", "key", "999999", "x")
	require.NoError(t, err)
	ask := func(n int) error {
		_, err := c.DoAll(t.Context(), slices.Repeat([][]string{{"GET", "key"}}, n))
		return err
	}
	require.NoError(t, ask(60))
	require.ErrorIs(t, ask(70), nodeerr.ErrProtocol)
	require.ErrorIs(t, ask(1), nodeerr.ErrProtocol, "the rest of the replies would be taken for the next ones")
}

func TestConnect_NamesWhatTheServerRefuses(t *testing.T) {
	t.Parallel()
	s := testredis.Real(t, 1)[0]
	to := server(s.Addr())
	to.Username, to.Password = "nobody", "hunter2"
	_, err := client.Connect(t.Context(), to)
	require.ErrorAs(t, err, new(*nodeerr.ConnectError))
	require.ErrorContains(t, err, "WRONGPASS")
	require.NotContains(t, err.Error(), "hunter2")
}
