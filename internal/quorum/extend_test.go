package quorum_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// extendOracle knows the protocol: confirmed by a majority before the old
// deadline and before the new one, or failed. Nothing is sent behind it.
type extendOracle struct {
	answers
	old, new time.Time
}

func (o *extendOracle) clone() oracle { c := *o; return &c }

func (o *extendOracle) expect(e event) quorum.Actions {
	over := !e.at.Before(o.old)
	fits := e.what == aStop || o.note(e)
	if !fits || o.outcome != quorum.Undecided {
		return quorum.Actions{}
	}
	yes, no, open := o.count(quorum.Yes), o.count(quorum.No, quorum.Recreated), o.count(quorum.Pending)
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
		return quorum.Actions{}
	}
	return quorum.Actions{Outcome: o.outcome}
}

// The deadlines of an extension, and the instants before and at each.
var (
	longer  = quorum.Grant{Start: start.Add(5 * time.Second), TTL: granted.TTL, Drift: granted.Drift}
	shorter = quorum.Grant{Start: start.Add(5 * time.Second), TTL: time.Second, Drift: granted.Drift}
	usedUp  = start.Add(5*time.Second + 988*time.Millisecond) // the deadline of shorter
)

var extendVotes = append(slices.Clone(votes), quorum.Recreated)

// extendMatch begins an extension of a lock over n nodes.
func extendMatch(n int, grant quorum.Grant) (m match, fresh func() machine) {
	fresh = func() machine { return new(quorum.Extend).Begin(quorum.NewLease(n, granted), grant) }
	o := &extendOracle{answers: answers{n: n}, old: deadline, new: usedUp}
	if grant != shorter {
		o.new = deadline.Add(time.Hour)
	}
	return match{machine: fresh(), oracle: o}, fresh
}

func walkExtend(t *testing.T, n int, grant quorum.Grant, letters []quorum.Answer, at func(int) time.Time, thorough bool) {
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

func TestExtend_DecidesEveryVectorOfVotesAsTheProtocolDoes(t *testing.T) {
	for n := 1; n <= mostNodes; n++ {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			t.Parallel()
			letters := extendVotes
			if n > 5 { // the failures differ in their clean-up alone, and so do the two kinds of no
				letters = []quorum.Answer{quorum.Yes, quorum.No, quorum.Unknown}
			}
			walkExtend(t, n, longer, letters, always(inTime), false)
		})
	}
}

func TestExtend_NeverSucceedsPastTheOldDeadline(t *testing.T) {
	for n := 1; n <= 4; n++ {
		for step := range n + 1 {
			walkExtend(t, n, longer, extendVotes, lateFrom(step, deadline), true)
		}
	}
}

