package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestExitCode_OfARoundIsThatOfItsOutcome(t *testing.T) {
	var noAnswer error = &nodeerr.ConnectError{Err: nodeerr.ErrTimeout}
	for name, test := range map[string]struct {
		reason error
		nodes  []error // the others have said yes
		want   int
	}{
		"held by another":                        {redlock.ErrTaken, []error{nodeerr.ErrHeld, nodeerr.ErrHeld, nodeerr.ErrHeld}, exitTaken},
		"held by another, the rest is not known": {redlock.ErrTaken, []error{nodeerr.ErrHeld, nodeerr.ErrHeld, nodeerr.ErrHeld, noAnswer, nodeerr.ErrPending}, exitTaken},
		"one that is left over, and nodes down":  {redlock.ErrTaken, []error{nodeerr.ErrHeld, noAnswer, noAnswer}, exitUnavailable},
		"nodes down":                             {redlock.ErrNoQuorum, []error{noAnswer, noAnswer, noAnswer}, exitUnavailable},
		"nodes down, and no TTL on another":      {redlock.ErrNoQuorum, []error{noAnswer, noAnswer, nodeerr.ErrNoExpiry}, exitUnavailable},
		"data of another program":                {redlock.ErrForeign, slices.Repeat([]error{nodeerr.ErrForeign}, 5), exitUsage},
		"lost, and foreign data on one":          {redlock.ErrLost, []error{nodeerr.ErrAbsent, nodeerr.ErrAbsent, nodeerr.ErrForeign}, exitLost},
		"a server under two names":               {redlock.ErrTaken, []error{nodeerr.ErrSameServer, nodeerr.ErrHeld, nodeerr.ErrHeld}, exitUsage},
	} {
		err := &redlock.QuorumError{Op: "acquire", Name: "name", Need: 3, Reason: test.reason, Nodes: make([]redlock.NodeError, 5)}
		for i, e := range test.nodes {
			err.Nodes[i].Err = e
		}
		assert.Equal(t, test.want, exitCode(fmt.Errorf("waited: %w", err)), name)
	}
}
