package quorum_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// extendOracle knows the words of the protocol: confirmed by a majority before the old
// deadline and before the new one, or failed. Where the old deadline stands, every node
// that may have made its TTL longer is sent the old one again.
type extendOracle struct {
	answers
	old, new time.Time
}

func (o *extendOracle) clone() oracle { c := *o; return &c }

func (o *extendOracle) expect(e event) quorum.Effects {
	over := !e.at.Before(o.old)
	fits := e.what == aStop || o.hear(e)
	if !fits || o.outcome != quorum.Undecided {
		return quorum.Effects{}
	}
	yes, no, open := o.count(quorum.Yes), o.count(quorum.No, quorum.Planted), o.count(quorum.Pending)
	majority := majorityOf(o.n)
	canHaveBeenOurs := o.n-no >= majority
	switch {
	case over:
		o.outcome = quorum.TooLate
	case e.what == aStop:
		o.outcome = quorum.NoQuorum
	case yes == majority && e.at.Before(o.new):
		o.outcome = quorum.Done
	case yes == majority:
		o.outcome = quorum.TooLate
	case !canHaveBeenOurs:
		o.outcome = quorum.Denied
	case yes+open < majority && o.n-no-open >= majority: // neither can come any more
		o.outcome = quorum.NoQuorum
	default:
		return quorum.Effects{}
	}
	effects := quorum.Effects{Outcome: o.outcome}
	if !over && o.outcome != quorum.Done && o.outcome != quorum.Denied {
		effects.Restore = o.nodesBut(quorum.No, quorum.Unsent)
	}
	return effects
}

// The deadlines of an extension, and the instants before and at each.
var (
	longer  = quorum.Grant{Start: start.Add(5 * time.Second), TTL: granted.TTL, Drift: granted.Drift}
	shorter = quorum.Grant{Start: start.Add(5 * time.Second), TTL: time.Second, Drift: granted.Drift}
	usedUp  = start.Add(5*time.Second + 988*time.Millisecond) // the deadline of shorter
)

var extendVotes = append(slices.Clone(votes), quorum.Planted)

// extendMatch begins an extension of a lock over n nodes.
func extendMatch(n int, grant quorum.Grant) (m match, fresh func() machine) {
	fresh = func() machine { return newExtend(quorum.NewLease(n, granted), grant) }
	o := &extendOracle{answers: answers{n: n}, old: deadline, new: usedUp}
	if grant != shorter {
		o.new = deadline.Add(time.Hour)
	}
	return match{machine: fresh(), oracle: o}, fresh
}

func walkExtend(t *testing.T, n int, grant quorum.Grant, letters []quorum.Vote, at func(int) time.Time, thorough bool) {
	m, fresh := extendMatch(n, grant)
	w := walk{
		t: t, nodes: indexOrder(n), votes: letters, fresh: fresh, at: at, thorough: thorough,
		end: func(m *match) {
			m.over(t)
			m.silent(t, event{what: aStop, at: at(n)})
		},
	}
	w.from(m, 0)
}

func TestExtendDecidesEveryVectorOfVotesAsTheProtocolSays(t *testing.T) {
	for n := 1; n <= mostNodes; n++ {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			t.Parallel()
			letters := extendVotes
			if n > 6 { // the failures differ in their clean-up alone, and so do the two kinds of no
				letters = []quorum.Vote{quorum.Yes, quorum.No, quorum.Lost}
			}
			walkExtend(t, n, longer, letters, always(inTime), false)
		})
	}
}

func TestExtendNeverSucceedsPastTheOldDeadlineWheneverItComesOrTheCallerGivesUp(t *testing.T) {
	for n := 1; n <= 4; n++ {
		for step := range n + 1 {
			walkExtend(t, n, longer, extendVotes, lateFrom(step, deadline), true)
		}
	}
}

func TestExtendNeverSucceedsPastANewDeadlineThatComesBeforeTheOldOne(t *testing.T) {
	for n := 1; n <= 4; n++ {
		for step := range n + 1 {
			walkExtend(t, n, shorter, extendVotes, func(now int) time.Time {
				if now < step {
					return usedUp.Add(-1)
				}
				return usedUp
			}, true)
		}
	}
}

func TestExtendFollowsTheProtocolThroughRandomSchedules(t *testing.T) {
	eachRandomSchedule(t, func(t *testing.T, n int, random *rand.Rand) {
		m, _ := extendMatch(n, longer)
		s := newSchedule(n, random, deadline)
		s.run(t, &m, indexOrder(n))
		m.over(t)
		require.Empty(t, m.released, "the release is the lease's affair")
		if m.outcome == quorum.Done {
			require.GreaterOrEqual(t, len(s.yes), majorityOf(n), "servers that said yes in time, after %v", m.history)
		}
	})
}

