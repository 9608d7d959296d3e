package quorum_test

import (
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

// voteAll has one node after the other answer an extension at an instant. It returns the outcome.
func voteAll(e *quorum.Extend, at time.Time, answers ...quorum.Answer) (outcome quorum.Outcome) {
	for node, answer := range answers {
		outcome = max(outcome, e.Vote(instant(at), node, answer, "").Outcome)
	}
	return outcome
}

// observe has a node push a change, and answer the observation.
func observe(t *testing.T, lease *quorum.Lease, node int, answer quorum.Answer) quorum.Ending {
	t.Helper()
	require.True(t, lease.Invalidated(instant(start), node))
	require.Equal(t, quorum.Held, lease.At(start), "a push is a hint")
	lease.Observed(instant(start), node, answer)
	return lease.At(start)
}

func TestLease_IsLostWhenNoMajorityIsLeft(t *testing.T) {
	for n := 1; n <= 7; n++ {
		lease := extended(n)
		for node := range n {
			want := quorum.Held
			if n-(node+1) < majorityOf(n) {
				want = quorum.Lost
			}
			require.Equal(t, want, observe(t, lease, node, quorum.No), "%d of %d nodes", node+1, n)
			if want == quorum.Lost {
				require.False(t, lease.Invalidated(instant(start), n-1), "there is nothing left to find out")
				break
			}
		}
	}
}

func TestLease_IsNotLostToNodesThatDoNotAnswer(t *testing.T) {
	lease := extended(3)
	for node := range 3 {
		for _, answer := range []quorum.Answer{quorum.Unknown, quorum.Refused, quorum.Unsent} {
			require.Equal(t, quorum.Held, observe(t, lease, node, answer))
		}
	}
	answerAll(lease, 3, quorum.Unknown)
	require.Equal(t, quorum.Held, observe(t, lease, 0, quorum.No))
	require.Equal(t, quorum.Held, observe(t, lease, 0, quorum.Unknown), "which says nothing new")
	require.Equal(t, quorum.Held, observe(t, lease, 1, quorum.Yes), "its TTL was changed")
	require.Equal(t, quorum.Lost, observe(t, lease, 2, quorum.No))
}

func TestLease_IsNotLostToOneNodeAfterTheOther(t *testing.T) {
	lease := extended(3)
	for node := range 9 {
		require.Equal(t, quorum.Held, observe(t, lease, node%3, quorum.No))
		answers := []quorum.Answer{quorum.Yes, quorum.Yes, quorum.Yes}
		answers[node%3] = quorum.Recreated
		require.Equal(t, quorum.Done, answerAll(lease, 3, answers...))
		require.Equal(t, quorum.Done, answerAll(lease, 3, quorum.Yes))
	}
	require.Equal(t, quorum.Held, observe(t, lease, 0, quorum.No))
	require.Equal(t, quorum.Held, observe(t, lease, 0, quorum.Yes), "somebody has set it again, after who knows how long")
	require.Equal(t, quorum.Lost, observe(t, lease, 1, quorum.No))
}

// A node that was lost before an extension, and one that another token holds when it comes.
func TestLease_IsLostInTheMiddleOfAnExtension(t *testing.T) {
	lease := extended(3)
	require.Equal(t, quorum.Held, observe(t, lease, 0, quorum.No))
	e := new(quorum.Extend).Begin(lease, granted)
	require.Equal(t, quorum.Denied, e.Vote(instant(start), 1, quorum.No, "").Outcome)
	require.Equal(t, quorum.Lost, lease.At(start))
}

// A server that pushes whatever is observed would be asked without end.
func TestLease_IsObservedAFewTimesBetweenTwoExtensions(t *testing.T) {
	lease := extended(3)
	for range 3 {
		for range 4 {
			require.Equal(t, quorum.Held, observe(t, lease, 1, quorum.Yes))
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

// late has a node answer an extension that it was voted for as Unknown.
func late(e *quorum.Extend, node int, answer quorum.Answer) quorum.Actions {
	return e.Late(instant(midway), node, answer, "")
}

// unanswered is an extension of a lease over three nodes: the first says yes, of the others nothing is known in time.
func unanswered(lease *quorum.Lease) *quorum.Extend {
	e := new(quorum.Extend).Begin(lease, longer)
	for node, answer := range []quorum.Answer{quorum.Yes, quorum.Unknown, quorum.Unknown} {
		e.Vote(instant(start), node, answer, "")
	}
	return e
}

func TestExtend_LateAnswersShowALoss(t *testing.T) {
	for name, answers := range map[string][2]quorum.Answer{
		"re-created":    {quorum.Recreated, quorum.Recreated},
		"of another":    {quorum.No, quorum.No},
		"one of either": {quorum.No, quorum.Recreated},
	} {
		t.Run(name, func(t *testing.T) {
			lease := extended(3)
			e := unanswered(lease)
			late(e, 1, answers[0])
			require.Equal(t, quorum.Held, lease.At(midway), "one node is no majority")
			answerAll(lease, 3, quorum.Unknown, quorum.Yes) // the next one finds the key in its place
			require.Equal(t, quorum.Held, lease.At(midway))
			late(e, 2, answers[1])
			require.Equal(t, quorum.Lost, lease.At(midway))
		})
	}
}

func TestExtend_LateAnswersThatConfirmItAreNoLoss(t *testing.T) {
	lease := extended(3)
	e := unanswered(lease)
	require.Equal(t, quorum.Actions{}, late(e, 1, quorum.Yes))
	require.Equal(t, quorum.Actions{}, late(e, 2, quorum.Yes))
	require.Equal(t, quorum.Held, lease.At(midway))
	require.Equal(t, granted.Deadline(), lease.Deadline(), "nobody waits for the outcome any more")
}

// The report that there is no answer comes from another goroutine than the answers.
func TestExtend_AnAnswerThatOvertakesItsAbsenceIsAVote(t *testing.T) {
	lease := extended(3)
	e := new(quorum.Extend).Begin(lease, longer)
	e.Vote(instant(midway), 0, quorum.Yes, "")
	require.Equal(t, quorum.Actions{Outcome: quorum.Done}, late(e, 1, quorum.Yes))
	require.Equal(t, quorum.Actions{}, e.Vote(instant(midway), 1, quorum.Unknown, ""))
	require.Equal(t, longer.Deadline(), lease.Deadline())
	require.True(t, lease.Invalidated(instant(midway), 1), "nothing is outstanding")
}

// What was gone counts as gone, although a late extension has set it again, until a majority confirms the next one. That it is
// there says nothing: another may have held the lock meanwhile.
func TestExtend_AKeySetAgainLateIsGoneUntilTheNextExtension(t *testing.T) {
	for name, tt := range map[string]struct {
		then func(*quorum.Lease)
		want quorum.Ending
	}{
		"before": {func(*quorum.Lease) {}, quorum.Lost},
		"seen": {func(lease *quorum.Lease) {
			require.True(t, lease.Invalidated(instant(midway), 1))
			lease.Observed(instant(midway), 1, quorum.Yes)
		}, quorum.Lost},
		"after": {func(lease *quorum.Lease) { answerAll(lease, 3, quorum.Yes) }, quorum.Held},
	} {
		t.Run(name, func(t *testing.T) {
			lease := extended(3)
			late(unanswered(lease), 1, quorum.Recreated)
			tt.then(lease)
			require.True(t, lease.Invalidated(instant(midway), 0))
			lease.Observed(instant(midway), 0, quorum.No)
			require.Equal(t, tt.want, lease.At(midway))
		})
	}
}

// Nodes to which an extension gives the key hold it again when one is confirmed that began afterwards. What confirms the extension
// itself says nothing: it may have been held up on its way to the others, and another have had them before.
func TestExtend_GivesTheKeyBackForTheNextOneThatIsConfirmed(t *testing.T) {
	for name, tt := range map[string]struct {
		answers []quorum.Answer // of five nodes, to an extension
		next    []quorum.Answer // to another
		want    quorum.Ending
	}{
		"re-created before":  {[]quorum.Answer{quorum.Recreated, quorum.Recreated, quorum.Yes}, []quorum.Answer{quorum.Unsent}, quorum.Lost},
		"re-created behind":  {[]quorum.Answer{quorum.Yes, quorum.Yes, quorum.Yes, quorum.Recreated}, []quorum.Answer{quorum.Unsent}, quorum.Lost},
		"the next: no":       {[]quorum.Answer{quorum.Recreated, quorum.Recreated, quorum.Yes}, []quorum.Answer{quorum.Yes, quorum.Yes, quorum.Yes, quorum.Yes, quorum.Unknown}, quorum.Lost},
		"the next: yes":      {[]quorum.Answer{quorum.Recreated, quorum.Recreated, quorum.Yes}, []quorum.Answer{quorum.Yes}, quorum.Held},
		"missing once again": {[]quorum.Answer{quorum.Recreated, quorum.Yes}, []quorum.Answer{quorum.Recreated, quorum.Recreated, quorum.Yes}, quorum.Lost},
	} {
		t.Run(name, func(t *testing.T) {
			lease := extended(5)
			answerAll(lease, 5, tt.answers...)
			answerAll(lease, 5, tt.next...)
			require.Equal(t, quorum.Held, lease.At(start))
			require.Equal(t, tt.want, observe(t, lease, 2, quorum.No))
		})
	}
}

// A majority that comes too late for the outcome shows the same of the nodes that held the key again before, until the next
// extension finds that it was missing once more.
func TestExtend_ALateMajorityConfirmsTheKeysThatWereGivenBack(t *testing.T) {
	for name, tt := range map[string]struct {
		then func(*quorum.Lease)
		want quorum.Ending
	}{
		"at once": {func(*quorum.Lease) {}, quorum.Held},
		"seen since": {func(lease *quorum.Lease) {
			lease.Invalidated(instant(start), 1)
			lease.Observed(instant(start), 1, quorum.Yes)
		}, quorum.Held},
		"lost since": {func(lease *quorum.Lease) {
			lease.Invalidated(instant(start), 1)
			lease.Observed(instant(start), 1, quorum.No)
		}, quorum.Lost},
		"held since":     {func(lease *quorum.Lease) { answerAll(lease, 4, quorum.Yes, quorum.Yes, quorum.Unknown) }, quorum.Held},
		"set once again": {func(lease *quorum.Lease) { answerAll(lease, 4, quorum.Yes, quorum.Recreated, quorum.Unknown) }, quorum.Lost},
	} {
		t.Run(name, func(t *testing.T) {
			lease := extended(4)
			answerAll(lease, 4, quorum.Yes, quorum.Recreated, quorum.Yes)
			e := new(quorum.Extend).Begin(lease, granted)
			for node, answer := range []quorum.Answer{quorum.Yes, quorum.Yes, quorum.Yes, quorum.Unknown} {
				e.Vote(instant(start), node, answer, "")
			}
			tt.then(lease)
			require.Equal(t, quorum.Actions{}, late(e, 3, quorum.Yes))
			require.Equal(t, quorum.Held, lease.At(start))
			require.Equal(t, tt.want, observe(t, lease, 2, quorum.No))
		})
	}
}

// An extension whose answer was lost has given back a key that was seen to be missing. It is known to be there when it is seen.
func TestExtend_ConfirmsAKeyThatWasSeenAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		seen func(*quorum.Lease)
		want quorum.Ending
	}{
		"by an observation": {func(lease *quorum.Lease) { observe(t, lease, 1, quorum.Yes) }, quorum.Held},
		"by an extension":   {func(lease *quorum.Lease) { answerAll(lease, 3, quorum.Yes) }, quorum.Held},
		"by the next":       {func(*quorum.Lease) {}, quorum.Lost},
	} {
		t.Run(name, func(t *testing.T) {
			lease := extended(3)
			require.Equal(t, quorum.Held, observe(t, lease, 1, quorum.No))
			answerAll(lease, 3, quorum.Yes, quorum.Unknown, quorum.Yes)
			tt.seen(lease)
			answerAll(lease, 3, quorum.Yes)
			require.Equal(t, tt.want, observe(t, lease, 0, quorum.No))
		})
	}
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
	require.Equal(t, []int{1}, late(e, 1, quorum.Refused).Observe)
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
	require.Equal(t, quorum.Held, lease.At(start))
	require.False(t, lease.Late(instant(start), 1, quorum.No))
	require.Equal(t, quorum.Lost, lease.At(start))
}

// The danger: an acquire that is held up on its way to a node gets there when others of those that granted it have lost the key, and
// another holder has come and gone.
func TestLease_ANodeThatHasNotAnsweredTheAcquireCountsWhenALaterExtensionIsConfirmed(t *testing.T) {
	for _, answered := range []bool{false, true} {
		won := func() *quorum.Lease {
			a := new(quorum.Acquire).Begin(3, granted)
			a.Vote(instant(start), 0, quorum.Yes, "")
			require.Equal(t, quorum.Done, a.Vote(instant(start), 1, quorum.Yes, "").Outcome)
			if answered {
				a.Vote(instant(start), 2, quorum.Yes, "")
			}
			lease := a.Lease()
			return &lease
		}
		outcome := map[bool]quorum.Outcome{false: quorum.Denied, true: quorum.Done}[answered]
		require.Equal(t, outcome, answerAll(won(), 3, quorum.Yes, quorum.Recreated, quorum.Yes))
		lease := won()
		require.Equal(t, quorum.Done, answerAll(lease, 3, quorum.Yes))
		require.Equal(t, quorum.Done, answerAll(lease, 3, quorum.Yes))
		require.Equal(t, quorum.Done, answerAll(lease, 3, quorum.Yes, quorum.Recreated, quorum.Yes), "it counts now")

		r := new(quorum.Release).Begin(won(), start)
		r.Vote(instant(start), 0, quorum.Yes, "")
		r.Vote(instant(start), 1, quorum.No, "")
		require.Equal(t, outcome, r.Vote(instant(start), 2, quorum.Yes, "").Outcome)
	}
}
