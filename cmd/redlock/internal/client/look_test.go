package client_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/client"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// The danger: who is told that a lock is taken, and by whom, waits for a server that hangs. Here that would be an hour.
func TestLook_AnswersThoughAServerHangsWhenItIsConnectedTo(t *testing.T) {
	t.Parallel()
	urls := testredis.URLs(testredis.Mini(t, 2))
	holder, err := redlock.Open(urls)
	require.NoError(t, err)
	defer holder.Close()
	_, err = holder.TryLock(t.Context(), "job", redlock.Metadata("the holder"))
	require.NoError(t, err)
	hangs, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer hangs.Close()

	locker, err := redlock.Open(append(urls, "redis://"+hangs.Addr().String()), pool.WithTimeout(time.Hour), pool.WithDialTimeout(time.Hour))
	require.NoError(t, err)
	state, err := client.Look(t.Context(), locker, "job")
	require.NoError(t, err)
	require.Equal(t, redlock.VerdictHeld, state.Verdict)
	require.Equal(t, "the holder", state.Holders[0].Metadata)
	require.NoError(t, hangs.Close())
	require.NoError(t, locker.Close())
}
