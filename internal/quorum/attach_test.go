package quorum_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// attach tells the story of an attempt to attach: what nodes show at midway, 6 s after the start, with the TTL that is left there.
func attach(t *testing.T, nodes int, story string) *quorum.Attach {
	t.Helper()
	a := quorum.NewAttach(nodes, of(start, 0))
	tell(t, story, func(event string) string {
		event, left, _ := strings.Cut(event, ", ")
		ttl, _ := time.ParseDuration(left)
		e := parse(t, event)
		if e.what == aStop {
			return describe(a.Stop(instant(midway)))
		}
		return describe(a.Observed(instant(midway), e.node, e.vote, 0, ttl, e.server))
	})
	require.Empty(t, describe(a.Stop(instant(midway))), "reported once")
	return a
}

func TestAttach_TakesUpWhatAMajorityHolds(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes int
		story string
		kept  time.Duration
	}{
		"for the least TTL of the majority":      {5, "2 yes, 9s; 0 no; 4 yes, 7s; 1 yes, 8s → done; 3 yes, 1s", 7 * time.Second},
		"on the first node too":                  {1, "0 yes, 8s → done", 8 * time.Second},
		"the last of them included":              {3, "0 yes, 9s; 1 yes, 7s → done", 7 * time.Second},
		"not with what a majority does not hold": {3, "0 yes, 9s; 1 no; 2 no → denied", 0},
		"not if too few answer":                  {3, "0 yes, 9s; 1 unknown; 2 refused → no quorum", 0},
		"not if no validity is left":             {3, "0 yes, 9s; 1 yes, 6s → too late; 2 yes, 9s", 0},
		"nor if it is used up by the drift":      {1, "0 yes, 6.05s → too late", 0},
		"one server under two names is one":      {3, "0 yes by a, 9s; 1 yes by a, 1s; 2 yes by b, 8s → done", 8 * time.Second},
		"a node answers once":                    {3, "0 yes, 9s; 0 yes, 1s; 2 yes, 8s → done", 8 * time.Second},
		"not if it is given up":                  {1, "stop → no quorum; 0 yes, 60s", 0},
	} {
		a := attach(t, tt.nodes, tt.story)
		if tt.kept == 0 {
			continue
		}
		lease := a.Lease(time.Minute)
		require.Equal(t, start.Add(tt.kept), lease.Kept(), "%s: counted from before the first observation", name)
		require.Equal(t, of(start, tt.kept).Deadline(), lease.Deadline(), name)
		require.True(t, lease.MayHold(0), "nobody knows what its acquire has reached")
		require.Equal(t, time.Minute, lease.Longest(), name)
		require.Equal(t, 1, lease.Holds(), name)
	}
	lease := attach(t, 1, "0 yes, 1h → done").Lease(time.Minute)
	require.Equal(t, time.Hour, lease.Longest(), "more is left than was known")
}
