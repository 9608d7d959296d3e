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

// acquireOracle knows the words of the protocol: won at the majority-th yes if validity
// is left; lost once no majority can come, and then the release goes to every node but
// those to which nothing was sent; the loss is told when its reason is certain and
// every node that answered has confirmed its release.
type acquireOracle struct {
	answers
	lost     bool
	late     bool
	released [mostNodes]bool
}

func (o *acquireOracle) clone() oracle { c := *o; return &c }

func (o *acquireOracle) expect(e event) quorum.Effects {
	var effects quorum.Effects
	switch e.what {
	case aRelease:
		o.released[e.node] = true
	case aVote:
		if !o.hear(e) || o.outcome != quorum.Undecided {
			return effects
		}
		enough := o.count(quorum.Yes) == majorityOf(o.n)
		switch {
		case o.lost:
		case enough && e.at.Before(deadline):
			o.outcome = quorum.Done
			return quorum.Effects{Outcome: quorum.Done}
		case enough || o.best() < majorityOf(o.n):
			o.lost, o.late = true, enough
			effects = quorum.Effects{Release: o.nodesBut(quorum.Unsent), Settling: true}
		}
	case aStop:
		if o.outcome != quorum.Undecided {
			return effects
		}
		if !o.lost {
			effects.Release = o.nodesBut(quorum.Unsent)
		}
	}
	if o.outcome == quorum.Undecided && (e.what == aStop || o.lost && o.certain() && o.confirmed()) {
		o.outcome = o.reason()
		o.lost = true
		effects.Settling = false
		effects.Outcome = o.outcome
	}
	return effects
}

// best is how many nodes have said yes if all that are still to answer do.
func (o *acquireOracle) best() int { return o.count(quorum.Yes, quorum.Pending) }

// certain says that the votes to come cannot change the reason.
func (o *acquireOracle) certain() bool {
	atLeast := o.count(quorum.Yes, quorum.No)
	atMost := o.count(quorum.Yes, quorum.No, quorum.Pending)
	return o.late || atLeast >= majorityOf(o.n) || atMost < majorityOf(o.n)
}

func (o *acquireOracle) confirmed() bool {
	for node, vote := range o.said[:o.n] {
		answered := vote == quorum.Yes || vote == quorum.No || vote == quorum.Refused
		if answered && !o.released[node] {
			return false
		}
	}
	return true
}

// reason is Denied where a majority answered and none can say yes.
func (o *acquireOracle) reason() quorum.Outcome {
	switch {
	case o.late:
		return quorum.TooLate
	case o.count(quorum.Yes, quorum.No) >= majorityOf(o.n) && o.best() < majorityOf(o.n):
		return quorum.Denied
	default:
		return quorum.NoQuorum
	}
}

func newAcquireMatch(n int) match {
	return match{machine: newAcquire(n, granted), oracle: &acquireOracle{answers: answers{n: n}}}
}

func walkAcquire(t *testing.T, nodes []int, letters []quorum.Vote, at func(int) time.Time, thorough bool) {
	n := len(nodes)
	w := walk{
		t: t, nodes: nodes, votes: letters, at: at, thorough: thorough,
		fresh: func() machine { return newAcquire(n, granted) },
		end: func(m *match) {
			for node := range n {
				m.play(t, event{what: aRelease, node: node})
			}
			m.over(t)
			m.silent(t,
				event{what: aStop, at: at(n)},
				event{what: aVote, at: at(n), node: 0, vote: quorum.Yes},
				event{what: aRelease, node: 0})
			cleanedUp(t, n, m)
		},
	}
	w.from(newAcquireMatch(n), 0)
}

// cleanedUp checks that a lost round has sent one release to each node that may hold
// the key, and a won one none.
func cleanedUp(t *testing.T, n int, m *match) {
	for node := range n {
		sent, want := 0, 1
		for _, to := range m.released {
			if to == node {
				sent++
			}
		}
		switch {
		case m.outcome == quorum.Done:
			want = 0
		case m.machine.Said(node) == quorum.Unsent:
			want = min(sent, 1) // needless, unless it was not known yet
		}
		if sent != want {
			require.Equal(t, want, sent, "releases sent to node %d after %v", node, m.history)
		}
	}
}

func TestAcquireDecidesEveryVectorOfVotesAsTheProtocolSays(t *testing.T) {
	for n := 1; n <= mostNodes; n++ {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			t.Parallel()
			letters := votes
			if n > 7 { // millions of vectors; a refusal differs from a loss in that its clean-up is waited for, and 7 nodes show that
				letters = []quorum.Vote{quorum.Yes, quorum.No, quorum.Lost, quorum.Unsent}
			}
			walkAcquire(t, indexOrder(n), letters, always(inTime), false)
		})
	}
}

func TestAcquireNeitherWinsLateNorTellsTwiceWheneverTheClockRunsOutOrTheCallerGivesUp(t *testing.T) {
	for n := 1; n <= 5; n++ {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			t.Parallel()
			for step := range n + 1 {
				walkAcquire(t, indexOrder(n), votes, lateFrom(step, deadline), true)
			}
		})
	}
}

