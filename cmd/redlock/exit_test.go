package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestExitCode_OfARoundIsThatOfItsOutcome(t *testing.T) {
	var noAnswer error = &pool.ConnectError{Err: pool.ErrTimeout}
	for name, test := range map[string]struct {
		reason error
		nodes  []error // the others have said yes
		want   int
	}{
		"held by another":                        {redlock.ErrTaken, []error{pool.ErrHeld, pool.ErrHeld, pool.ErrHeld}, exitTaken},
		"held by another, the rest is not known": {redlock.ErrTaken, []error{pool.ErrHeld, pool.ErrHeld, pool.ErrHeld, noAnswer, redlock.ErrPending}, exitTaken},
		"one that is left over, and nodes down":  {redlock.ErrTaken, []error{pool.ErrHeld, noAnswer, noAnswer}, exitUnavailable},
		"nodes down":                             {redlock.ErrNoQuorum, []error{noAnswer, noAnswer, noAnswer}, exitUnavailable},
		"nodes down, and no TTL on another":      {redlock.ErrNoQuorum, []error{noAnswer, noAnswer, redlock.ErrNoExpiry}, exitUnavailable},
		"somebody's data":                        {fmt.Errorf("%w: %w", redlock.ErrTaken, redlock.ErrForeign), slices.Repeat([]error{redlock.ErrForeign}, 5), exitUsage},
		"lost, and somebody's data on one":       {redlock.ErrLost, []error{pool.ErrAbsent, pool.ErrAbsent, redlock.ErrForeign}, exitLost},
		"a server under two names":               {redlock.ErrTaken, []error{redlock.ErrSameServer, pool.ErrHeld, pool.ErrHeld}, exitUsage},
	} {
		err := &redlock.QuorumError{Op: redlock.OpAcquire, Name: "name", Need: 3, Reason: test.reason, Nodes: make([]redlock.NodeError, 5)}
		for i, e := range test.nodes {
			err.Nodes[i].Err = e
		}
		assert.Equal(t, test.want, exitCode(fmt.Errorf("waited: %w", err)), name)
	}
}
