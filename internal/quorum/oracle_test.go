package quorum_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// oracle knows what an event has to bring about. It is simple on purpose: it remembers
// every answer and counts all of them again at each event.
type oracle interface {
	expect(event) quorum.Actions
	clone() oracle
}

// answers is what the oracles remember.
type answers struct {
	n       int
	given   [mostNodes]quorum.Answer
	outcome quorum.Outcome // as reported
}

// note takes an answer, and reports whether it is one at all: a node answers once.
func (a *answers) note(e event) bool {
	if a.given[e.node] != quorum.Pending || e.vote == quorum.Pending {
		return false
	}
	a.given[e.node] = e.vote
	return true
}

func (a *answers) count(wanted ...quorum.Answer) int {
	number := 0
	for _, vote := range a.given[:a.n] {
		if slices.Contains(wanted, vote) {
			number++
		}
	}
	return number
}

// nodesBut lists the nodes that gave another answer.
func (a *answers) nodesBut(unwanted ...quorum.Answer) []int {
	var nodes []int
	for node, vote := range a.given[:a.n] {
		if !slices.Contains(unwanted, vote) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// majorityOf is the smallest number that two holders cannot both have.
func majorityOf(n int) int {
	number := 1
	for number+number <= n {
		number++
	}
	return number
}

// match is a machine beside its oracle.
type match struct {
	machine  machine
	oracle   oracle
	history  []event
	outcome  quorum.Outcome // as reported
	released []int          // the nodes to which the release was sent
}

// play feeds an event to both and compares their actions.
func (m *match) play(t *testing.T, e event) quorum.Actions {
	got, want := feed(m.machine, e), m.oracle.expect(e)
	m.history = append(m.history, e)
	if got.Outcome != want.Outcome || got.AwaitCleanUp != want.AwaitCleanUp ||
		!slices.Equal(got.Release, want.Release) {
		require.Equal(t, describe(want), describe(got), "after %v", m.history)
	}
	if got.Outcome != quorum.Undecided {
		if m.outcome != quorum.Undecided {
			require.Fail(t, "reported twice", "after %v", m.history)
		}
		m.outcome = got.Outcome
	}
	m.released = append(m.released, got.Release...)
	return got
}

// silent plays events that must bring about nothing.
func (m *match) silent(t *testing.T, events ...event) {
	for _, e := range events {
		if got := describe(m.play(t, e)); got != "" {
			require.Empty(t, got, "after %v", m.history)
		}
	}
}

// over checks that the caller has its outcome.
func (m *match) over(t *testing.T) {
	if m.outcome == quorum.Undecided {
		require.Fail(t, "nothing was reported", "after %v", m.history)
	}
}

// again returns the match as it stands, with a machine of its own.
func (m *match) again(fresh machine) match {
	for _, e := range m.history {
		feed(fresh, e)
	}
	return m.with(fresh)
}

func (m *match) with(machine machine) match {
	next := *m
	next.machine = machine
	next.oracle = m.oracle.clone()
	next.history = slices.Clip(m.history)
	next.released = slices.Clip(m.released)
	return next
}

// walk plays every vector of votes. The nodes vote in the order of nodes; since every
// vector is played, every order in which the votes can come in is.
type walk struct {
	t     *testing.T
	nodes []int
	votes []quorum.Answer
	fresh func() machine
	at    func(step int) time.Time
	// thorough repeats every vote, with the same and with other words, and branches off
	// a life in which the caller gives up, before every vote.
	thorough bool
	// end is called when every node has voted, or the caller gave up.
	end func(*match)
}

func (w *walk) from(m match, step int) {
	if w.thorough {
		stopped := m.again(w.fresh())
		stopped.play(w.t, event{what: aStop, at: w.at(step)})
		stopped.over(w.t)
		for _, node := range w.nodes[step:] {
			stopped.play(w.t, event{what: aVote, at: w.at(step), node: node, vote: quorum.Yes})
		}
		w.end(&stopped)
	}
	if step == len(w.nodes) {
		w.end(&m)
		return
	}
	for i, vote := range w.votes {
		next := m.with(m.machine)
		if i > 0 { // the first letter has used the machine up
			next = m.again(w.fresh())
		}
		e := event{what: aVote, at: w.at(step), node: w.nodes[step], vote: vote}
		if w.thorough {
			next.silent(w.t, event{what: aVote, at: e.at, node: e.node, vote: quorum.Pending, server: "a"})
		}
		next.play(w.t, e)
		if w.thorough {
			for _, e.vote = range []quorum.Answer{quorum.Yes, quorum.No, quorum.Unknown} {
				next.silent(w.t, e)
			}
		}
		w.from(next, step+1)
	}
}

// indexOrder lists the nodes 0 to n-1.
func indexOrder(n int) []int {
	nodes := make([]int, n)
	for i := range nodes {
		nodes[i] = i
	}
	return nodes
}

func always(at time.Time) func(int) time.Time {
	return func(int) time.Time { return at }
}

// lateFrom is a clock that reaches an instant at a step.
func lateFrom(step int, late time.Time) func(int) time.Time {
	return func(now int) time.Time {
		if now < step {
			return inTime
		}
		return late
	}
}
