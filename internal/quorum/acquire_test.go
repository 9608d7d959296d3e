package quorum_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// acquireOracle knows the protocol: won at the majority-th yes if validity
// is left; lost once no majority can come, and then the release goes to every node but
// those to which nothing was sent; the loss is reported when its reason is certain and
// every node that answered has confirmed its release.
type acquireOracle struct {
	answers
	lost     bool
	late     bool
	released [mostNodes]bool
}

func (o *acquireOracle) clone() oracle { c := *o; return &c }

func (o *acquireOracle) expect(e event) quorum.Actions {
	var actions quorum.Actions
	switch e.what {
	case aRelease:
		o.released[e.node] = true
	case aVote:
		if !o.note(e) || o.outcome != quorum.Undecided {
			return actions
		}
		enough := o.count(quorum.Yes) == majorityOf(o.n)
		switch {
		case o.lost:
		case enough && e.at.Before(deadline):
			o.outcome = quorum.Done
			return quorum.Actions{Outcome: quorum.Done}
		case enough || o.best() < majorityOf(o.n):
			o.lost, o.late = true, enough
			actions = quorum.Actions{Release: o.nodesBut(quorum.Unsent), AwaitCleanUp: true}
		}
	case aStop:
		if o.outcome != quorum.Undecided {
			return actions
		}
		if !o.lost {
			actions.Release = o.nodesBut(quorum.Unsent)
		}
	}
	if o.outcome == quorum.Undecided && (e.what == aStop || o.lost && o.certain() && o.confirmed()) {
		o.outcome = o.reason()
		o.lost = true
		actions.AwaitCleanUp = false
		actions.Outcome = o.outcome
	}
	return actions
}

// best is how many nodes vote yes if all that are still to answer do.
func (o *acquireOracle) best() int { return o.count(quorum.Yes, quorum.Pending) }

// certain reports whether the votes to come cannot change the reason.
func (o *acquireOracle) certain() bool {
	atLeast := o.count(quorum.Yes, quorum.No)
	atMost := o.count(quorum.Yes, quorum.No, quorum.Pending)
	return o.late || atLeast >= majorityOf(o.n) || atMost < majorityOf(o.n)
}

func (o *acquireOracle) confirmed() bool {
	for node, vote := range o.given[:o.n] {
		answered := vote == quorum.Yes || vote == quorum.No || vote == quorum.Refused
		if answered && !o.released[node] {
			return false
		}
	}
	return true
}

// reason is Denied if a majority answered and no majority of yes is possible.
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
	return match{machine: new(quorum.Acquire).Begin(n, granted), oracle: &acquireOracle{answers: answers{n: n}}}
}

func walkAcquire(t *testing.T, nodes []int, letters []quorum.Answer, at func(int) time.Time, thorough bool) {
	n := len(nodes)
	w := walk{
		t: t, nodes: nodes, votes: letters, at: at, thorough: thorough,
		fresh: func() machine { return new(quorum.Acquire).Begin(n, granted) },
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
		case m.machine.Answer(node) == quorum.Unsent:
			want = min(sent, 1) // needless, unless it was not known yet
		}
		if sent != want {
			require.Equal(t, want, sent, "releases sent to node %d after %v", node, m.history)
		}
	}
}

func TestAcquire_DecidesEveryVectorOfVotesAsTheProtocolDoes(t *testing.T) {
	for n := 1; n <= mostNodes; n++ {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			t.Parallel()
			letters := votes
			if n > 5 { // a refusal differs from a loss in that its clean-up is awaited, and 5 nodes show that
				letters = []quorum.Answer{quorum.Yes, quorum.No, quorum.Unknown, quorum.Unsent}
			}
			walkAcquire(t, indexOrder(n), letters, always(inTime), false)
		})
	}
}

func TestAcquire_NeitherWinsLateNorReportsTwice(t *testing.T) {
	for n := 1; n <= 5; n++ {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			t.Parallel()
			for step := range n + 1 {
				walkAcquire(t, indexOrder(n), votes, lateFrom(step, deadline), true)
			}
		})
	}
}

