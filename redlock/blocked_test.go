package redlock_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock/clocktest"
	"github.com/quorumlock/quorumlock/redlock"
)

// The danger: a handler that answers "busy, try later" for ever, and nothing says why.
func TestTryLock_LogsWhatBlocksTheNameOnceAMinute(t *testing.T) {
	t.Parallel()
	for what, put := range map[string]struct {
		command []any
		line    string
	}{
		"a list":                {[]any{"RPUSH", "app:name", "secret"}, "WARN data of another program is in the way of a lock name"},
		"a long string":         {[]any{"SET", "app:name", strings.Repeat("secret", 200), "EX", 3600}, "WARN data of another program is in the way of a lock name"},
		"a key without a TTL":   {[]any{"SET", "app:name", "secret"}, "WARN a key without a TTL is in the way of a lock name"},
		"an empty key for ever": {[]any{"SET", "app:name", ""}, "WARN a key without a TTL is in the way of a lock name"},
	} {
		for name, opts := range map[string][]redlock.Option{"": nil, ", fenced": {redlock.WithFencing()}} {
			t.Run(what+name, func(t *testing.T) {
				t.Parallel()
				c, log, fake := onReal(t, 3), &logBuffer{}, clocktest.New()
				c.doAll(put.command[0].(string), put.command[1:]...)
				locker := c.logsTo(log, slog.LevelInfo, append(opts, prefixed, redlock.WithClock(fake))...)
				for minute := range 3 {
					for range 5 {
						_, err := locker.TryLock(t.Context(), "name")
						require.True(t, errors.Is(err, redlock.ErrTaken) != errors.Is(err, redlock.ErrForeign), "%v", err)
						fake.Advance(11 * time.Second)
					}
					require.Equal(t, put.line, lines(t, log, minute+1)[minute])
					fake.Advance(5 * time.Second)
				}
				require.NoError(t, locker.Close())
				require.Len(t, records(t, log), 3)
				for _, r := range records(t, log) {
					require.Contains(t, r["error"], c.servers[0].Addr())
				}
				require.NotContains(t, log.String(), "secret")
			})
		}
	}
}

// A program whose calls wait for a moment only has no line about a long wait.
func TestTryLock_LogsOnceAMinuteThatTooFewNodesGrantLocks(t *testing.T) {
	t.Parallel()
	c, log, fake := onReal(t, 3), &logBuffer{}, clocktest.New()
	locker := c.logsTo(log, slog.LevelWarn, redlock.WithClock(fake))
	require.NoError(t, take(t, locker, "name").Unlock(t.Context()))
	c.doFirst(2, "CONFIG", "SET", "min-replicas-to-write", 1)
	for minute := range 2 {
		for i := range 5 {
			require.ErrorIs(t, errOf(locker.TryLock(t.Context(), fmt.Sprint("name-", i))), redlock.ErrNoQuorum)
		}
		require.Equal(t, "WARN too few nodes grant locks name-0", lines(t, log, minute+1)[minute])
		fake.Advance(time.Minute)
	}
	require.NoError(t, locker.Close())
	require.Len(t, records(t, log), 2)
}

func TestTryLock_LogsNothingIfTheOtherNodesAreEnough(t *testing.T) {
	t.Parallel()
	c, log := onReal(t, 5), &logBuffer{}
	c.do(0, "RPUSH", "app:name", "data")
	c.do(1, "SET", "app:name", "somebody")
	locker := c.logsTo(log, slog.LevelWarn, prefixed)
	lock := take(t, locker, "name")
	require.ErrorIs(t, errOf(c.logsTo(log, slog.LevelWarn, prefixed).TryLock(t.Context(), "name")), redlock.ErrTaken)
	require.NoError(t, lock.Unlock(t.Context()))
	c.do(2, "SET", "app:name", "somebody else") // together they are in the way of a majority
	require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrTaken)
	require.Equal(t, []string{"WARN a key without a TTL is in the way of a lock name"}, lines(t, log, 1))
}

// A wait that began before the data came ends, and Lock does not even ask the nodes in a round of its own if they announce the data.
func TestLock_EndsAndLogsItWhenSomebodysDataTakesThePlaceOfAHolder(t *testing.T) {
	t.Parallel()
	c, log := onReal(t, 3), &logBuffer{}
	c.foreign("app:name", long)
	logger := redlock.WithLogger(slog.New(slog.NewJSONHandler(log, nil)))
	locker, waiter := c.asleep("name", prefixed, noPolls, logger)
	second := lockBeside(t.Context(), locker, "name")
	c.settled()
	c.put(2, "a string of 1025 bytes")
	for _, h := range []<-chan held{waiter, second} {
		require.ErrorIs(t, receive(t, h, "the end of Lock").err, redlock.ErrForeign)
	}
	require.NoError(t, locker.Close())
	require.Equal(t, []string{"WARN data of another program is in the way of a lock name"}, lines(t, log, 1))
}

// A program that makes up names must neither fill the memory nor the log.
func TestTryLock_RemembersABoundedNumberOfBlockedNames(t *testing.T) {
	t.Parallel()
	c, log, fake := onReal(t, 1), &logBuffer{}, clocktest.New()
	locker := c.logsTo(log, slog.LevelWarn, prefixed, redlock.WithClock(fake))
	try := func(from, to int) {
		for i := from; i < to; i++ {
			name := fmt.Sprint("name-", i)
			c.do(0, "RPUSH", "app:"+name, "data")
			require.ErrorIs(t, errOf(locker.TryLock(t.Context(), name)), redlock.ErrForeign)
			require.LessOrEqual(t, redlock.BlockedNames(locker), 1024)
		}
	}
	try(0, 1000)
	fake.Advance(30 * time.Second)
	try(0, 1100)
	require.Equal(t, 1024, redlock.BlockedNames(locker))
	fake.Advance(30 * time.Second)
	try(1100, 1200) // the first 1,000 are forgotten
	require.Equal(t, 124, redlock.BlockedNames(locker))
	try(0, 1)
	require.NoError(t, locker.Close())
	require.Len(t, records(t, log), 1024+100+1)
}

func TestTryLock_RemembersNoNamesIfNobodyReadsTheLog(t *testing.T) {
	t.Parallel()
	c, log, seen := onReal(t, 1), &logBuffer{}, &recorder{}
	c.do(0, "RPUSH", "name", "data")
	for _, locker := range []*redlock.Locker{c.locker(redlock.WithObserver(seen)), c.logsTo(log, slog.LevelError)} {
		require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrForeign)
		require.Zero(t, redlock.BlockedNames(locker))
		require.NoError(t, locker.Close())
	}
	require.Empty(t, log.String())
}
