package quorum_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// extended returns a lease over n nodes, all of which have answered an extension with yes.
func extended(n int) *quorum.Lease {
	lease := quorum.NewLease(n, granted)
	answerAll(lease, n, quorum.Yes)
	return lease
}

// answerAll has every node answer an extension: the last of the answers stands for the nodes from there on.
func answerAll(lease *quorum.Lease, n int, answers ...quorum.Answer) quorum.Outcome {
	for len(answers) < n {
		answers = append(answers, answers[len(answers)-1])
	}
	return voteAll(new(quorum.Extend).Begin(lease, granted), start, answers...)
}

// observe has a node push a change, and answer the observation.
func observe(t *testing.T, lease *quorum.Lease, node int, answer quorum.Answer) quorum.Ending {
	t.Helper()
	require.True(t, lease.Invalidated(instant(start), node))
	require.Equal(t, quorum.NotEnded, lease.At(start), "a push is a hint")
	lease.Observed(instant(start), node, answer)
	return lease.At(start)
}

// live tells the story of a lease over n nodes, all of which have answered an extension with yes. What comes of its events is that the
// lease is lost, or nothing:
//
//	extension yes no      the nodes answer another extension, and those behind the last answer as that
//	overdue yes unknown   the same, but answers that are not known may come late
//	1 late no             such an answer of node 1
//	1 shows no            node 1 pushes a change, and answers the observation
func live(t *testing.T, n int, story string) {
	t.Helper()
	lease := extended(n)
	var overdue *quorum.Extend
	tell(t, story, func(event string) string {
		words := strings.Fields(event)
		var node int
		_, _ = fmt.Sscan(words[0], &node)
		switch words[1] {
		case "shows":
			observe(t, lease, node, answer(t, words[2]))
		case "late":
			require.Empty(t, describe(overdue.Late(instant(start), node, answer(t, words[2]), "")))
		default:
			e := new(quorum.Extend).Begin(lease, granted)
			for node := range n {
				e.Vote(instant(start), node, answer(t, words[min(1+node, len(words)-1)]), "")
			}
			if words[0] == "overdue" {
				overdue = e
			}
		}
		return map[quorum.Ending]string{quorum.NotEnded: "", quorum.Gone: "lost"}[lease.At(start)]
	})
}

func TestLease_Scenarios(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes   int
		before  string // each of the stories
		stories map[string]string
	}{
		"nodes that do not answer lose nothing": {3, "", map[string]string{
			"one after the other": "0 shows unknown; 1 shows refused; 2 shows unsent",
			"some, and others do": `0 shows unknown; 0 shows refused; 0 shows unsent; extension unknown;
				0 shows no; 0 shows unknown; 1 shows yes; 2 shows no → lost`,
		}},
		"nor one after the other that is given the key back": {
			3, strings.Repeat(`0 shows no; extension recreated yes; extension yes; 1 shows no; extension yes recreated yes; extension yes;
				2 shows no; extension yes yes recreated; extension yes; `, 3), map[string]string{"held": "0 shows no"},
		},
		"a key that is there again was gone, for who knows how long": {3, "0 shows no; ", map[string]string{
			"set by somebody":                     "0 shows yes; 1 shows no → lost",
			"by an extension":                     "extension yes unknown; 1 shows no → lost",
			"which another has confirmed is held": "extension yes; extension yes; 1 shows no",
		}},
		"late answers show a loss, though the next extension finds the key in its place": {3, "overdue yes unknown; ", map[string]string{
			"re-created":    "1 late recreated; extension unknown yes; 2 late recreated → lost",
			"of another":    "1 late no; extension unknown yes; 2 late no → lost",
			"one of either": "1 late no; extension unknown yes; 2 late recreated → lost",
		}},
		// That it is there says nothing: another may have held the lock meanwhile.
		"a key that was set again late is gone until the next extension": {3, "overdue yes unknown; 1 late recreated; ", map[string]string{
			"before": "0 shows no → lost",
			"seen":   "1 shows yes; 0 shows no → lost",
			"after":  "extension yes; 0 shows no",
		}},
		// What confirms the extension itself says nothing: it may have been held up on its way to the others, and another have had
		// them before.
		"an extension gives the key back for the next one that is confirmed": {5, "", map[string]string{
			"re-created before":  "extension recreated recreated yes; extension unsent; 2 shows no → lost",
			"re-created behind":  "extension yes yes yes recreated; extension unsent; 2 shows no → lost",
			"the next: no":       "extension recreated recreated yes; extension yes yes yes yes unknown; 2 shows no → lost",
			"the next: yes":      "extension recreated recreated yes; extension yes; 2 shows no",
			"missing once again": "extension recreated yes; extension recreated recreated yes; 2 shows no → lost",
		}},
		// Though it is too late for the outcome, it shows the same of the nodes that held the key again before, until the next
		// extension finds that it was missing once more.
		"a late majority confirms": {4, "extension yes recreated yes; overdue yes yes yes unknown; ", map[string]string{
			"at once":        "3 late yes; 2 shows no",
			"seen since":     "1 shows yes; 3 late yes; 2 shows no",
			"lost since":     "1 shows no; 3 late yes; 2 shows no → lost",
			"held since":     "extension yes yes unknown; 3 late yes; 2 shows no",
			"set once again": "extension yes recreated unknown; 3 late yes; 2 shows no → lost",
		}},
		// The extension whose answer was lost has given the key back.
		"a key that was missing is known to be there when it is seen": {3, "1 shows no; extension yes unknown yes; ", map[string]string{
			"by an observation": "1 shows yes; extension yes; 0 shows no",
			"by an extension":   "extension yes; extension yes; 0 shows no",
			"by the next":       "extension yes; 0 shows no → lost",
		}},
	} {
		for which, story := range tt.stories {
			t.Run(name+"/"+which, func(t *testing.T) { live(t, tt.nodes, tt.before+story) })
		}
	}
}

