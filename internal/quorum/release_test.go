package quorum_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// releaseOracle asks what every way in which the open votes can still come would lead
// to, and reports an outcome once they all agree.
type releaseOracle struct{ answers }

func (o *releaseOracle) clone() oracle { c := *o; return &c }

func (o *releaseOracle) expect(e event) quorum.Actions {
	fits := e.what == aStop || o.note(e)
	if !fits || o.outcome != quorum.Undecided {
		return quorum.Actions{}
	}
	switch ends := o.ends(o.count(quorum.Yes), o.count(quorum.No), o.count(quorum.Pending)); {
	case e.what == aStop:
		o.outcome = quorum.NoQuorum
	case len(ends) == 1:
		for o.outcome = range ends {
		}
	}
	return quorum.Actions{Outcome: o.outcome}
}

// ends returns the outcomes that are possible yet.
func (o *releaseOracle) ends(yes, no, open int) map[quorum.Outcome]bool {
	ends := map[quorum.Outcome]bool{}
	for moreYes := range open + 1 {
		for moreNo := range open - moreYes + 1 {
			switch {
			case yes+moreYes >= majorityOf(o.n):
				ends[quorum.Done] = true
			case o.n-no-moreNo < majorityOf(o.n):
				ends[quorum.Denied] = true
			default:
				ends[quorum.NoQuorum] = true
			}
		}
	}
	return ends
}

// releaseMatch begins the release of a lock that reached some of n nodes.
func releaseMatch(n int, reached []int) (m match, fresh func() machine) {
	fresh = func() machine { return new(quorum.Release).Begin(wonWith(n, reached...), midway) }
	o := &releaseOracle{answers{n: n}}
	for node := range n {
		if !slices.Contains(reached, node) {
			o.given[node] = quorum.No
		}
	}
	return match{machine: fresh(), oracle: o}, fresh
}

// wonWith begins the lease of an acquire that some nodes have granted, and that was not sent to the others.
func wonWith(n int, nodes ...int) *quorum.Lease {
	a := new(quorum.Acquire).Begin(n, granted)
	for node := range n {
		answer := quorum.Unsent
		if slices.Contains(nodes, node) {
			answer = quorum.Yes
		}
		a.Vote(instant(start), node, answer, "")
	}
	lease := a.Lease()
	return &lease
}

// reachedSets lists the sets of nodes that a won acquire may have reached.
func reachedSets(n int) [][]int {
	var sets [][]int
	for bits := range 1 << n {
		var set []int
		for node := range n {
			if bits&(1<<node) != 0 {
				set = append(set, node)
			}
		}
		if len(set) >= majorityOf(n) {
			sets = append(sets, set)
		}
	}
	return sets
}

func walkRelease(t *testing.T, n int, letters []quorum.Answer, thorough bool) {
	for _, reached := range reachedSets(n) {
		m, fresh := releaseMatch(n, reached)
		w := walk{
			t: t, nodes: reached, votes: letters, fresh: fresh, at: always(deadline), thorough: thorough,
			end: func(m *match) {
				m.over(t)
				m.silent(t,
					event{what: aStop, at: deadline},
					event{what: aVote, at: deadline, node: 0, vote: quorum.Yes})
			},
		}
		w.from(m, 0)
	}
}

func TestRelease_ReportsItsOutcomeAsSoonAsItIsCertain(t *testing.T) {
	for n := 1; n <= 7; n++ {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			t.Parallel()
			letters := votes
			if n > 5 { // a release knows one kind of failure
				letters = []quorum.Answer{quorum.Yes, quorum.No, quorum.Unknown}
			}
			walkRelease(t, n, letters, false)
		})
	}
}

func TestRelease_ReportsOnceWheneverTheCallerGivesUp(t *testing.T) {
	for n := 1; n <= 4; n++ {
		walkRelease(t, n, votes, true)
	}
}

func TestRelease_AsksOnlyNodesThatTheAcquireMayHaveReached(t *testing.T) {
	lease := wonWith(5, 0, 2, 4)
	r := new(quorum.Release).Begin(lease, midway)
	for node, want := range []quorum.Answer{quorum.Pending, quorum.No, quorum.Pending, quorum.No, quorum.Pending} {
		require.Equal(t, want, r.Answer(node))
		require.Equal(t, want == quorum.Pending, lease.Reached(node))
	}
	new(quorum.Extend).Begin(lease, longer)
	for node := range 5 {
		require.True(t, lease.Reached(node), "by the extension")
	}
}

