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

// releaseOracle asks what every way in which the open votes can still come would lead
// to, and tells once they all agree.
type releaseOracle struct{ answers }

func (o *releaseOracle) clone() oracle { c := *o; return &c }

func (o *releaseOracle) expect(e event) quorum.Effects {
	fits := e.what == aStop || o.hear(e)
	if !fits || o.outcome != quorum.Undecided {
		return quorum.Effects{}
	}
	switch ends := o.ends(o.count(quorum.Yes), o.count(quorum.No), o.count(quorum.Pending)); {
	case e.what == aStop:
		o.outcome = quorum.NoQuorum
	case len(ends) == 1:
		for o.outcome = range ends {
		}
	}
	return quorum.Effects{Outcome: o.outcome}
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
	fresh = func() machine {
		return quorum.NewRelease(n, func(node int) bool { return slices.Contains(reached, node) })
	}
	o := &releaseOracle{answers{n: n}}
	for node := range n {
		if !slices.Contains(reached, node) {
			o.said[node] = quorum.No
		}
	}
	return match{machine: fresh(), oracle: o}, fresh
}

func everywhere(int) bool { return true }

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

func walkRelease(t *testing.T, n int, letters []quorum.Vote, thorough bool) {
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

func TestReleaseTellsItsOutcomeAtTheEarliestMomentThatItIsCertain(t *testing.T) {
	for n := 1; n <= 7; n++ {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			t.Parallel()
			letters := votes
			if n > 5 { // a release knows one kind of failure
				letters = []quorum.Vote{quorum.Yes, quorum.No, quorum.Lost}
			}
			walkRelease(t, n, letters, false)
		})
	}
}

func TestReleaseTellsOnceWheneverTheCallerGivesUp(t *testing.T) {
	for n := 1; n <= 4; n++ {
		walkRelease(t, n, votes, true)
	}
}

func TestReleaseFollowsTheProtocolThroughRandomSchedules(t *testing.T) {
	eachRandomSchedule(t, func(t *testing.T, n int, random *rand.Rand) {
		sets := reachedSets(n)
		reached := sets[random.IntN(len(sets))]
		m, _ := releaseMatch(n, reached)
		s := newSchedule(n, random, deadline.Add(time.Hour)) // no deadline: whoever lets go of it does
		s.run(t, &m, reached)
		m.over(t)
		require.Empty(t, m.released)
		if m.outcome == quorum.Done {
			require.GreaterOrEqual(t, len(s.yes), majorityOf(n), "servers that let go of it, after %v", m.history)
		}
	})
}

func TestReleaseAsksOnlyTheNodesThatTheAcquireMayHaveReached(t *testing.T) {
	r := quorum.NewRelease(5, func(node int) bool { return node != 1 && node != 3 })
	for node, want := range []quorum.Vote{quorum.Pending, quorum.No, quorum.Pending, quorum.No, quorum.Pending} {
		require.Equal(t, want, r.Said(node))
	}
	require.Empty(t, describe(r.Asked(instant(start))))
}
