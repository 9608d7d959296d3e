package supervise_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

// A front that was frozen after it has given the lock away still has its handle, without renewals, when it goes on.
// The danger: what it does with that ends the lock of the holder.
func TestHandOver_AHandleThatHasExpiredLeavesTheLockOfAnotherAlone(t *testing.T) {
	t.Parallel()
	servers := testredis.Real(t, 3)
	open := func() *redlock.Locker {
		quiet := redlock.WithLogger(slog.New(slog.DiscardHandler))
		locker, err := redlock.Open(testredis.URLs(servers), redlock.TTL(2*time.Second), quiet)
		require.NoError(t, err)
		t.Cleanup(func() { _ = locker.Close() })
		return locker
	}
	front, holder := open(), open()
	given, err := front.Lock(t.Context(), "job")
	require.NoError(t, err)
	require.NoError(t, given.Extend(t.Context(), 2*time.Second)) // as front.refresh does
	lock, err := holder.Attach(t.Context(), "job", given.Token(), redlock.RenewFor(redlock.NoLimit))
	require.NoError(t, err)

	require.Eventually(t, func() bool { return given.Err() != nil }, 30*time.Second, 5*time.Millisecond)
	_, err = given.Detach(t.Context())
	require.ErrorIs(t, err, redlock.ErrExpired)
	require.NoError(t, front.Close())
	for _, s := range servers {
		held, err := s.Do("GET", "job")
		require.NoError(t, err)
		require.Equal(t, []byte(lock.Token()), held)
	}
	require.NoError(t, lock.Err())
	require.NoError(t, lock.Unlock(t.Context()))
}
