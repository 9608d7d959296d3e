package promredlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/promredlock"
	"github.com/quorumlock/quorumlock/redlock"
)

// quorumError is what the nodes answer.
func quorumError(op redlock.Op, reason error, nodes ...error) *redlock.QuorumError {
	e := &redlock.QuorumError{Op: op, Name: "name", Need: 2, Reason: reason}
	for _, err := range nodes {
		e.Nodes = append(e.Nodes, redlock.NodeError{Addr: "a:1", Err: err})
	}
	return e
}

func TestOutcome_SaysWhichOfSeveralErrorsWins(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
	require.ErrorIs(t, &timeout{dial}, context.DeadlineExceeded, "a timeout of a node that looks like that of the caller")
	taken, noQuorum := quorumError(redlock.OpAcquire, redlock.ErrTaken), quorumError(redlock.OpAcquire, redlock.ErrNoQuorum, &timeout{dial})
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"acquired", nil, "acquired"},
		{"taken", taken, "taken"},
		{"taken by somebody's data", quorumError(redlock.OpAcquire, fmt.Errorf("%w: %w", redlock.ErrTaken, redlock.ErrForeign)), "taken"},
		{"no quorum", noQuorum, "no_quorum"},
		{"no quorum as a dial was too late", quorumError(redlock.OpAcquire, redlock.ErrNoQuorum, fmt.Errorf("dial: %w", context.DeadlineExceeded)), "no_quorum"},
		{"canceled and taken", fmt.Errorf("%w: %w", context.Canceled, taken), "canceled"},
		{"too late and taken", fmt.Errorf("%w: %w", context.DeadlineExceeded, taken), "canceled"},
		{"too late and no quorum", fmt.Errorf("%w (%w): %w", context.DeadlineExceeded, errors.New("cause"), noQuorum), "canceled"},
		{"deadlock", errors.Join(redlock.ErrDeadlock, redlock.ErrTaken), "deadlock"},
		{"closed", redlock.ErrClosed, "closed"},
		{"closed and canceled", errors.Join(context.Canceled, redlock.ErrClosed), "closed"},
		{"attached too late", quorumError(redlock.OpAttach, redlock.ErrNotHeld), "not_held"},
		{"something else", errors.New("no name"), "error"},
	} {
		c := promredlock.New()
		c.Observe(redlock.AcquireEvent{Op: redlock.OpAcquire, Try: true, Err: test.err})
		compare(t, c, fmt.Sprintf(`
			acquire_duration_seconds_sum{call="try_lock",outcome=%[1]q} 0
			acquire_duration_seconds_count{call="try_lock",outcome=%[1]q} 1
		`, test.want), "acquire_duration_seconds")
	}
	for _, test := range []struct {
		err            error
		extend, unlock string
	}{
		{nil, "done", "released"},
		{fmt.Errorf("%w: %w", context.Canceled, quorumError(redlock.OpExtend, redlock.ErrLost)), "lost", "canceled"},
		{errors.Join(context.Canceled, redlock.ErrExpired), "expired", "canceled"},
		{fmt.Errorf("%w: %w", context.Canceled, noQuorum), "canceled", "canceled"},
		{fmt.Errorf("%w: %w", context.Canceled, quorumError(redlock.OpUnlock, redlock.ErrNotHeld)), "canceled", "not_held"},
		{noQuorum, "no_quorum", "no_quorum"},
		{redlock.ErrReleased, "error", "error"},
	} {
		c := promredlock.New()
		c.Observe(redlock.ExtendEvent{Err: test.err})
		c.Observe(redlock.UnlockEvent{Err: test.err})
		compare(t, c, fmt.Sprintf(`
			extend_duration_seconds_sum{outcome=%[1]q,renewal="false"} 0
			extend_duration_seconds_count{outcome=%[1]q,renewal="false"} 1
			unlock_duration_seconds_sum{outcome=%[2]q} 0
			unlock_duration_seconds_count{outcome=%[2]q} 1
		`, test.extend, test.unlock), "extend_duration_seconds", "unlock_duration_seconds")
	}
}

// timeout is a failed dial as package net makes it.
type timeout struct{ *net.OpError }

func (*timeout) Is(err error) bool { return err == context.DeadlineExceeded }