func TestExtend_NeverSucceedsPastANewDeadlineBeforeTheOldOne(t *testing.T) {
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

// A TTL can be used up before the old deadline.
func TestExtend_IsTooLateIfOnlyTheNewDeadlineHasPassed(t *testing.T) {
	grant := quorum.Grant{Start: start.Add(4900 * time.Millisecond), TTL: 5 * time.Second, Drift: granted.Drift}
	now := start.Add(9850 * time.Millisecond)
	require.True(t, now.Before(deadline))
	require.False(t, now.Before(grant.Deadline()))

	lease := quorum.NewLease(5, granted)
	e := new(quorum.Extend).Begin(lease, grant)
	require.Empty(t, describe(e.Vote(instant(now), 0, quorum.No, "")))
	require.Empty(t, describe(e.Vote(instant(now), 1, quorum.Yes, "")))
	require.Empty(t, describe(e.Vote(instant(now), 2, quorum.Yes, "")))
	require.Equal(t, "too late", describe(e.Vote(instant(now), 3, quorum.Yes, "")))
	require.Equal(t, deadline, lease.Deadline())
}

// A failed extension is not taken back: nothing that could shorten a TTL is ever sent. What counts for the next
// extension is what the nodes answer to that one.
func TestExtend_FailureChangesNothingForTheNext(t *testing.T) {
	again := quorum.Grant{Start: longer.Start.Add(time.Second), TTL: granted.TTL, Drift: granted.Drift}
	lease := quorum.NewLease(3, granted)
	first := new(quorum.Extend).Begin(lease, longer)
	require.Empty(t, describe(first.Vote(instant(longer.Start), 0, quorum.Yes, "")))
	require.Empty(t, describe(first.Vote(instant(longer.Start), 1, quorum.Unknown, "")))
	require.Equal(t, "no quorum", describe(first.Vote(instant(longer.Start), 2, quorum.Unknown, "")))
	require.Equal(t, deadline, lease.Deadline())

	second := new(quorum.Extend).Begin(lease, again)
	require.Empty(t, describe(second.Vote(instant(again.Start), 1, quorum.Yes, "")), "the yes to the first does not count")
	require.Equal(t, "done", describe(second.Vote(instant(again.Start), 0, quorum.Yes, "")))
	require.Equal(t, again.Deadline(), lease.Deadline())
}

func TestExtend_ChangesNothingIfTheLeaseIsOver(t *testing.T) {
	for how, want := range map[quorum.Ending]string{quorum.Released: "too late", quorum.Lost: "denied", quorum.Expired: "too late"} {
		lease := quorum.NewLease(1, granted)
		e := new(quorum.Extend).Begin(lease, longer)
		lease.End(longer.Start, how)
		require.Equal(t, want, describe(e.Vote(instant(longer.Start), 0, quorum.Yes, "")))
		require.Equal(t, how, lease.At(longer.Start))
		require.Equal(t, deadline, lease.Deadline())
	}
}

func TestExtend_Scenarios(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes int
		steps []step
	}{
		"a majority is enough": {nodes: 3, steps: []step{
			{"2 yes", ""},
			{"0 yes", "done"},
			{"1 lost", ""},
		}},
		"a lost reply confirms nothing": {nodes: 3, steps: []step{
			{"0 lost", ""},
			{"1 yes", ""},
			{"2 refused", "no quorum"},
		}},
		"a partial extension that the caller gives up is not taken back": {nodes: 5, steps: []step{
			{"0 yes", ""},
			{"1 no", ""},
			{"2 unsent", ""},
			{"stop", "no quorum"},
			{"3 yes", ""},
			{"4 lost", ""},
		}},
		"the old deadline counts and not the new": {nodes: 3, steps: []step{
			{"0 yes", ""},
			{"1 yes late", "too late"},
		}},
		"a failure of one node is none": {nodes: 3, steps: []step{
			{"0 lost", ""},
			{"1 yes", ""},
			{"2 yes", "done"},
		}},
		"keys that are gone are reported apart from nodes that are, though it takes a wait": {nodes: 3, steps: []step{
			{"0 lost", ""},
			{"1 no", ""},
			{"2 no", "denied"},
		}},
		"a majority of the nodes that can be reached is none": {nodes: 5, steps: []step{
			{"0 unsent", ""},
			{"1 yes", ""},
			{"2 lost", ""},
			{"3 lost", "no quorum"},
			{"4 yes", ""},
		}},
		"half of an even number confirms nothing": {nodes: 4, steps: []step{
			{"0 yes", ""},
			{"1 yes", ""},
			{"2 lost", ""},
			{"3 lost", "no quorum"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, new(quorum.Extend).Begin(quorum.NewLease(tt.nodes, granted), longer), tt.steps)
		})
	}
}

// An extension may give the key to nodes that do not have it, but neither does it live by them, nor the next one.
func TestExtend_RecreatedKeyCountsWhenTheNextExtensionIsConfirmed(t *testing.T) {
	lease := quorum.NewLease(3, granted)
	play(t, new(quorum.Extend).Begin(lease, longer), []step{
		{"0 yes", ""},
		{"1 recreated", ""},
		{"2 yes", "done"},
	})
	require.Equal(t, longer.Deadline(), lease.Deadline())

	next := quorum.Grant{Start: midway, TTL: 10 * time.Second, Drift: granted.Drift}
	play(t, new(quorum.Extend).Begin(lease, next), []step{
		{"1 yes", ""},
		{"0 yes", ""},
		{"2 yes", "done"},
	})
	play(t, new(quorum.Extend).Begin(lease, next), []step{
		{"0 lost", ""},
		{"1 yes", ""},
		{"2 yes", "done"},
	})
}

func TestExtend_ScenariosOfRecreatedKeys(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes int
		steps []step
		want  quorum.Ending
	}{
		"a majority that had forgotten the key has lost it": {nodes: 3, want: quorum.Lost, steps: []step{
			{"0 recreated", ""},
			{"1 yes", ""},
			{"2 recreated", "denied"},
		}},
		"together with those that answer no": {nodes: 3, want: quorum.Lost, steps: []step{
			{"0 recreated", ""},
			{"1 no", "denied"},
			{"2 yes", ""},
		}},
		"a failure takes nothing back": {nodes: 3, steps: []step{
			{"0 recreated", ""},
			{"1 lost", ""},
			{"2 yes", "no quorum"},
		}},
		"also if nobody waits for the answers any more": {nodes: 3, want: quorum.Lost, steps: []step{
			{"1 unsent", ""},
			{"stop", "no quorum"},
			{"0 recreated", ""},
			{"2 recreated", ""},
		}},
		"one server under two names is one": {nodes: 3, steps: []step{
			{"0 recreated by a", ""},
			{"1 recreated by a", ""},
			{"2 yes by b", "no quorum"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			lease := quorum.NewLease(tt.nodes, granted)
			play(t, new(quorum.Extend).Begin(lease, longer), tt.steps)
			require.Equal(t, tt.want, lease.At(midway))
			require.Equal(t, tt.want == quorum.Lost, lease.Leftovers(midway), "what was given has to be taken back")
		})
	}
}
