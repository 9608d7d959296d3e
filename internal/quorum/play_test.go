package quorum_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

const mostNodes = 9

// The clock of the tests. The instants are written down, not computed by the code under test.
var (
	start    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	granted  = quorum.Grant{Start: start, TTL: 10 * time.Second, Drift: quorum.Drift{Factor: 0.01, Floor: 2 * time.Millisecond}}
	deadline = start.Add(9898 * time.Millisecond) // of granted: 10 s - (1 % + 2 ms)
	inTime   = deadline.Add(-1)                   // the last instant at which anything is left
)

var (
	votes    = []quorum.Vote{quorum.Yes, quorum.No, quorum.Lost, quorum.Refused, quorum.Unsent}
	voteName = map[quorum.Vote]string{
		quorum.Pending: "pending", quorum.Yes: "yes", quorum.No: "no",
		quorum.Planted: "planted", quorum.Lost: "lost", quorum.Refused: "refused", quorum.Unsent: "unsent",
	}
	outcomeName = map[quorum.Outcome]string{
		quorum.Done: "done", quorum.Denied: "denied", quorum.NoQuorum: "no quorum", quorum.TooLate: "too late",
	}
)

// event is something that the shell tells a machine.
type event struct {
	what   what
	at     time.Time
	node   int
	vote   quorum.Vote
	server string
}

type what uint8

const (
	aVote what = iota
	aRelease
	aStop
)

func (e event) String() string {
	text := "stop"
	switch e.what {
	case aVote:
		text = fmt.Sprintf("%d %s", e.node, voteName[e.vote])
	case aRelease:
		return fmt.Sprintf("%d released", e.node)
	}
	if e.server != "" {
		text += " by " + e.server
	}
	return fmt.Sprintf("%s at %v", text, e.at.Sub(start))
}

type machine interface {
	Vote(clock quorum.Clock, node int, vote quorum.Vote, server string) quorum.Effects
	Stop(clock quorum.Clock) quorum.Effects
	Said(node int) quorum.Vote
	Twin(node int) (int, bool)
}

func feed(m machine, e event) quorum.Effects {
	switch e.what {
	case aVote:
		return m.Vote(instant(e.at), e.node, e.vote, e.server)
	case aRelease:
		return m.(*quorum.Acquire).Released(e.node)
	default:
		return m.Stop(instant(e.at))
	}
}

// describe puts effects into words, such as "release 0 1 2, settling".
func describe(e quorum.Effects) string {
	var words []string
	if len(e.Release) > 0 {
		words = append(words, "release "+strings.Trim(fmt.Sprint(e.Release), "[]"))
	}
	if len(e.Restore) > 0 {
		words = append(words, "restore "+strings.Trim(fmt.Sprint(e.Restore), "[]"))
	}
	if e.Settling {
		words = append(words, "settling")
	}
	if e.Outcome != quorum.Undecided {
		words = append(words, outcomeName[e.Outcome])
	}
	return strings.Join(words, ", ")
}

// oracle says what an event has to bring about. It is stupid on purpose: it remembers
// every answer and counts all of them again at each event.
type oracle interface {
	expect(event) quorum.Effects
	clone() oracle
}

// answers is what the oracles remember: by node, and the order in which servers spoke.
type answers struct {
	n       int
	said    [mostNodes]quorum.Vote
	server  [mostNodes]string
	twin    [mostNodes]bool
	outcome quorum.Outcome // as told
}

// hear notes an answer, and says whether it is one at all: a node answers once.
func (a *answers) hear(e event) bool {
	if a.said[e.node] != quorum.Pending || e.vote == quorum.Pending {
		return false
	}
	a.said[e.node] = e.vote
	if e.server == "" || (e.vote != quorum.Yes && e.vote != quorum.No && e.vote != quorum.Planted) {
		return true
	}
	a.twin[e.node] = slices.Contains(a.server[:], e.server)
	a.server[e.node] = e.server
	if a.twin[e.node] {
		a.said[e.node] = quorum.Refused
	}
	return true
}

func (a *answers) count(wanted ...quorum.Vote) int {
	number := 0
	for _, vote := range a.said[:a.n] {
		if slices.Contains(wanted, vote) {
			number++
		}
	}
	return number
}

// nodes lists the nodes that said something else than the given.
func (a *answers) nodesBut(unwanted ...quorum.Vote) []int {
	var nodes []int
	for node, vote := range a.said[:a.n] {
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
	outcome  quorum.Outcome // as told
	released []int          // the nodes to which the release was sent
}

// play feeds an event to both and compares what they say.
func (m *match) play(t *testing.T, e event) quorum.Effects {
	got, want := feed(m.machine, e), m.oracle.expect(e)
	m.history = append(m.history, e)
	if got.Outcome != want.Outcome || got.Settling != want.Settling ||
		!slices.Equal(got.Release, want.Release) || !slices.Equal(got.Restore, want.Restore) {
		require.Equal(t, describe(want), describe(got), "after %v", m.history)
	}
	if got.Outcome != quorum.Undecided {
		if m.outcome != quorum.Undecided {
			require.Fail(t, "told twice", "after %v", m.history)
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

// over checks that the caller has been told.
func (m *match) over(t *testing.T) {
	if m.outcome == quorum.Undecided {
		require.Fail(t, "told nothing", "after %v", m.history)
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
	votes []quorum.Vote
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
			for _, e.vote = range []quorum.Vote{quorum.Yes, quorum.No, quorum.Lost} {
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

// instant is a clock that stands still.
type instant time.Time

func (i instant) Now() time.Time { return time.Time(i) }

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