func TestLease_IsLostWhenNoMajorityIsLeft(t *testing.T) {
	for n := 1; n <= 7; n++ {
		lease := extended(n)
		for node := range n {
			want := quorum.NotEnded
			if n-(node+1) < majorityOf(n) {
				want = quorum.Gone
			}
			require.Equal(t, want, observe(t, lease, node, quorum.No), "%d of %d nodes", node+1, n)
			if want == quorum.Gone {
				require.False(t, lease.Invalidated(instant(start), n-1), "there is nothing left to find out")
				break
			}
		}
	}
}

// A node that was lost before an extension, and one that another token holds when it comes.
func TestLease_IsLostInTheMiddleOfAnExtension(t *testing.T) {
	lease := extended(3)
	require.Equal(t, quorum.NotEnded, observe(t, lease, 0, quorum.No))
	e := new(quorum.Extend).Begin(lease, granted)
	require.Equal(t, quorum.Denied, e.Vote(instant(start), 1, quorum.No, "").Outcome)
	require.Equal(t, quorum.Gone, lease.At(start))
}

// A server that pushes whatever is observed would be asked without end.
func TestLease_IsObservedAFewTimesBetweenTwoExtensions(t *testing.T) {
	lease := extended(3)
	for range 3 {
		for range 4 {
			require.Equal(t, quorum.NotEnded, observe(t, lease, 1, quorum.Yes))
		}
		require.False(t, lease.Invalidated(instant(start), 1))
		require.True(t, lease.Invalidated(instant(start), 2))
		lease.TrackingLost(1)
		require.True(t, lease.Invalidated(instant(start), 1), "the connection is another")
		lease.Observed(instant(start), 1, quorum.Yes)
		lease.Observed(instant(start), 2, quorum.Yes)
		answerAll(lease, 3, quorum.Yes)
	}
}

// The answer of an extension or an observation that is under way is newer than a push before it.
func TestLease_ObservesOnceAndNotBesideAnExtension(t *testing.T) {
	lease := quorum.NewLease(3, granted)
	e := new(quorum.Extend).Begin(lease, granted)
	for node := range 3 {
		require.False(t, lease.Invalidated(instant(start), node))
		e.Vote(instant(start), node, quorum.Yes, "")
		e.Vote(instant(start), node, quorum.No, "") // which is none
		require.True(t, lease.Invalidated(instant(start), node))
		require.False(t, lease.Invalidated(instant(start), node))
	}
	lease.Observed(instant(start), 1, quorum.Yes)
	require.True(t, lease.Invalidated(instant(start), 1))
	lease.End(start, quorum.Released)
	lease.Observed(instant(start), 2, quorum.Yes)
	require.False(t, lease.Invalidated(instant(start), 2))
	require.False(t, extended(1).Invalidated(instant(deadline.Add(time.Hour)), 0))
}

