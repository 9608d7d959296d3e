package redlock_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

const refusedRelease = "the release was refused and is not sent again; the key stays until its TTL"

// The danger: the key stays, and a program is told that all is well, or that its release will be sent again.
func TestDo_ReturnsThatItsReleaseWasRefused(t *testing.T) {
	t.Parallel()
	c, log := onReal(t, 3).mayLeave(), &logBuffer{}
	locker := c.logsTo(log, slog.LevelInfo)
	c.proves(locker, "")
	c.doFirst(2, "ACL", "SETUSER", "default", "-eval", "-evalsha")
	nothing := func(context.Context, *redlock.Lock) error { return nil }
	for i, call := range []func(context.Context, string, func(context.Context, *redlock.Lock) error, ...redlock.LockOption) error{locker.Do, locker.TryDo} {
		err := call(t.Context(), []string{"do", "try"}[i], nothing)
		refusal := c.refused(err, redlock.ErrNoQuorum, not{redlock.ErrNotRun}, not{redlock.ErrNotHeld})
		require.Equal(t, "unlock", refusal.Op)
		require.Equal(t, "NOPERM", as[*nodeerr.ServerError](t, refusal.Nodes[0].Err).Code)
		require.ErrorContains(t, err, refusedRelease)
	}
	lock := take(t, locker, "name")
	require.ErrorContains(t, c.refused(lock.Unlock(t.Context()), redlock.ErrNoQuorum), refusedRelease)
	require.Equal(t, []string{
		"WARN a release was refused and is not sent again there; the key stays until its TTL do",
		"WARN a release was refused and is not sent again there; the key stays until its TTL try",
		"WARN a release was refused and is not sent again there; the key stays until its TTL name",
	}, lines(t, log, 3))

	c.do(0, "ACL", "SETUSER", "default", "+eval", "+evalsha")
	require.NoError(t, locker.TryDo(t.Context(), "minority", nothing), "a majority has let go of it")
	require.Positive(t, c.ttl(1, "minority"))
	require.NoError(t, locker.Close())
	require.Len(t, lines(t, log, 3), 3)
}

func TestUnlock_SaysOfServersThatAreAwayThatTheReleaseIsSentAgain(t *testing.T) {
	t.Parallel()
	c, log, seen := onReal(t, 3), &logBuffer{}, &recorder{}
	nodes := c.nodes(pool.WithTimeout(brief), pool.WithMaxOverdue(long))
	locker := lockerOver(t, nodes, redlock.WithObserver(seen), redlock.WithLogger(slog.New(slog.NewJSONHandler(log, nil))))
	lock := seen.takeOnAll(t, locker, 3)
	freeze(c.processes[1:]...)
	err := lock.Unlock(t.Context())
	require.NotContains(t, c.refused(err, redlock.ErrNoQuorum).Error(), refusedRelease)
	require.Equal(t, []string{"INFO too few nodes confirmed a release, which is sent again when they are back " + lock.Name()}, lines(t, log, 1))

	thaw(c.processes[1:]...)
	c.eventuallyEmpty()
}