func TestRelease_Scenarios(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes int
		steps []step
	}{
		"a majority that let go of it is enough": {nodes: 3, steps: []step{
			{"1 yes", ""},
			{"2 yes", "done"},
			{"0 no", ""},
		}},
		"a release has no deadline": {nodes: 1, steps: []step{
			{"0 yes late", "done"},
		}},
		"a lost reply leaves it unknown": {nodes: 3, steps: []step{
			{"0 yes", ""},
			{"1 lost", ""},
			{"2 lost", "no quorum"},
		}},
		"a lock that was not ours any more is not given back": {nodes: 3, steps: []step{
			{"0 no", ""},
			{"1 yes", ""},
			{"2 no", "denied"},
		}},
		"half of an even number is neither": {nodes: 4, steps: []step{
			{"0 yes", ""},
			{"1 yes", ""},
			{"2 lost", ""},
			{"3 lost", "no quorum"},
		}},
		"of four nodes two that do not hold it are a majority that did not": {nodes: 4, steps: []step{
			{"0 yes", ""},
			{"1 no", ""},
			{"2 no", "denied"},
		}},
		"the caller gives up": {nodes: 3, steps: []step{
			{"0 yes", ""},
			{"stop", "no quorum"},
			{"1 yes", ""},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, new(quorum.Release).Begin(quorum.NewLease(tt.nodes, granted), midway), tt.steps)
		})
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
		t.Run(name, func(t *testing.T) {
			lease := quorum.NewLease(3, granted)
			e := new(quorum.Extend).Begin(lease, longer)
			for node := range 3 {
				e.Vote(instant(start), node, quorum.Unknown, "")
			}
			lease.End(instant(midway).Now(), quorum.Released)
			r := new(quorum.Release).Begin(lease, midway)
			var outcome quorum.Outcome
			for node, answer := range tt.late {
				e.Late(instant(midway), node, answer, "")
				outcome = max(outcome, r.Vote(instant(midway), node, quorum.Yes, "").Outcome)
			}
			require.Equal(t, tt.want, outcome)
		})
	}
}

// An extension that was late may have set again what was lost, once the lease does not say any more that nobody else can have had it.
func TestRelease_ALockThatIsOverWasNotHeldIfAnExtensionMayHaveSetItAgain(t *testing.T) {
	for how, want := range map[quorum.Ending][2]quorum.Outcome{ // without an extension, and with one
		quorum.Released: {quorum.Done, quorum.Done},
		quorum.Expired:  {quorum.Done, quorum.Denied},
		quorum.Lost:     {quorum.Denied, quorum.Denied},
	} {
		for extended, want := range want {
			lease := quorum.NewLease(3, granted)
			if extended == 1 {
				new(quorum.Extend).Begin(lease, longer)
			}
			lease.End(midway, how)
			r := new(quorum.Release).Begin(lease, lease.Deadline())
			r.Vote(instant(midway), 0, quorum.Yes, "")
			require.Equal(t, want, r.Vote(instant(midway), 1, quorum.Yes, "").Outcome)
		}
	}
}

// During the grace the keys cannot have lapsed.
func TestRelease_InTheGraceIsOneInTime(t *testing.T) {
	for name, tt := range map[string]struct {
		after time.Duration
		want  quorum.Outcome
	}{
		"in the grace": {3*time.Second - 1, quorum.Done},
		"after it":     {3 * time.Second, quorum.Denied},
	} {
		t.Run(name, func(t *testing.T) {
			lease := quorum.NewLease(1, withGrace())
			extend(lease, lease.Ask(start, granted.TTL))
			now := lease.Deadline().Add(tt.after)
			require.Equal(t, quorum.Expired, lease.At(now))
			require.Equal(t, tt.want, new(quorum.Release).Begin(lease, now).Vote(instant(now), 0, quorum.Yes, "").Outcome)
		})
	}
}
