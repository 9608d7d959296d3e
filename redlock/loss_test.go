package redlock_test

import (
	"context"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// endsOf collects the ends of locks.
type endsOf struct{ ends chan event.End }

func (e endsOf) Observe(what event.Event) {
	if end, is := what.(event.End); is {
		e.ends <- end
	}
}

// The danger: "expired" takes the place of the reason for which all renewals were refused.
func TestLock_ThatExpiresSaysWhyTheLastRenewalFailed(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		code, hint string
		command    []any
	}{
		{"READONLY", "the server is a replica", []any{"REPLICAOF", "127.0.0.1", "1"}},
		{"NOPERM", "the ACL user may not do this", []any{"ACL", "SETUSER", "default", "-pexpire"}},
		{"NOREPLICAS", "too few replicas", []any{"CONFIG", "SET", "min-replicas-to-write", "1"}},
	} {
		t.Run(row.code, func(t *testing.T) {
			t.Parallel()
			code, hint := row.code, row.hint
			c, log, fake, seen := onReal(t, 3).mayLeave(), &logBuffer{}, clocktest.New(), endsOf{make(chan event.End, 1)}
			locker := c.logsTo(log, slog.LevelWarn, redlock.WithClock(fake), redlock.WithObserver(seen))
			var cause, lost error
			err := locker.Do(t.Context(), "name", func(ctx context.Context, lock *redlock.Lock) error {
				c.eventuallyHeld("name", lock.Token())
				c.doFirst(2, row.command[0].(string), row.command[1:]...)
				turnUntil(t, fake, time.Second, func() bool { return isOver(lock.Done()) })
				receive(t, ctx.Done(), "the end of the context")
				cause, lost = context.Cause(ctx), lock.Err()
				require.ErrorIs(t, lock.Extend(t.Context(), long), redlock.ErrExpired)
				return nil
			}, redlock.TTL(time.Minute))
			require.Same(t, lost, cause)
			for _, err := range []error{err, lost, receive(t, seen.ends, "the end").Err} {
				requireIs(t, err, redlock.ErrExpired, redlock.ErrNotHeld, not{redlock.ErrNoQuorum}, not{redlock.ErrGone})
				refusal := as[*redlock.QuorumError](t, err)
				require.Equal(t, "extend", refusal.Op)
				require.ErrorIs(t, refusal, redlock.ErrNoQuorum)
				require.Equal(t, code, as[*nodeerr.ServerError](t, err).Code)
				require.Equal(t, code, as[*nodeerr.ServerError](t, refusal.Nodes[1].Err).Code)
				require.Regexp(t, `lock has expired; last renewal, [0-9.]+m?s before: [01] of 3 nodes said yes, 2 needed: .*`+hint, err.Error())
				require.NotContains(t, err.Error(), "\n")
			}
			require.NoError(t, locker.Close())
			require.Contains(t, log.String(), hint) // in a line about the lock, or about all nodes
		})
	}
}

func TestLock_ThatExpiresSaysThatTheServersHang(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, fake, seen := timed(t, c.nodes(pool.WithTimeout(brief), pool.WithMaxOverdue(long)))
	lock := seen.takeOnAll(t, locker, 3, redlock.TTL(time.Minute), redlock.RenewFor(redlock.NoLimit))
	freeze(c.processes...)
	nextAt(t, fake, renewalIn(0, time.Minute))
	eventually(t, func() bool { return len(seen.verdictsOn("extend")) == 1 }, "a renewal has failed")
	fake.Advance(lock.Remaining())
	requireIs(t, lock.Err(), redlock.ErrExpired, not{redlock.ErrNoQuorum})
	require.Contains(t, lock.Err().Error(), "lock has expired; last renewal, ")
	require.Regexp(t, regexp.MustCompile(`no answer in time|older answers are overdue`), lock.Err().Error())
	thaw(c.processes...)
}

// The last renewal has not come to an end when the lock does.
func TestLock_ThatExpiresSaysThatARenewalIsUnderWay(t *testing.T) {
	t.Parallel()
	c, fake, lock := hangingRenewal(t)
	fake.Advance(lock.Remaining())
	requireIs(t, lock.Err(), redlock.ErrExpired, nodeerr.ErrUnanswered, not{redlock.ErrNoQuorum})
	require.Equal(t, 3, strings.Count(lock.Err().Error(), "the call ended before it answered"))
	thaw(c.processes...)
	c.eventuallyEmpty()
}

func TestLock_ForgetsTheExtensionThatFailedWhenOneSucceeds(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3).mayLeave()
	locker, fake, seen := timed(t, c.nodes(pool.WithTimeout(brief), pool.WithMaxOverdue(long)))
	for _, again := range []bool{true, false} {
		lock := seen.takeOnAll(t, locker, 3)
		freeze(c.processes[1:]...)
		require.ErrorIs(t, lock.Extend(t.Context(), 2*long), redlock.ErrNoQuorum)
		thaw(c.processes[1:]...)
		if again {
			eventually(t, func() bool { return lock.Extend(t.Context(), 2*long) == nil }, "the servers are back")
		}
		fake.Advance(lock.Remaining())
		if expired := `redlock: "` + lock.Name() + `": lock has expired`; again {
			require.EqualError(t, lock.Err(), expired)
		} else {
			require.ErrorContains(t, lock.Err(), expired+"; last extension, 59m")
		}
	}
}
