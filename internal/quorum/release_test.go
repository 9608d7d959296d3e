package quorum_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

func TestRelease_Scenarios(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes int
		story string
	}{
		"a majority that let go of it is enough":                            {3, "1 yes; 2 yes → done; 0 no"},
		"it has no deadline":                                                {1, "0 yes late → done"},
		"a lost reply leaves it unknown":                                    {3, "0 yes; 1 unknown; 2 unknown → no quorum"},
		"a lock that was not ours any more is not given back":               {3, "0 no; 1 yes; 2 no → denied"},
		"half of an even number is neither":                                 {4, "0 yes; 1 yes; 2 unknown; 3 unknown → no quorum"},
		"of four nodes two that do not hold it are a majority that did not": {4, "0 yes; 1 no; 2 no → denied"},
		"the caller gives up":                                               {3, "0 yes; stop → no quorum; 1 yes"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, new(quorum.Release).Begin(quorum.NewLease(tt.nodes, granted), midway), tt.story)
		})
	}
}

func TestRelease_AsksOnlyNodesThatMayHoldTheLock(t *testing.T) {
	lease := wonWith(5, 0, 2, 4)
	r := new(quorum.Release).Begin(lease, midway)
	for node, want := range []quorum.Answer{quorum.Pending, quorum.No, quorum.Pending, quorum.No, quorum.Pending} {
		require.Equal(t, want, r.Answer(node))
		require.Equal(t, want == quorum.Pending, lease.MayHold(node))
	}
	new(quorum.Extend).Begin(lease, longer)
	for node := range 5 {
		require.True(t, lease.MayHold(node), "by the extension")
	}
}

func TestRelease_AKeyThatAnExtensionHasGivenBackWasNotHeld(t *testing.T) {
	for name, tt := range map[string]struct {
		late []quorum.Answer // to the extension, before those to the release
		want quorum.Outcome
	}{
		"a majority":               {[]quorum.Answer{quorum.Yes, quorum.Recreated, quorum.Recreated}, quorum.Denied},
		"a minority":               {[]quorum.Answer{quorum.Yes, quorum.Yes, quorum.Recreated}, quorum.Done},
		"a minority, the rest not": {[]quorum.Answer{quorum.Yes, quorum.Refused, quorum.Recreated}, quorum.Done},
	} {
		lease := quorum.NewLease(3, granted)
		e := new(quorum.Extend).Begin(lease, longer)
		voteAll(e, start, quorum.Unknown, quorum.Unknown, quorum.Unknown)
		lease.End(midway, quorum.Released)
		r := new(quorum.Release).Begin(lease, midway)
		var outcome quorum.Outcome
		for node, answer := range tt.late {
			e.Late(instant(midway), node, answer, "")
			outcome = max(outcome, r.Vote(instant(midway), node, quorum.Yes, "").Outcome)
		}
		require.Equal(t, tt.want, outcome, name)
	}
}

// An extension that was late may have set again what was lost, once the lease does not say any more that nobody else can have had it.
// During the grace the keys cannot have lapsed.
func TestRelease_ALockThatIsOverWasNotHeldIfAnExtensionMayHaveSetItAgain(t *testing.T) {
	for _, tt := range []struct {
		how             quorum.Ending
		after           time.Duration // the deadline, which comes before a grace of 3 s
		plain, extended quorum.Outcome
	}{
		{quorum.Released, 3 * time.Second, quorum.Done, quorum.Done},
		{quorum.Expired, 3*time.Second - 1, quorum.Done, quorum.Done},
		{quorum.Expired, 3 * time.Second, quorum.Done, quorum.Denied},
		{quorum.Gone, 3 * time.Second, quorum.Denied, quorum.Denied},
	} {
		for extended, want := range map[bool]quorum.Outcome{false: tt.plain, true: tt.extended} {
			lease := quorum.NewLease(1, withGrace)
			if extended {
				new(quorum.Extend).Begin(lease, withGrace)
			}
			lease.End(midway, tt.how)
			now := lease.Deadline().Add(tt.after)
			outcome := new(quorum.Release).Begin(lease, now).Vote(instant(now), 0, quorum.Yes, "").Outcome
			require.Equal(t, want, outcome, "%+v, extended: %v", tt, extended)
		}
	}
}