func TestAcquireDoesNotMindWhichNodesVoteFirst(t *testing.T) {
	for _, order := range orders(indexOrder(4)) {
		walkAcquire(t, order, votes, always(inTime), false)
	}
}

// orders lists the permutations of nodes.
func orders(nodes []int) [][]int {
	if len(nodes) == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for i, first := range nodes {
		for _, rest := range orders(slices.Delete(slices.Clone(nodes), i, i+1)) {
			all = append(all, append([]int{first}, rest...))
		}
	}
	return all
}

// Every schedule of three nodes: votes in every order, the confirmations of the
// releases in every order among themselves and among the votes still to come, and
// giving up at every moment.
func TestAcquireTellsALossOnceWhateverTheOrderOfVotesAndReleases(t *testing.T) {
	for n := 1; n <= 3; n++ {
		var walk func(m match, voted, released []bool, sent []int)
		walk = func(m match, voted, released []bool, sent []int) {
			stopped := m.again(newAcquire(n, granted))
			stopped.play(t, event{what: aStop, at: inTime})
			stopped.over(t)

			branch := func(e event, done []bool) {
				next := m.again(newAcquire(n, granted))
				effects := next.play(t, e)
				done[e.node] = true
				walk(next, voted, released, append(slices.Clip(sent), effects.Release...))
				done[e.node] = false
			}
			quiet := true
			for node := range n {
				if !voted[node] {
					quiet = false
					for _, vote := range votes {
						branch(event{what: aVote, at: inTime, node: node, vote: vote}, voted)
					}
				}
				if slices.Contains(sent, node) && !released[node] {
					quiet = false
					branch(event{what: aRelease, node: node}, released)
				}
			}
			if quiet {
				m.over(t)
			}
		}
		walk(newAcquireMatch(n), make([]bool, n), make([]bool, n), nil)
	}
}

func TestAcquireFollowsTheProtocolThroughRandomSchedules(t *testing.T) {
	eachRandomSchedule(t, func(t *testing.T, n int, random *rand.Rand) {
		m := newAcquireMatch(n)
		s := newSchedule(n, random, deadline)
		s.run(t, &m, indexOrder(n))
		for _, node := range random.Perm(n) {
			m.play(t, event{what: aRelease, node: node})
		}
		m.over(t)
		cleanedUp(t, n, &m)
		if m.outcome == quorum.Done {
			require.GreaterOrEqual(t, len(s.yes), majorityOf(n), "servers that said yes in time, after %v", m.history)
		}
	})
}

func TestAcquireRemembersWhatEachNodeSaid(t *testing.T) {
	a := newAcquire(6, granted)
	for node := range 6 {
		require.Equal(t, quorum.Pending, a.Said(node))
		require.True(t, a.Reached(node), "a node may be reached until it is known that it was not")
	}
	for node, vote := range votes {
		a.Vote(instant(inTime), node, vote, "")
		require.Equal(t, vote, a.Said(node))
		require.Equal(t, vote != quorum.Unsent, a.Reached(node))
	}
	require.Equal(t, quorum.Pending, a.Said(5))
}

// newAcquire begins a round whose acquire is on its way to every node.
func newAcquire(n int, grant quorum.Grant) *quorum.Acquire {
	a := quorum.NewAcquire(n, grant)
	a.Asked(instant(start))
	return a
}

// Trap 3: a release that reaches a node before its acquire leaves the key there.
func TestARoundIsNotLostBeforeItsAcquireHasGoneOutToEveryNode(t *testing.T) {
	a := quorum.NewAcquire(5, granted)
	for node := range 3 {
		require.Empty(t, describe(a.Vote(instant(inTime), node, quorum.Unsent, "")))
	}
	require.Empty(t, describe(a.Vote(instant(inTime), 3, quorum.Yes, "")))
	require.Equal(t, "release 3 4, settling", describe(a.Asked(instant(inTime))))
	require.Empty(t, describe(a.Vote(instant(inTime), 4, quorum.Lost, "")))
	require.Equal(t, "no quorum", describe(a.Released(3)))
}

func TestARoundMayBeWonBeforeItsAcquireHasGoneOutToEveryNode(t *testing.T) {
	a := quorum.NewAcquire(3, granted)
	require.Empty(t, describe(a.Vote(instant(inTime), 0, quorum.Yes, "")))
	require.Equal(t, "done", describe(a.Vote(instant(inTime), 1, quorum.Yes, "")))
	require.Empty(t, describe(a.Asked(instant(inTime))))
	require.Empty(t, describe(a.Stop(instant(inTime))))
}

func TestAMajorityThatIsLateIsLostWhenTheAcquireHasGoneOutToEveryNode(t *testing.T) {
	a := quorum.NewAcquire(3, granted)
	require.Empty(t, describe(a.Vote(instant(deadline), 0, quorum.Yes, "")))
	require.Empty(t, describe(a.Vote(instant(deadline), 1, quorum.Yes, "")))
	require.Equal(t, "release 0 1 2, settling", describe(a.Asked(instant(deadline))))
}
