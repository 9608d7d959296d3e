package quorum_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

func TestMajority_TwoAlwaysMeet(t *testing.T) {
	for i, want := range []int{1, 2, 2, 3, 3, 4, 4, 5, 5} {
		n := i + 1
		require.Equal(t, want, quorum.Majority(n), "of %d", n)
		require.Greater(t, 2*quorum.Majority(n), n, "two of %d have a node in common", n)
		require.LessOrEqual(t, 2*(quorum.Majority(n)-1), n, "one less of %d would not", n)
	}
}

func TestGrant_DeadlineIsTheStartPlusTheTTLLessTheDriftRoundedUp(t *testing.T) {
	published := quorum.Drift{Factor: 0.01, Floor: 2 * time.Millisecond}
	for name, tt := range map[string]struct {
		drift quorum.Drift
		ttl   time.Duration
		want  time.Duration // of the drift
	}{
		"the published formula, 10 s": {published, 10 * time.Second, 102 * time.Millisecond},
		"the published formula, 30 s": {published, 30 * time.Second, 302 * time.Millisecond},
		"more than the TTL":           {published, time.Millisecond, 2010 * time.Microsecond},
		"no allowance":                {quorum.Drift{}, 10 * time.Second, 0},
		"a floor alone":               {quorum.Drift{Floor: 7}, 10 * time.Second, 7},
		"a share alone":               {quorum.Drift{Factor: 0.25}, 10 * time.Second, 2500 * time.Millisecond},
		"the whole TTL":               {quorum.Drift{Factor: 1}, 10 * time.Second, 10 * time.Second},
		"less than a nanosecond":      {quorum.Drift{Factor: 0.01}, 1, 1},
		"just a nanosecond":           {quorum.Drift{Factor: 0.01}, 100, 1},
		"a nanosecond and a bit":      {quorum.Drift{Factor: 0.01}, 101, 2},
		"half nanoseconds":            {quorum.Drift{Factor: 0.5, Floor: 3}, 5, 6},
		"a year":                      {quorum.Drift{Factor: 0.5}, 365 * 24 * time.Hour, 365 * 12 * time.Hour},
		"no TTL":                      {quorum.Drift{Factor: 0.01, Floor: 2}, 0, 2},
	} {
		require.Equal(t, tt.want, tt.drift.Of(tt.ttl), name)
		grant := quorum.Grant{Start: start, TTL: tt.ttl, Drift: tt.drift}
		require.Equal(t, start.Add(tt.ttl-tt.want), grant.Deadline(), name)
	}

	now := time.Now() // with a monotonic reading
	require.Contains(t, quorum.Grant{Start: now, TTL: time.Second}.Deadline().String(), "m=", "the monotonic reading is kept")
}
