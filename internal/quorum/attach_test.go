package quorum_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// observation is what a node shows to one who attaches.
type observation struct {
	node   int
	vote   quorum.Answer
	ttl    time.Duration
	server string
}

func TestAttach_TakesUpWhatAMajorityHolds(t *testing.T) {
	const s = time.Second
	for name, tt := range map[string]struct {
		nodes        int
		observations []observation
		outcomes     []string // after each
		kept         time.Duration
	}{
		"for the least TTL of the majority": {
			5, []observation{{2, quorum.Yes, 9 * s, ""}, {0, quorum.No, s, ""}, {4, quorum.Yes, 7 * s, ""}, {1, quorum.Yes, 8 * s, ""}, {3, quorum.Yes, s, ""}},
			[]string{"", "", "", "done", ""}, 7 * s,
		},
		"on the first node too": {1, []observation{{0, quorum.Yes, 8 * s, ""}}, []string{"done"}, 8 * s},
		"the last of them included": {
			3, []observation{{0, quorum.Yes, 9 * s, ""}, {1, quorum.Yes, 7 * s, ""}}, []string{"", "done"}, 7 * s,
		},
		"not with what a majority does not hold": {
			3, []observation{{0, quorum.Yes, 9 * s, ""}, {1, quorum.No, 0, ""}, {2, quorum.No, 0, ""}}, []string{"", "", "denied"}, 0,
		},
		"not if too few answer": {
			3, []observation{{0, quorum.Yes, 9 * s, ""}, {1, quorum.Unknown, 0, ""}, {2, quorum.Refused, 0, ""}}, []string{"", "", "no quorum"}, 0,
		},
		"not if no validity is left": { // the time is midway, 6 s after the start
			3, []observation{{0, quorum.Yes, 9 * s, ""}, {1, quorum.Yes, 6 * s, ""}, {2, quorum.Yes, 9 * s, ""}}, []string{"", "too late", ""}, 0,
		},
		"nor if it is used up by the drift": {1, []observation{{0, quorum.Yes, 6*s + 50*time.Millisecond, ""}}, []string{"too late"}, 0},
		"one server under two names is one": {
			3, []observation{{0, quorum.Yes, 9 * s, "a"}, {1, quorum.Yes, s, "a"}, {2, quorum.Yes, 8 * s, "b"}}, []string{"", "", "done"}, 8 * s,
		},
		"a node answers once": {
			3, []observation{{0, quorum.Yes, 9 * s, ""}, {0, quorum.Yes, s, ""}, {2, quorum.Yes, 8 * s, ""}}, []string{"", "", "done"}, 8 * s,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := quorum.NewAttach(tt.nodes, quorum.Grant{Start: start, Drift: granted.Drift})
			reported := false
			for i, l := range tt.observations {
				got := describe(a.Observed(instant(midway), l.node, l.vote, 0, l.ttl, l.server))
				require.Equal(t, tt.outcomes[i], got, "observation %d", i+1)
				reported = reported || got != ""
			}
			require.True(t, reported)
			require.Empty(t, describe(a.Stop(instant(midway))), "reported once")
			if tt.kept == 0 {
				return
			}
			lease := a.Lease(time.Minute)
			require.Equal(t, start.Add(tt.kept), lease.Kept(), "counted from before the first observation")
			require.Equal(t, quorum.Grant{Start: start, TTL: tt.kept, Drift: granted.Drift}.Deadline(), lease.Deadline())
			require.True(t, lease.Reached(0), "nobody knows what its acquire has reached")
			require.Equal(t, time.Minute, lease.Longest())
			require.Equal(t, 1, lease.Holds())
		})
	}
}

func TestAttach_HasNoQuorumIfItIsGivenUp(t *testing.T) {
	a := quorum.NewAttach(1, quorum.Grant{Start: start, Drift: granted.Drift})
	require.Equal(t, "no quorum", describe(a.Stop(instant(midway))))
	require.Empty(t, describe(a.Observed(instant(midway), 0, quorum.Yes, 0, time.Minute, "")))
	require.Empty(t, describe(a.Stop(instant(midway))))
}

func TestAttach_LeaseKnowsTheLongestTTLEvenIfMoreIsLeft(t *testing.T) {
	a := quorum.NewAttach(1, quorum.Grant{Start: start, Drift: granted.Drift})
	require.Equal(t, "done", describe(a.Observed(instant(midway), 0, quorum.Yes, 0, time.Hour, "")))
	lease := a.Lease(time.Minute)
	require.Equal(t, time.Hour, lease.Longest())
}