func TestAcquire_OrderOfNodesMakesNoDifference(t *testing.T) {
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
func TestAcquire_ReportsALossOnceInAnyOrderOfVotesAndReleases(t *testing.T) {
	for n := 1; n <= 3; n++ {
		var walk func(m match, voted, released []bool, sent []int)
		walk = func(m match, voted, released []bool, sent []int) {
			stopped := m.again(new(quorum.Acquire).Begin(n, granted))
			stopped.play(t, event{what: aStop, at: inTime})
			stopped.over(t)

			branch := func(e event, done []bool) {
				next := m.again(new(quorum.Acquire).Begin(n, granted))
				actions := next.play(t, e)
				done[e.node] = true
				walk(next, voted, released, append(slices.Clip(sent), actions.Release...))
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

func TestAcquire_RemembersTheAnswerOfEachNode(t *testing.T) {
	a := new(quorum.Acquire).Begin(6, granted)
	for node := range 6 {
		require.Equal(t, quorum.Pending, a.Answer(node))
		require.True(t, a.Reached(node), "a node may be reached until it is known that it was not")
	}
	for node, vote := range votes {
		a.Vote(instant(inTime), node, vote, "")
		require.Equal(t, vote, a.Answer(node))
		require.Equal(t, vote != quorum.Unsent, a.Reached(node))
	}
	require.Equal(t, quorum.Pending, a.Answer(5))
}

func TestAcquire_Scenarios(t *testing.T) {
	tiny, none := granted, granted
	tiny.Start, tiny.TTL = midway, time.Millisecond // not an instant goes by
	none.Start, none.TTL = midway, 0
	for name, tt := range map[string]struct {
		nodes int
		grant quorum.Grant // default: granted
		steps []step
	}{
		"a majority is enough, and what comes later changes nothing": {nodes: 5, steps: []step{
			{"3 yes", ""},
			{"0 no", ""},
			{"4 yes", ""},
			{"1 yes", "done"},
			{"2 no", ""},
		}},
		"a loss goes to every node at once, also to those that have not answered": {nodes: 5, steps: []step{
			{"0 no", ""},
			{"1 no", ""},
			{"2 no", "release 0 1 2 3 4, await clean-up"},
			{"1 released", ""},
			{"3 yes", ""}, // a straggler is waited for as well, since it has answered
			{"0 released", ""},
			{"2 released", ""},
			{"3 released", "denied"},
			{"4 yes", ""},
		}},
		"a majority that comes too late is none": {nodes: 3, steps: []step{
			{"0 yes", ""},
			{"1 yes late", "release 0 1 2, await clean-up"},
			{"0 released", ""},
			{"2 yes late", ""},
			{"1 released", ""},
			{"2 released", "too late"},
		}},
		"a lost reply is not a no, so the round lacks a quorum and others need not hold the key": {nodes: 3, steps: []step{
			{"0 lost", ""},
			{"1 yes", ""},
			{"2 lost", "release 0 1 2, await clean-up"},
			{"1 released", "no quorum"},
		}},
		"a lost reply is cleaned up, an acquire that never went out is not": {nodes: 3, steps: []step{
			{"0 unsent", ""},
			{"1 lost", "release 1 2, no quorum"},
			{"2 unsent", ""},
		}},
		"a node that answers after its reply was given up for lost is not counted": {nodes: 3, steps: []step{
			{"0 lost", ""},
			{"1 yes", ""},
			{"0 yes", ""},
			{"stop", "release 0 1 2, no quorum"},
		}},
		"a TTL under the drift gets no lock, not one without an end": {nodes: 3, grant: tiny, steps: []step{
			{"0 yes", ""},
			{"1 yes", "release 0 1 2, await clean-up"},
			{"0 released", ""},
			{"1 released", "too late"},
		}},
		"no TTL gets no lock": {nodes: 1, grant: none, steps: []step{
			{"0 yes", "release 0, await clean-up"},
			{"0 released", "too late"},
		}},
		"a majority of the nodes that can be reached is none": {nodes: 5, steps: []step{
			{"0 unsent", ""},
			{"1 unsent", ""},
			{"2 yes", ""},
			{"3 yes", ""},
			{"4 lost", "release 2 3 4, await clean-up"},
			{"2 released", ""},
			{"3 released", "no quorum"},
		}},
		"one server under two names is one": {nodes: 3, steps: []step{
			{"0 yes by a", ""},
			{"2 yes by a", ""},
			{"1 no by b", "release 0 1 2, await clean-up"},
			{"0 released", ""},
			{"1 released", ""},
			{"2 released", "denied"},
		}},
		"a split vote is lost for both sides and cleaned up": {nodes: 4, steps: []step{
			{"0 yes", ""},
			{"1 yes", ""},
			{"2 no", ""},
			{"3 no", "release 0 1 2 3, await clean-up"},
			{"0 released", ""},
			{"1 released", ""},
			{"2 released", ""},
			{"3 released", "denied"},
		}},
		"of two nodes both are needed": {nodes: 2, steps: []step{
			{"1 yes", ""},
			{"0 no", "release 0 1, await clean-up"},
			{"0 released", ""},
			{"1 released", "denied"},
		}},
		"the caller gives up while all is open": {nodes: 3, steps: []step{
			{"0 yes", ""},
			{"stop", "release 0 1 2, no quorum"},
			{"1 yes", ""},
			{"2 yes", ""},
			{"0 released", ""},
		}},
		"the caller gives up the wait for the clean-up, which goes on": {nodes: 3, steps: []step{
			{"0 no", ""},
			{"1 no", "release 0 1 2, await clean-up"},
			{"0 released", ""},
			{"stop", "denied"},
			{"1 released", ""},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.grant == (quorum.Grant{}) {
				tt.grant = granted
			}
			play(t, new(quorum.Acquire).Begin(tt.nodes, tt.grant), tt.steps)
		})
	}
}
