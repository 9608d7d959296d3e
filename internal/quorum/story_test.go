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

// The clock of the tests. The instants are written down, not computed by the code under test.
var (
	start    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	granted  = quorum.Grant{Start: start, TTL: 10 * time.Second, Drift: quorum.Drift{Factor: 0.01, Floor: 2 * time.Millisecond}}
	deadline = start.Add(9898 * time.Millisecond) // of granted: 10 s - (1 % + 2 ms)
	inTime   = deadline.Add(-1)                   // the last instant at which anything is left
	midway   = start.Add(6 * time.Second)

	longer  = quorum.Grant{Start: start.Add(5 * time.Second), TTL: granted.TTL, Drift: granted.Drift}
	shorter = quorum.Grant{Start: start.Add(5 * time.Second), TTL: time.Second, Drift: granted.Drift}
	usedUp  = start.Add(5*time.Second + 988*time.Millisecond) // the deadline of shorter
)

// votes are the answers to an acquire and a release.
var votes = []quorum.Answer{quorum.Yes, quorum.No, quorum.Unknown, quorum.Refused, quorum.Unsent}

// instant is a clock that stands still.
type instant time.Time

func (i instant) Now() time.Time { return time.Time(i) }

// machine is a round of any kind.
type machine interface {
	Vote(clock quorum.Clock, node int, vote quorum.Answer, server string) quorum.Actions
	Stop(clock quorum.Clock) quorum.Actions
	Answer(node int) quorum.Answer
	Duplicate(node int) (int, bool)
}

// event is what the shell reports to a machine.
type event struct {
	what   what
	at     time.Time
	node   int
	vote   quorum.Answer // or the answer to a raise
	number uint64        // that comes with a grant
	server string
}

type what uint8

const (
	aVote what = iota
	aGrant
	aRaise
	aRelease
	aStop
)

func feed(m machine, e event) quorum.Actions {
	switch a, _ := m.(*quorum.Acquire); e.what {
	case aVote:
		return m.Vote(instant(e.at), e.node, e.vote, e.server)
	case aGrant:
		return a.Granted(instant(e.at), e.node, e.number, e.server)
	case aRaise:
		return a.Raised(instant(e.at), e.node, e.vote)
	case aRelease:
		return a.Released(e.node)
	default:
		return m.Stop(instant(e.at))
	}
}

// describe puts actions into words, such as "release 0 1 2, await clean-up".
func describe(a quorum.Actions) string {
	var words []string
	list := func(verb string, nodes []int) {
		if len(nodes) > 0 {
			words = append(words, verb+" "+strings.Trim(fmt.Sprint(nodes), "[]"))
		}
	}
	var raise []int
	for _, r := range a.Raise {
		raise = append(raise, r.Node)
	}
	list("raise", raise)
	list("release", a.Release)
	list("observe", a.Observe)
	if a.AwaitCleanUp {
		words = append(words, "await clean-up")
	}
	switch a.Outcome {
	case quorum.Done:
		words = append(words, "done")
	case quorum.Denied:
		words = append(words, "denied")
	case quorum.NoQuorum:
		words = append(words, "no quorum")
	case quorum.TooLate:
		words = append(words, "too late")
	}
	return strings.Join(words, ", ")
}

// tell tells a story: events with what comes of them behind an arrow. Of an event without an arrow nothing may come.
func tell(t *testing.T, story string, happens func(event string) (becomes string)) {
	t.Helper()
	for _, part := range strings.Split(story, ";") {
		event, becomes, _ := strings.Cut(part, "→")
		require.Equal(t, strings.TrimSpace(becomes), happens(strings.TrimSpace(event)), "%s, of: %s", event, story)
	}
}

// play tells the story of a machine, after which nothing may be left to report. Its events are:
//
//	2 yes             node 2 votes, at midway
//	2 yes by a        the same, and its server is known as a
//	2 yes late        the same, at the old deadline
//	2 grants 7        node 2 votes yes with the number 7
//	2 raised no       node 2 answers a raise
//	2 released        node 2 has confirmed the release
//	stop, stop late   the caller gives up
func play(t *testing.T, m machine, story string) {
	t.Helper()
	tell(t, story, func(event string) string { return describe(feed(m, parse(t, event))) })
	require.Empty(t, describe(m.Stop(instant(deadline))), "at the end of: %s", story)
}

func parse(t *testing.T, text string) event {
	e := event{what: aStop, at: midway}
	words := strings.Fields(text)
	if last := len(words) - 1; words[last] == "late" {
		e.at, words = deadline, words[:last]
	}
	if by := len(words) - 2; by > 0 && words[by] == "by" {
		e.server, words = words[by+1], words[:by]
	}
	if words[0] == "stop" {
		return e
	}
	_, err := fmt.Sscan(words[0], &e.node)
	require.NoError(t, err, text)
	switch words[1] {
	case "released":
		e.what = aRelease
	case "grants":
		e.what = aGrant
		_, err = fmt.Sscan(words[2], &e.number)
		require.NoError(t, err, text)
	case "raised":
		e.what, e.vote = aRaise, answer(t, words[2])
	default:
		e.what, e.vote = aVote, answer(t, words[1])
	}
	return e
}

func answer(t *testing.T, name string) quorum.Answer {
	all := []quorum.Answer{quorum.Pending, quorum.Yes, quorum.No, quorum.Recreated, quorum.Unknown, quorum.Refused, quorum.Unsent}
	i := slices.IndexFunc(all, func(a quorum.Answer) bool { return a.String() == name })
	require.GreaterOrEqual(t, i, 0, name)
	return all[i]
}

// voteAll has one node after the other answer an extension at an instant. It returns the outcome.
func voteAll(m machine, at time.Time, answers ...quorum.Answer) (outcome quorum.Outcome) {
	for node, answer := range answers {
		outcome = max(outcome, m.Vote(instant(at), node, answer, "").Outcome)
	}
	return outcome
}

// words lists the sequences of n letters.
func words[L any](n int, letters ...L) [][]L {
	if n == 0 {
		return [][]L{nil}
	}
	var all [][]L
	for _, word := range words(n-1, letters...) {
		for _, letter := range letters {
			all = append(all, append(slices.Clip(word), letter))
		}
	}
	return all
}

// indexOrder lists the nodes 0 to n-1.
func indexOrder(n int) []int {
	nodes := make([]int, n)
	for i := range nodes {
		nodes[i] = i
	}
	return nodes
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