// Trap 8. A TTL can be used up before the old deadline and yet have made the keys last
// longer: it counts from when a node obeys, not from when the holder asked.
func TestExtendGivesTheOldTTLBackWhereOnlyTheNewOneIsUsedUp(t *testing.T) {
	grant := quorum.Grant{Start: start.Add(4900 * time.Millisecond), TTL: 5 * time.Second, Drift: granted.Drift}
	now := start.Add(9850 * time.Millisecond)
	require.True(t, now.Before(deadline))
	require.False(t, now.Before(grant.Deadline()))

	e := newExtend(quorum.NewLease(5, granted), grant)
	require.Empty(t, describe(e.Vote(instant(now), 0, quorum.No, "")))
	require.Empty(t, describe(e.Vote(instant(now), 1, quorum.Yes, "")))
	require.Empty(t, describe(e.Vote(instant(now), 2, quorum.Yes, "")))
	require.Equal(t, "restore 1 2 3 4, too late", describe(e.Vote(instant(now), 3, quorum.Yes, "")))
}

func TestExtendGivesBackWhatIsLeftOfTheOldTTL(t *testing.T) {
	lease := quorum.NewLease(3, granted)
	e := newExtend(lease, longer)
	now := longer.Start.Add(time.Second)
	e.Vote(instant(now), 0, quorum.Yes, "")
	require.Equal(t, 4*time.Second, e.Stop(instant(now)).TTL, "10 s that were granted 6 s ago")
}

// The old TTL is the one command that does harm when it arrives late: behind the next
// extension it would cut that short, under a holder who was told that it is done.
func TestANodeThatMayStillGetTheOldTTLDoesNotCountForTheNextExtension(t *testing.T) {
	again := quorum.Grant{Start: longer.Start.Add(time.Second), TTL: granted.TTL, Drift: granted.Drift}
	for name, tt := range map[string]struct {
		answer quorum.Vote // to the old TTL
		want   string
	}{
		"it answered":         {quorum.Yes, "done"},
		"the key was gone":    {quorum.No, "done"},
		"it refused":          {quorum.Refused, "done"},
		"it was never sent":   {quorum.Unsent, "done"},
		"nobody knows":        {quorum.Lost, "restore 0 1, no quorum"},
		"it has not answered": {quorum.Pending, "restore 0 1, no quorum"},
	} {
		t.Run(name, func(t *testing.T) {
			lease := quorum.NewLease(3, granted)
			first := newExtend(lease, longer)
			require.Empty(t, describe(first.Vote(instant(longer.Start), 0, quorum.Yes, "")))
			require.Empty(t, describe(first.Vote(instant(longer.Start), 1, quorum.Unsent, "")))
			require.Equal(t, "restore 0, no quorum", describe(first.Vote(instant(longer.Start), 2, quorum.Unsent, "")))
			if tt.answer != quorum.Pending {
				first.Restored(0, tt.answer)
			}
			second := newExtend(lease, again)
			require.Empty(t, describe(second.Vote(instant(again.Start), 0, quorum.Yes, "")))
			effects := second.Vote(instant(again.Start), 1, quorum.Yes, "")
			if tt.want != "done" {
				require.Empty(t, describe(effects))
				effects = second.Vote(instant(again.Start), 2, quorum.Unsent, "")
			}
			require.Equal(t, tt.want, describe(effects))
		})
	}
}

func TestAnExtensionOfALeaseThatIsOverChangesNothing(t *testing.T) {
	for _, how := range []quorum.Ending{quorum.Released, quorum.Gone, quorum.Expired} {
		lease := quorum.NewLease(1, granted)
		e := newExtend(lease, longer)
		lease.End(longer.Start, how)
		require.Equal(t, "too late", describe(e.Vote(instant(longer.Start), 0, quorum.Yes, "")))
		require.Equal(t, how, lease.At(longer.Start))
		require.Equal(t, deadline, lease.Deadline())
	}
}

// newExtend begins an extension that is on its way to every node.
func newExtend(lease *quorum.Lease, grant quorum.Grant) *quorum.Extend {
	e := quorum.NewExtend(lease, grant)
	e.Asked(instant(grant.Start))
	return e
}

// Trap 8: an old TTL that reaches a node before the longer one does not undo it.
func TestAnExtensionDoesNotFailBeforeItHasGoneOutToEveryNode(t *testing.T) {
	e := quorum.NewExtend(quorum.NewLease(3, granted), longer)
	require.Empty(t, describe(e.Vote(instant(longer.Start), 0, quorum.Unsent, "")))
	require.Empty(t, describe(e.Vote(instant(longer.Start), 1, quorum.Unsent, "")))
	require.Equal(t, "restore 2, no quorum", describe(e.Asked(instant(longer.Start))))
}

func TestAnExtensionMayBeDoneBeforeItHasGoneOutToEveryNode(t *testing.T) {
	lease := quorum.NewLease(3, granted)
	e := quorum.NewExtend(lease, longer)
	require.Empty(t, describe(e.Vote(instant(longer.Start), 0, quorum.Yes, "")))
	require.Equal(t, "done", describe(e.Vote(instant(longer.Start), 1, quorum.Yes, "")))
	require.Empty(t, describe(e.Asked(instant(longer.Start))))
	require.Equal(t, longer.Deadline(), lease.Deadline())
}
