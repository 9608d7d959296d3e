package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock/clocktest"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestDefaultOption_IsThatOfEveryLockUnlessTheCallSaysOtherwise(t *testing.T) {
	t.Parallel()
	c := onMini(t, 3)
	fake := clocktest.New()
	locker := c.locker(redlock.WithClock(fake), redlock.WithDrift(0, 0),
		redlock.TTL(time.Hour), redlock.Grace(time.Minute), redlock.Metadata("all"), redlock.MaxHold(2*time.Hour))
	requireLock := func(left time.Duration, metadata string, opts ...redlock.LockOption) {
		t.Helper()
		lock := take(t, locker, "name", opts...)
		require.Equal(t, left, lock.Remaining())
		state := inspect(t, locker, "name")
		require.Equal(t, metadata, state.Metadata)
		require.NoError(t, lock.Unlock(t.Context()))
		c.eventuallyEmpty()
	}
	requireLock(59*time.Minute, "all")
	requireLock(29*time.Minute, "all", redlock.TTL(30*time.Minute))
	requireLock(time.Hour, "", redlock.Grace(0), redlock.Metadata(""))
	requireLock(50*time.Minute, "one", redlock.Grace(10*time.Minute), redlock.Metadata("one"))
}

// A call has no error for a default that it has no use for: MaxHold without AutoExtend, MaxWait of TryLock, Metadata of Attach.
func TestDefaultOption_IsIgnoredByACallThatHasNoUseForIt(t *testing.T) {
	t.Parallel()
	c := onMini(t, 3)
	n := 0
	source := func() (string, error) {
		n++
		return string(rune('a' + n)), nil
	}
	locker := c.locker(redlock.MaxHold(long), redlock.MaxWait(0), redlock.MaxOutage(0), redlock.Metadata("metadata"))
	lock := take(t, locker, "name")
	token := detach(t, lock)
	attached := got(locker.Attach(t.Context(), "name", token))(t)
	require.ErrorIs(t, errOf(locker.Lock(t.Context(), "name")), redlock.ErrTaken, "MaxWait(0)")
	require.NoError(t, attached.Unlock(t.Context()))

	lock = take(t, locker, "name", redlock.TokenSource(source))
	require.Equal(t, "b", lock.Token(), "without the Locker's Metadata")
	require.NoError(t, lock.Unlock(t.Context()))
	_, err := locker.TryLock(t.Context(), "name", redlock.TokenSource(source), redlock.Metadata("text"))
	require.ErrorIs(t, err, redlock.ErrInvalid)
	require.ErrorContains(t, err, `Metadata("text")`)
}

func TestNoLimit_UndoesADefault(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	holder := take(t, c.locker(), "name")
	locker := c.locker(redlock.MaxWait(0), redlock.MaxHold(long))
	waiter := queue(t, t.Context(), locker, "name", redlock.MaxWait(redlock.NoLimit))
	require.NoError(t, holder.Unlock(t.Context()))
	require.NoError(t, won(t, waiter).Unlock(t.Context()))

	require.ErrorContains(t, errOf(locker.TryLock(t.Context(), "other", redlock.AutoExtend(), redlock.TTL(long+time.Second))), "MaxHold", "a default that does not fit the call")
	lock := take(t, locker, "other", redlock.AutoExtend(), redlock.TTL(long+time.Second), redlock.MaxHold(redlock.NoLimit))
	require.NoError(t, lock.Unlock(t.Context()))

	c.doAll("CONFIG", "SET", "maxmemory", "1")
	locker = c.locker(redlock.MaxOutage(0))
	require.ErrorIs(t, errOf(locker.Lock(t.Context(), "third")), redlock.ErrNoQuorum)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, errOf(locker.Lock(ctx, "third", redlock.MaxOutage(redlock.NoLimit))), context.DeadlineExceeded)
}

func TestTokenSource_IsThatOfOneLock(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		lock := take(t, locker, "name", redlock.TokenSource(func() (string, error) { return "document-1", nil }))
		require.Equal(t, "document-1", lock.Token())
		c.eventuallyHeld("name", "document-1")
		require.NoError(t, lock.Unlock(t.Context()))
		lock = take(t, locker, "name")
		require.Len(t, lock.Token(), len(take(t, locker, "other").Token()), "a random one")
	})
}

// The danger: the release of a round that was refused deletes the key that another round has set with the same token.
func TestTokenSource_OneTokenForTwoRoundsOfACallIsRefused(t *testing.T) {
	t.Parallel()
	c := onMini(t, 3)
	c.silence()
	take(t, c.locker(), "name")
	_, err := c.locker().Lock(briefly(t), "name", redlock.TokenSource(func() (string, error) { return "same", nil }))
	require.ErrorIs(t, err, redlock.ErrInvalid)
	require.ErrorContains(t, err, `TokenSource: the token "same" was that of the round before`)
}
