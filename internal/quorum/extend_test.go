package quorum_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

func TestExtend_Scenarios(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes int
		story string
		want  quorum.Ending
	}{
		"a majority is enough":                    {3, "2 yes; 0 yes → done; 1 unknown", quorum.NotEnded},
		"a lost reply confirms nothing":           {3, "0 unknown; 1 yes; 2 refused → no quorum", quorum.NotEnded},
		"half of an even number confirms nothing": {4, "0 yes; 1 yes; 2 unknown; 3 unknown → no quorum", quorum.NotEnded},
		"the old deadline counts and not the new": {3, "0 yes; 1 yes late → too late", quorum.Expired},
		"a partial one that the caller gives up is not taken back": {
			5, "0 yes; 1 no; 2 unsent; stop → no quorum; 3 yes; 4 unknown", quorum.NotEnded,
		},
		"keys that are gone are told from nodes that are, though it takes a wait": {
			3, "0 unknown; 1 no; 2 no → denied", quorum.Gone,
		},
		"a majority of the nodes that can be reached is none": {
			5, "0 unsent; 1 yes; 2 unknown; 3 unknown → no quorum; 4 yes", quorum.NotEnded,
		},
		"a majority that had forgotten the key has lost it": {3, "0 recreated; 1 yes; 2 recreated → denied", quorum.Gone},
		"together with nodes that answer no":                {3, "0 recreated; 1 no → denied; 2 yes", quorum.Gone},
		"also if nobody waits for the answers any more": {
			3, "1 unsent; stop → no quorum; 0 recreated; 2 recreated", quorum.Gone,
		},
		"a minority that had forgotten it is none":              {3, "0 recreated; 1 unknown; 2 yes → no quorum", quorum.NotEnded},
		"a server that had forgotten it under two names is one": {3, "0 recreated by a; 1 recreated by a; 2 yes by b → no quorum", quorum.NotEnded},
	} {
		t.Run(name, func(t *testing.T) {
			lease := quorum.NewLease(tt.nodes, granted)
			play(t, new(quorum.Extend).Begin(lease, longer), tt.story)
			require.Equal(t, tt.want == quorum.Gone, lease.Leftovers(midway), "what was given has to be taken back")
			require.Equal(t, tt.want, lease.At(midway))
		})
	}
}

// A failed extension is not taken back: nothing that could shorten a TTL is ever sent. What counts for the next
// extension is what the nodes answer to that one, the yes of a key that was set again included.
func TestExtend_OnlyItsOwnAnswersCount(t *testing.T) {
	lease := quorum.NewLease(3, granted)
	play(t, new(quorum.Extend).Begin(lease, longer), "0 yes; 1 recreated; 2 unknown → no quorum")
	require.Equal(t, deadline, lease.Deadline())

	again := quorum.Grant{Start: midway, TTL: granted.TTL, Drift: granted.Drift}
	play(t, new(quorum.Extend).Begin(lease, again), "1 yes; 0 yes; 2 yes → done")
	require.Equal(t, again.Deadline(), lease.Deadline())
	play(t, new(quorum.Extend).Begin(lease, again), "0 unknown; 1 yes; 2 yes → done")
}

func TestExtend_ChangesNothingIfTheLeaseIsOver(t *testing.T) {
	for how, want := range map[quorum.Ending]string{quorum.Released: "too late", quorum.Gone: "denied", quorum.Expired: "too late"} {
		for _, event := range []string{"0 yes", "stop"} {
			lease := quorum.NewLease(1, granted)
			e := new(quorum.Extend).Begin(lease, longer)
			lease.End(longer.Start, how)
			play(t, e, event+" → "+want)
			require.Equal(t, how, lease.At(longer.Start))
			require.Equal(t, deadline, lease.Deadline())
		}
	}
}
