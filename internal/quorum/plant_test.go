package quorum_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Trap 7: an extension may give the key to nodes that do not have it, but it does not live by them.
func TestANodeThatIsGivenTheKeyAgainCountsForTheNextExtensionOnly(t *testing.T) {
	lease := quorum.NewLease(3, granted)
	play(t, newExtend(lease, longer), []step{
		{"0 yes", ""},
		{"1 planted", ""},
		{"2 yes", "done"},
	})
	require.Equal(t, longer.Deadline(), lease.Deadline())

	next := quorum.Grant{Start: storyTime, TTL: 10 * time.Second, Drift: granted.Drift}
	play(t, newExtend(lease, next), []step{
		{"0 lost", ""},
		{"1 yes", ""},
		{"2 yes", "done"},
	})
}

func TestScenariosOfKeysThatAreGivenAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes int
		story []step
		want  quorum.Ending
	}{
		"a majority that had forgotten the key has lost it": {nodes: 3, want: quorum.Gone, story: []step{
			{"0 planted", ""},
			{"1 yes", ""},
			{"2 planted", "denied"},
		}},
		"together with those that say no": {nodes: 3, want: quorum.Gone, story: []step{
			{"0 planted", ""},
			{"1 no", "denied"},
			{"2 yes", ""},
		}},
		"trap 8: what was given is given the old TTL when it fails": {nodes: 3, story: []step{
			{"0 planted", ""},
			{"1 lost", ""},
			{"2 yes", "restore 0 1 2, no quorum"},
		}},
		"trap 8: also where it came in after the end": {nodes: 3, story: []step{
			{"1 unsent", ""},
			{"stop", "restore 0 2, no quorum"},
			{"0 planted", ""},
			{"2 planted", ""},
		}},
		"trap 19: one server under two names is one": {nodes: 3, story: []step{
			{"0 planted by a", ""},
			{"1 planted by a", ""},
			{"2 yes by b", "restore 0 1 2, no quorum"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			lease := quorum.NewLease(tt.nodes, granted)
			play(t, newExtend(lease, longer), tt.story)
			require.Equal(t, tt.want, lease.At(storyTime))
			require.Equal(t, tt.want == quorum.Gone, lease.Leftovers(), "what was given has to be taken back")
		})
	}
}

// Trap 7: a key that comes into being behind its release.
func TestNothingIsAskedForALeaseThatIsOver(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(*quorum.Lease)
		now  time.Time
		want bool
	}{
		"held":                {func(*quorum.Lease) {}, inTime, true},
		"past its deadline":   {func(*quorum.Lease) {}, deadline, false},
		"released":            {func(l *quorum.Lease) { l.End(start, quorum.Released) }, longer.Start, false},
		"gone":                {func(l *quorum.Lease) { l.End(start, quorum.Gone) }, longer.Start, false},
		"extended by another": {func(l *quorum.Lease) { extend(l, longer) }, deadline, true},
	} {
		t.Run(name, func(t *testing.T) {
			lease := quorum.NewLease(1, granted)
			e := quorum.NewExtend(lease, longer)
			tt.end(lease)
			require.Equal(t, tt.want, e.Ask(instant(tt.now)))
		})
	}
}

func TestAReleaseGoesToEveryNodeOnceAnExtensionHasBegun(t *testing.T) {
	lease := quorum.NewLease(3, granted)
	require.False(t, lease.Spread(), "no node but those that the acquire has reached")
	quorum.NewExtend(lease, longer)
	require.True(t, lease.Spread())
}
