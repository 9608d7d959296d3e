package quorum_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

func TestAcquire_Scenarios(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes int
		story string
	}{
		"a majority is enough, and what comes later changes nothing": {
			5, "3 yes; 0 no; 4 yes; 1 yes → done; 2 no",
		},
		"a loss goes to every node at once, and a straggler is waited for once it has answered": {
			5, "0 no; 1 no; 2 no → release 3 4, observe 0 1 2, await clean-up; 1 released; 3 yes; 0 released; 2 released; 3 released → denied; 4 yes",
		},
		"a majority that comes too late is none": {
			3, "0 yes; 1 yes late → release 0 1 2, await clean-up; 0 released; 2 yes late; 1 released; 2 released → too late",
		},
		"a lost reply is not a no, so the round lacks a quorum and others need not hold the key": {
			3, "0 unknown; 1 yes; 2 unknown → release 0 1 2, await clean-up; 1 released → no quorum",
		},
		"a lost reply is cleaned up, an acquire that never went out is not": {
			3, "0 unsent; 1 unknown → release 1 2, no quorum; 2 unsent",
		},
		"a majority of the nodes that can be reached is none": {
			5, "0 unsent; 1 unsent; 2 yes; 3 yes; 4 unknown → release 2 3 4, await clean-up; 2 released; 3 released → no quorum",
		},
		"one server under two names is one": {
			3, "0 yes by a; 2 yes by a; 1 no by b → release 0 2, observe 1, await clean-up; 0 released; 1 released; 2 released → denied",
		},
		"the release of a second name of a server is awaited": {
			3, "0 yes by a; 1 yes by a; 2 unknown → release 0 1 2, await clean-up; 0 released; 1 released → no quorum",
		},
		"a split vote is lost for both sides": {
			4, "0 yes; 1 yes; 2 no; 3 no → release 0 1, observe 2 3, await clean-up; 0 released; 1 released; 2 released; 3 released → denied",
		},
		"the caller gives up while all is open": {
			3, "0 yes; stop → release 0 1 2, no quorum; 1 yes; 2 yes; 0 released",
		},
		"the caller gives up the wait for the clean-up, which goes on": {
			3, "0 no; 1 no → release 2, observe 0 1, await clean-up; 0 released; stop → denied; 1 released",
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, new(quorum.Acquire).Begin(tt.nodes, granted), tt.story)
		})
	}
}

func TestAcquire_MayHaveBeenSplit(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes int
		story string
		split bool
	}{
		"others have won the rest": {3, "0 yes; 1 no; 2 no → release 0, observe 1 2, await clean-up; stop → denied", true},
		"and a minority fails":     {5, "0 unsent; 1 yes; 2 no; 3 unknown → release 1 3 4, observe 2, await clean-up; 4 no; stop → denied", true},
		"too few have answered":    {5, "0 unsent; 1 yes; 2 no; 3 unknown → release 1 3 4, observe 2, await clean-up; 4 refused; stop → no quorum", false},
		"no node has granted it":   {3, "0 no; 1 no → release 2, observe 0 1, await clean-up; 2 no; stop → denied", false},
		"no node has refused it":   {3, "0 yes; 1 unknown; 2 unknown → release 0 1 2, await clean-up; stop → no quorum", false},
		"a majority came too late": {3, "0 no; 1 yes; 2 yes late → release 1 2, observe 0, await clean-up; stop → too late", false},
		"the caller gave it up":    {5, "0 yes; 1 no; 2 no; stop → release 0 3 4, no quorum", false},
		"it is won":                {3, "0 no; 1 yes; 2 yes → done", false},
	} {
		t.Run(name, func(t *testing.T) {
			a := new(quorum.Acquire).Begin(tt.nodes, granted)
			play(t, a, tt.story)
			require.Equal(t, tt.split, a.Split())
		})
	}
}

// Not an instant goes by.
func TestAcquire_GetsNoLockForATTLWithinTheDrift(t *testing.T) {
	for _, ttl := range []time.Duration{0, time.Millisecond} {
		grant := quorum.Grant{Start: midway, TTL: ttl, Drift: granted.Drift}
		play(t, new(quorum.Acquire).Begin(1, grant), "0 yes → release 0, await clean-up; 0 released → too late")
	}
}

func TestAcquire_IsLostOnceIfNodesHaveNotTakenIt(t *testing.T) {
	a := new(quorum.Acquire).Begin(3, granted)
	require.Equal(t, "release 2, no quorum", describe(a.Unsent(instant(start), []int{0, 1})), "not on those that come next")
}
