package promredlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/promredlock"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// quorumError is what the nodes answer.
func quorumError(op string, reason error, nodes ...error) *redlock.QuorumError {
	e := &redlock.QuorumError{Op: op, Name: "name", Need: 2, Reason: reason}
	for _, err := range nodes {
		e.Nodes = append(e.Nodes, redlock.NodeError{Addr: "a:1", Err: err})
	}
	return e
}

func TestOutcome_SaysWhichOfSeveralErrorsWins(t *testing.T) {
	dial := &nodeerr.ConnectError{Err: &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}}
	taken, noQuorum := quorumError("acquire", redlock.ErrTaken), quorumError("acquire", redlock.ErrNoQuorum, dial)
	unanswered := quorumError("acquire", errors.Join(redlock.ErrNoQuorum, nodeerr.ErrUnanswered), nodeerr.ErrUnanswered)
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"acquired", nil, "acquired"},
		{"taken", taken, "taken"},
		{"taken by data of another program", quorumError("acquire", redlock.ErrForeign), "foreign"},
		{"taken beside data of another program", quorumError("acquire", redlock.ErrTaken, nodeerr.ErrForeign), "taken"},
		{"no quorum", noQuorum, "no_quorum"},
		{"unanswered until MaxWait ended", unanswered, "unanswered"},
		{"no quorum, of which one node was not waited for", quorumError("acquire", redlock.ErrNoQuorum, dial, nodeerr.ErrUnanswered), "no_quorum"},
		{"too late and unanswered", fmt.Errorf("%w: %w", context.DeadlineExceeded, unanswered), "canceled"},
		{"canceled and taken", fmt.Errorf("%w: %w", context.Canceled, taken), "canceled"},
		{"taken until MaxWait ended, while a dial was too late", quorumError("acquire", redlock.ErrTaken, dial), "taken"},
		{"too late and taken", fmt.Errorf("%w: %w", context.DeadlineExceeded, taken), "canceled"},
		{"too late and no quorum", fmt.Errorf("%w (%w): %w", context.DeadlineExceeded, errors.New("cause"), noQuorum), "canceled"},
		{"deadlock", redlock.ErrDeadlock, "deadlock"},
		{"closed", redlock.ErrClosed, "closed"},
		{"closed and canceled", errors.Join(context.Canceled, redlock.ErrClosed), "closed"},
		{"attached too late", quorumError("attach", redlock.ErrNotHeld), "not_held"},
		{"something else", errors.New("no name"), "error"},
	} {
		c := promredlock.New()
		c.Observe(event.Acquire{Kind: "exclusive", Op: event.OpAcquire, Try: true, Err: test.err})
		compare(t, c, fmt.Sprintf(`
			acquire_duration_seconds_sum{call="try_lock",kind="exclusive",outcome=%[1]q} 0
			acquire_duration_seconds_count{call="try_lock",kind="exclusive",outcome=%[1]q} 1
		`, test.want), "acquire_duration_seconds")
	}
	for want, err := range map[string]error{"unanswered": unanswered, "no_quorum": noQuorum, "taken": taken} {
		c := promredlock.New()
		c.Observe(protocol.Round{Op: event.OpAcquire, Err: err})
		require.Contains(t, samples(t, c), `redlock_round_duration_seconds_count{operation="acquire",outcome="`+want+`"} 1`)
	}
	for _, test := range []struct {
		err            error
		extend, unlock string
	}{
		{nil, "done", "released"},
		{fmt.Errorf("%w: %w", context.Canceled, quorumError("extend", redlock.ErrGone)), "gone", "not_held"},
		{errors.Join(context.Canceled, redlock.ErrExpired), "expired", "not_held"},
		{fmt.Errorf("%w: %w", context.Canceled, noQuorum), "canceled", "canceled"},
		{fmt.Errorf("%w: %w", context.Canceled, quorumError("unlock", redlock.ErrNotHeld)), "canceled", "not_held"},
		{noQuorum, "no_quorum", "no_quorum"},
		{redlock.ErrReleased, "error", "not_held"},
	} {
		c := promredlock.New()
		c.Observe(event.Extend{Err: test.err})
		c.Observe(event.Unlock{Err: test.err})
		compare(t, c, fmt.Sprintf(`
			extend_duration_seconds_sum{outcome=%[1]q,renewal="false"} 0
			extend_duration_seconds_count{outcome=%[1]q,renewal="false"} 1
			unlock_duration_seconds_sum{outcome=%[2]q} 0
			unlock_duration_seconds_count{outcome=%[2]q} 1
		`, test.extend, test.unlock), "extend_duration_seconds", "unlock_duration_seconds")
	}
}

// A busy lock is a normal answer for a caller who has limited the wait, and no wait that was given up.
func TestOutcome_OfAWaitThatMaxWaitEndsIsTaken(t *testing.T) {
	t.Parallel()
	c, refused := promredlock.New(), make(chan struct{}, 1)
	observer := event.ObserverFunc(func(e event.Event) {
		c.Observe(e)
		if v, ok := e.(protocol.Round); ok && v.Err != nil {
			select {
			case refused <- struct{}{}:
			default:
			}
		}
	})
	locker, err := redlock.Open(testredis.URLs(testredis.Real(t, 3)), redlock.WithObserver(observer, c.Groups()...), pool.WithTimeout(patience))
	require.NoError(t, err)
	lock, err := locker.TryLock(t.Context(), "name", redlock.TTL(patience))
	require.NoError(t, err)
	first := make(chan error, 1)
	go func() {
		_, err := locker.Lock(t.Context(), "name", redlock.TTL(patience)) // those behind it ask no node
		first <- err
	}()
	<-refused

	_, err = locker.Lock(t.Context(), "name", redlock.MaxWait(time.Millisecond))
	require.ErrorIs(t, err, redlock.ErrTaken)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = locker.Lock(ctx, "name", redlock.MaxWait(patience))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, lock.Unlock(t.Context()))
	require.NoError(t, <-first)
	require.NoError(t, locker.Close())
	var counts []string
	for _, sample := range samples(t, c) {
		if strings.HasPrefix(sample, `redlock_acquire_duration_seconds_count{call="lock"`) {
			counts = append(counts, sample)
		}
	}
	require.ElementsMatch(t, []string{
		`redlock_acquire_duration_seconds_count{call="lock",kind="exclusive",outcome="acquired"} 1`,
		`redlock_acquire_duration_seconds_count{call="lock",kind="exclusive",outcome="canceled"} 1`,
		`redlock_acquire_duration_seconds_count{call="lock",kind="exclusive",outcome="taken"} 1`,
	}, counts)
}
