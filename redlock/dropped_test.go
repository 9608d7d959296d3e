package redlock_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

// noted returns the lines about dropped handles when there is one about the name last.
func noted(t *testing.T, log *logBuffer, last string) (names []string) {
	t.Helper()
	const message = "a lock is renewed that nobody can unlock, as its handle was dropped"
	eventually(t, func() bool {
		runtime.GC()
		names = names[:0]
		for _, line := range waitsOf(t, log, message, 0) {
			names = append(names, line["name"].(string))
		}
		return strings.Contains(strings.Join(names, " "), last)
	}, "a line about %s", last)
	return names
}

// The danger: a program that forgets to unlock a renewed lock, so that nobody gets it again, and nothing says why.
func TestLogger_ReportsAHandleThatIsDroppedWhileItsLockIsRenewed(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.mayLeave()
		log := &logBuffer{}
		locker := c.logsTo(log, slog.LevelWarn)
		renewed := redlock.RenewFor(redlock.NoLimit)
		for name, take := range map[string]func(name string) error{
			"tried":  func(name string) error { return errOf(locker.TryLock(t.Context(), name, renewed)) },
			"locked": func(name string) error { return errOf(locker.Lock(t.Context(), name, renewed)) },
			"joint": func(name string) error {
				return errOf(locker.LockAll(t.Context(), []string{name, name + "-2"}, renewed))
			},
			"attached": func(name string) error {
				token := must(must(locker.TryLock(t.Context(), name))(t).Detach(t.Context()))(t)
				return errOf(locker.Attach(t.Context(), name, token, renewed))
			},
		} {
			require.NoError(t, take(name), name)
			noted(t, log, name)
			require.ErrorIs(t, errOf(c.locker().TryLock(t.Context(), name)), redlock.ErrTaken, "it is still held")
		}
	})
}

// Each of these may be meant: the last drop is not.
func TestLogger_ReportsNoHandleThatMayBeMeant(t *testing.T) {
	t.Parallel()
	c, log := onReal(t, 3).mayLeave(), &logBuffer{}
	locker, closed := c.logsTo(log, slog.LevelWarn), c.logsTo(log, slog.LevelWarn)
	renewed := redlock.RenewFor(redlock.NoLimit)
	take := func(locker *redlock.Locker, name string, opts ...redlock.LockOption) *redlock.Lock {
		return must(locker.TryLock(t.Context(), name, opts...))(t)
	}
	kept := take(locker, "kept", renewed)
	take(locker, "not renewed")
	_ = take(locker, "done", renewed).Done()
	_, cancel := take(locker, "context", renewed).Context(t.Context())
	defer cancel()
	unlock(t, take(locker, "unlocked", renewed))
	must(take(locker, "detached", renewed).Detach(t.Context()))(t)
	take(closed, "closed", renewed)
	require.NoError(t, closed.Close())
	require.NoError(t, locker.Do(t.Context(), "function", func(_ context.Context, _ *redlock.Lock) error { return nil }))
	take(locker, "dropped", renewed)
	require.Equal(t, []string{"dropped"}, noted(t, log, "dropped"))
	unlock(t, kept)
}
