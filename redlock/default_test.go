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
		state, err := locker.Inspect(t.Context(), "name")
		require.NoError(t, err)
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
	token, err := lock.Detach(t.Context())
	require.NoError(t, err)
	attached, err := locker.Attach(t.Context(), "name", token)
	require.NoError(t, err)
	_, err = locker.Lock(t.Context(), "name")
	require.ErrorIs(t, err, redlock.ErrTaken, "MaxWait(0)")
	require.NoError(t, attached.Unlock(t.Context()))

	lock = take(t, locker, "name", redlock.TokenSource(source))
	require.Equal(t, "b", lock.Token(), "without the Locker's Metadata")
	require.NoError(t, lock.Unlock(t.Context()))
	_, err = locker.TryLock(t.Context(), "name", redlock.TokenSource(source), redlock.Metadata("text"))
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

	_, err := locker.TryLock(t.Context(), "other", redlock.AutoExtend(), redlock.TTL(long+time.Second))
	require.ErrorContains(t, err, "MaxHold", "a default that does not fit the call")
	lock := take(t, locker, "other", redlock.AutoExtend(), redlock.TTL(long+time.Second), redlock.MaxHold(redlock.NoLimit))
	require.NoError(t, lock.Unlock(t.Context()))

	c.doAll("CONFIG", "SET", "maxmemory", "1")
	locker = c.locker(redlock.MaxOutage(0))
	_, err = locker.Lock(t.Context(), "third")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = locker.Lock(ctx, "third", redlock.MaxOutage(redlock.NoLimit))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestNew_RefusesDefaultsThatNoLockCouldHave(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string][]redlock.Option{
		"Grace(6s): must be":                       {redlock.Grace(6 * time.Second)},
		"Grace(-1ns)":                              {redlock.Grace(-1)},
		"MaxHold(1s): below the TTL":               {redlock.MaxHold(time.Second)},
		"MaxHold(0s): below the TTL":               {redlock.MaxHold(0)},
		"MaxWait(-1ns)":                            {redlock.MaxWait(-1)},
		"MaxOutage(-1ns)":                          {redlock.MaxOutage(-1)},
		`Metadata("a|b")`:                          {redlock.Metadata("a|b")},
		"leave something":                          {redlock.WithDrift(0.6, 0), redlock.Grace(4 * time.Second)},
		"must be at most a quarter of the TTL, 4s": {redlock.TTL(4 * time.Second), redlock.WithLocalHandoff(2 * time.Second)},
	} {
		_, err := redlock.New(untouched(t), opts...)
		require.ErrorIs(t, err, redlock.ErrInvalid, want)
		require.ErrorContains(t, err, want)
	}
}

func TestTokenSource_IsThatOfOneLock(t *testing.T) {
	t.Parallel()
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
	holder := take(t, c.locker(), "name")
	_, err := c.locker().Lock(briefly(t), "name", redlock.TokenSource(func() (string, error) { return "same", nil }))
	require.ErrorIs(t, err, redlock.ErrInvalid)
	require.ErrorContains(t, err, `TokenSource: the token "same" was that of the round before`)
	require.NoError(t, holder.Unlock(t.Context()))
}

func TestTokenSource_RefusesATokenThatNodesOrLogsCouldMisread(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"", "a|1", "line\n", string(make([]byte, 513))} {
		_, err := lockerOver(t, untouched(t)).TryLock(t.Context(), "name", redlock.TokenSource(func() (string, error) { return token, nil }))
		require.ErrorIs(t, err, redlock.ErrInvalid, "%q", token)
	}
}

// Somebody else may know a token that did not come from here: its lock is not passed on, and nobody is passed another's.
func TestTokenSource_ItsLockIsNotPassedOn(t *testing.T) {
	t.Parallel()
	c := onMini(t, 3)
	locker, seen := c.waiting(c.nodes(), redlock.WithLocalHandoff(time.Second))
	own := redlock.TokenSource((&tokens{}).next)
	for _, row := range [][2]redlock.LockOption{{own, redlock.TokenSource(nil)}, {redlock.TokenSource(nil), own}} {
		holder := waits(t, locker, "name", row[0])
		waiter := queue(t, t.Context(), locker, "name", row[1])
		locker.Drain()
		before := len(seen.verdictsOn("acquire"))
		require.NoError(t, holder.Unlock(t.Context()))
		lock := won(t, waiter)
		locker.Drain()
		require.Greater(t, len(seen.verdictsOn("acquire")), before)
		require.NoError(t, lock.Unlock(t.Context()))
	}
}
