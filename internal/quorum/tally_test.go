package quorum_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// machines begins one of each kind over n nodes, all of them reached.
func machines(n int) map[string]machine {
	return map[string]machine{
		"acquire": new(quorum.Acquire).Begin(n, granted),
		"extend":  new(quorum.Extend).Begin(quorum.NewLease(n, granted), longer),
		"release": new(quorum.Release).Begin(quorum.NewLease(n, granted), start),
	}
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

// One server that is configured under two names has one vote.
func TestTally_ServerBehindSeveralNodesIsNeverCountedTwice(t *testing.T) {
	for n := 2; n <= 5; n++ {
		forwards, backwards := indexOrder(n), indexOrder(n)
		slices.Reverse(backwards)
		turns := [][]int{forwards, backwards}
		if n < 4 {
			turns = orders(forwards)
		}
		for _, servers := range words(n, "", "a", "b") {
			for _, votes := range words(n, quorum.Yes, quorum.No) {
				for _, order := range turns {
					for name, m := range machines(n) {
						voteAsDuplicates(t, name, m, servers, votes, order)
					}
				}
			}
		}
	}
}

// voteAsDuplicates has each node vote, in an order, and checks what was counted.
func voteAsDuplicates(t *testing.T, name string, m machine, servers []string, votes []quorum.Answer, order []int) {
	trace := []any{"%s: servers %q vote %v in the order of %v", name, servers, votes, order}
	var outcome quorum.Outcome
	voted := map[string][]int{} // the nodes for which a server has voted
	yes := 0
	for _, node := range order {
		server := servers[node]
		outcome = max(outcome, m.Vote(instant(inTime), node, votes[node], server).Outcome)

		of, isDuplicate := m.Duplicate(node)
		require.Equal(t, len(voted[server]) > 0, isDuplicate, trace...)
		if server != "" { // an unknown server is nobody's duplicate
			before := voted[server]
			voted[server] = append(before, node)
			if isDuplicate {
				require.Contains(t, before, of, trace...)
				require.Equal(t, quorum.Refused, m.Answer(node), trace...)
				continue
			}
		}
		require.Equal(t, votes[node], m.Answer(node), trace...)
		if votes[node] == quorum.Yes {
			yes++
		}
	}
	require.Equal(t, yes >= majorityOf(len(servers)), outcome == quorum.Done, trace...)
}

func TestTally_ServerCountsIfItHasNotVotedForAnotherNodeYet(t *testing.T) {
	for _, silence := range []quorum.Answer{quorum.Unknown, quorum.Refused, quorum.Unsent} {
		for name, m := range machines(3) {
			require.Empty(t, describe(m.Vote(instant(inTime), 0, silence, "a")), name)
			require.Empty(t, describe(m.Vote(instant(inTime), 1, quorum.Yes, "a")), name)
			require.Equal(t, "done", describe(m.Vote(instant(inTime), 2, quorum.Yes, "b")), name)
			_, ok := m.Duplicate(1)
			require.False(t, ok, name)
		}
	}
}

func TestAcquire_ReleasesADuplicateAndWaitsForIt(t *testing.T) {
	play(t, new(quorum.Acquire).Begin(3, granted), []step{
		{"0 yes by a", ""},
		{"1 yes by a", ""},
		{"2 lost", "release 0 1 2, await clean-up"},
		{"0 released", ""},
		{"1 released", "no quorum"},
	})
}

// What the caller is reported of a node is reported in the order of nodes, whatever
// the order of votes.
func TestTally_AnswersAreKnownByTheirNodeAndNotByTheirOrder(t *testing.T) {
	for _, order := range orders(indexOrder(5)) {
		for name, m := range machines(5) {
			for _, node := range order {
				m.Vote(instant(inTime), node, votes[node], "")
			}
			for node, vote := range votes {
				require.Equal(t, vote, m.Answer(node), "node %d of a %s, in the order of %v", node, name, order)
			}
		}
	}
}
