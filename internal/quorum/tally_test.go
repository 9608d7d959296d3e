package quorum_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// machines begins one of each kind over n nodes, all of them reached.
func machines(t *testing.T, n int) map[string]machine {
	all := map[string]machine{}
	for name, k := range kinds {
		all[name] = k.begin(t, n, indexOrder(n)).machine
	}
	return all
}

// One server that is configured under two names has one vote.
func TestTally_ServerBehindSeveralNodesIsNeverCountedTwice(t *testing.T) {
	for n := 2; n <= 4; n++ {
		for _, servers := range words(n, "", "a", "b") {
			for _, votes := range words(n, quorum.Yes, quorum.No) {
				for _, order := range orders(indexOrder(n)) {
					for name, m := range machines(t, n) {
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
		outcome = max(outcome, m.Vote(instant(start), node, votes[node], server).Outcome)

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
	for _, silence := range []string{"unknown", "refused", "unsent"} {
		m := new(quorum.Release).Begin(quorum.NewLease(3, granted), start)
		play(t, m, "0 "+silence+" by a; 1 yes by a; 2 yes by b → done")
		_, ok := m.Duplicate(1)
		require.False(t, ok)
	}
}

// What the caller is reported of a node is reported in the order of nodes, whatever
// the order of votes.
func TestTally_AnswersAreKnownByTheirNodeAndNotByTheirOrder(t *testing.T) {
	for _, order := range orders(indexOrder(5)) {
		for name, m := range machines(t, 6) {
			for _, node := range order {
				require.Equal(t, quorum.Pending, m.Answer(node), name)
				m.Vote(instant(start), node, votes[node], "")
			}
			for node, vote := range append(votes, quorum.Pending) {
				require.Equal(t, vote, m.Answer(node), "node %d of a %s, in the order of %v", node, name, order)
				if a, ok := m.(*quorum.Acquire); ok {
					require.Equal(t, vote != quorum.Unsent && vote != quorum.No, a.MayHold(node), "a node may hold the token until it is known that it does not")
				}
			}
		}
	}
}
