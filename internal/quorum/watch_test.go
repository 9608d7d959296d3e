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
	e := quorum.NewExtend(lease, granted)
	outcome := quorum.Undecided
	for node := range n {
		actions := e.Vote(instant(start), node, answers[min(node, len(answers)-1)], "")
		outcome = max(outcome, actions.Outcome)
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
	}
	require.Equal(t, quorum.Held, observe(t, lease, 0, quorum.No))
	require.Equal(t, quorum.Held, observe(t, lease, 0, quorum.Yes), "somebody has extended it")
	require.Equal(t, quorum.Held, observe(t, lease, 1, quorum.No))
}

// A node that was lost before an extension, and one that another token holds when it comes.
func TestLease_IsLostInTheMiddleOfAnExtension(t *testing.T) {
	lease := extended(3)
	require.Equal(t, quorum.Held, observe(t, lease, 0, quorum.No))
	e := quorum.NewExtend(lease, granted)
	require.Equal(t, quorum.Undecided, e.Vote(instant(start), 1, quorum.No, "").Outcome)
	require.Equal(t, quorum.Lost, lease.At(start))
	require.Equal(t, quorum.TooLate, e.Stop(instant(start)).Outcome)
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
		lease.Observed(instant(start), 2, quorum.Yes)
		answerAll(lease, 3, quorum.Yes)
	}
}

// The answer of an extension or an observation that is under way is newer than a push before it.
func TestLease_ObservesOnceAndNotBesideAnExtension(t *testing.T) {
	lease := quorum.NewLease(3, granted)
	e := quorum.NewExtend(lease, granted)
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
