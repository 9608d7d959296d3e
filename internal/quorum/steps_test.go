package quorum_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

const mostNodes = 7

// The clock of the tests. The instants are written down, not computed by the code under test.
var (
	start    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	granted  = quorum.Grant{Start: start, TTL: 10 * time.Second, Drift: quorum.Drift{Factor: 0.01, Floor: 2 * time.Millisecond}}
	deadline = start.Add(9898 * time.Millisecond) // of granted: 10 s - (1 % + 2 ms)
	inTime   = deadline.Add(-1)                   // the last instant at which anything is left
)

var (
	votes    = []quorum.Answer{quorum.Yes, quorum.No, quorum.Unknown, quorum.Refused, quorum.Unsent}
	voteName = map[quorum.Answer]string{
		quorum.Pending: "pending", quorum.Yes: "yes", quorum.No: "no",
		quorum.Recreated: "recreated", quorum.Unknown: "lost", quorum.Refused: "refused", quorum.Unsent: "unsent",
	}
	outcomeName = map[quorum.Outcome]string{
		quorum.Done: "done", quorum.Denied: "denied", quorum.NoQuorum: "no quorum", quorum.TooLate: "too late",
	}
)

// event is what the shell reports to a machine.
type event struct {
	what   what
	at     time.Time
	node   int
	vote   quorum.Answer
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
	Vote(clock quorum.Clock, node int, vote quorum.Answer, server string) quorum.Actions
	Stop(clock quorum.Clock) quorum.Actions
	Answer(node int) quorum.Answer
	Duplicate(node int) (int, bool)
}

func feed(m machine, e event) quorum.Actions {
	switch e.what {
	case aVote:
		return m.Vote(instant(e.at), e.node, e.vote, e.server)
	case aRelease:
		return m.(*quorum.Acquire).Released(e.node)
	default:
		return m.Stop(instant(e.at))
	}
}

// describe puts actions into words, such as "release 0 1 2, await clean-up".
func describe(e quorum.Actions) string {
	var words []string
	if len(e.Release) > 0 {
		words = append(words, "release "+strings.Trim(fmt.Sprint(e.Release), "[]"))
	}
	if e.AwaitCleanUp {
		words = append(words, "await clean-up")
	}
	if e.Outcome != quorum.Undecided {
		words = append(words, outcomeName[e.Outcome])
	}
	return strings.Join(words, ", ")
}

// instant is a clock that stands still.
type instant time.Time

func (i instant) Now() time.Time { return time.Time(i) }

// step is an event in words and the actions that it must have, in words too:
//
//	2 yes            node 2 votes, at midway
//	2 yes by a       the same, and its server is known as a
//	2 yes late       the same, at the old deadline
//	2 released       node 2 has confirmed the release
//	stop, stop late  the caller gives up
type step struct{ event, actions string }

var midway = start.Add(6 * time.Second)

// play feeds steps to a machine. After them nothing may be left to report.
func play(t *testing.T, m machine, steps []step) {
	t.Helper()
	for i, s := range steps {
		require.Equal(t, s.actions, describe(feed(m, parse(t, s.event))), "step %d: %s", i+1, s.event)
	}
	require.Empty(t, describe(m.Stop(instant(deadline))), "at the end")
}

func parse(t *testing.T, text string) event {
	e := event{what: aStop, at: midway}
	words := strings.Fields(text)
	if words[len(words)-1] == "late" {
		e.at = deadline
		words = words[:len(words)-1]
	}
	if len(words) == 4 && words[2] == "by" {
		e.server = words[3]
	}
	if words[0] == "stop" {
		return e
	}
	_, err := fmt.Sscan(words[0], &e.node)
	require.NoError(t, err, text)
	e.what = aRelease
	for vote, name := range voteName {
		if name == words[1] {
			e.what, e.vote = aVote, vote
		}
	}
	require.True(t, e.what == aVote || words[1] == "released", text)
	return e
}