func TestExtend_LateAnswersThatConfirmItAreNoLoss(t *testing.T) {
	lease := extended(3)
	e := new(quorum.Extend).Begin(lease, longer)
	voteAll(e, start, quorum.Yes, quorum.Unknown, quorum.Unknown)
	for node := 1; node < 3; node++ {
		require.Equal(t, quorum.Actions{}, e.Late(instant(midway), node, quorum.Yes, ""))
	}
	require.Equal(t, quorum.NotEnded, lease.At(midway))
	require.Equal(t, deadline, lease.Deadline(), "nobody waits for the outcome any more")
}

// The report that there is no answer comes from another goroutine than the answers.
func TestExtend_AnAnswerThatOvertakesItsAbsenceIsAVote(t *testing.T) {
	lease := extended(3)
	e := new(quorum.Extend).Begin(lease, longer)
	e.Vote(instant(midway), 0, quorum.Yes, "")
	require.Equal(t, quorum.Actions{Outcome: quorum.Done}, e.Late(instant(midway), 1, quorum.Yes, ""))
	require.Equal(t, quorum.Actions{}, e.Vote(instant(midway), 1, quorum.Unknown, ""))
	require.Equal(t, longer.Deadline(), lease.Deadline())
	require.True(t, lease.Invalidated(instant(midway), 1), "nothing is outstanding")
}

// The danger: a push that is ignored because an answer is outstanding, which then shows nothing.
func TestLease_APushStandsUntilAnAnswerShowsTheKey(t *testing.T) {
	lease := extended(3)
	e := new(quorum.Extend).Begin(lease, longer)
	for node := range 2 {
		require.False(t, lease.Invalidated(instant(start), node), "the extension will show it")
	}
	require.Equal(t, []int{0}, e.Vote(instant(midway), 0, quorum.Refused, "").Observe)
	require.Empty(t, e.Vote(instant(midway), 1, quorum.Unknown, "").Observe, "it would not be sent now")
	require.Equal(t, []int{1}, e.Late(instant(midway), 1, quorum.Refused, "").Observe)
	require.Empty(t, e.Vote(instant(midway), 2, quorum.Refused, "").Observe, "nothing was pushed")

	lease.Observed(instant(midway), 0, quorum.Unknown)
	require.True(t, lease.Late(instant(midway), 0, quorum.Refused), "nor has the observation shown anything")
	lease.Observed(instant(midway), 0, quorum.Yes)
	require.False(t, lease.Late(instant(midway), 0, quorum.Refused))
}

func TestLease_ALateAnswerEndsAnObservation(t *testing.T) {
	lease := extended(3)
	for node := range 2 {
		require.True(t, lease.Invalidated(instant(start), node))
		lease.Observed(instant(start), node, quorum.Unknown)
	}
	require.False(t, lease.Late(instant(start), 0, quorum.No))
	require.Equal(t, quorum.NotEnded, lease.At(start))
	require.False(t, lease.Late(instant(start), 1, quorum.No))
	require.Equal(t, quorum.Gone, lease.At(start))
}

// The danger: an acquire that is held up on its way to a node gets there when others of those that granted it have lost the key, and
// another holder has come and gone.
func TestLease_ANodeThatHasNotAnsweredTheAcquireCountsWhenALaterExtensionIsConfirmed(t *testing.T) {
	for answered, outcome := range map[bool]quorum.Outcome{false: quorum.Denied, true: quorum.Done} {
		won := func() *quorum.Lease {
			a := new(quorum.Acquire).Begin(3, granted)
			require.Equal(t, quorum.Done, voteAll(a, start, quorum.Yes, quorum.Yes))
			if answered {
				a.Vote(instant(start), 2, quorum.Yes, "")
			}
			lease := a.Lease()
			return &lease
		}
		require.Equal(t, outcome, answerAll(won(), 3, quorum.Yes, quorum.Recreated, quorum.Yes))
		require.Equal(t, outcome, voteAll(new(quorum.Release).Begin(won(), start), start, quorum.Yes, quorum.No, quorum.Yes))

		lease := won()
		require.Equal(t, quorum.Done, answerAll(lease, 3, quorum.Yes))
		require.Equal(t, quorum.Done, answerAll(lease, 3, quorum.Yes))
		require.Equal(t, quorum.Done, answerAll(lease, 3, quorum.Yes, quorum.Recreated, quorum.Yes), "it counts now")
	}
}
