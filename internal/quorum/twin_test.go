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
		"acquire": newAcquire(n, granted),
		"extend":  newExtend(quorum.NewLease(n, granted), longer),
		"release": quorum.NewRelease(n, everywhere),
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

// Trap 19.
func TestAServerBehindSeveralNodesIsNeverCountedTwice(t *testing.T) {
	for n := 2; n <= 5; n++ {
		forwards, backwards := indexOrder(n), indexOrder(n)
		slices.Reverse(backwards)
		turns := [][]int{forwards, backwards}
		if n < 4 {
			turns = orders(forwards)
		}
		for _, servers := range words(n, "", "a", "b") {
			for _, says := range words(n, quorum.Yes, quorum.No) {
				for _, order := range turns {
					for name, m := range machines(n) {
						voteAsTwins(t, name, m, servers, says, order)
					}
				}
			}
		}
	}
}

// voteAsTwins lets each node say its word in an order and looks at what was counted.
func voteAsTwins(t *testing.T, name string, m machine, servers []string, says []quorum.Vote, order []int) {
	story := []any{"%s: servers %q say %v in the order of %v", name, servers, says, order}
	var outcome quorum.Outcome
	speakers := map[string][]int{} // the nodes that have spoken for a server
	yes := 0
	for _, node := range order {
		server := servers[node]
		outcome = max(outcome, m.Vote(instant(inTime), node, says[node], server).Outcome)

		twin, isTwin := m.Twin(node)
		require.Equal(t, len(speakers[server]) > 0, isTwin, story...)
		if server != "" { // an unknown server is nobody's twin
			before := speakers[server]
			speakers[server] = append(before, node)
			if isTwin {
				require.Contains(t, before, twin, story...)
				require.Equal(t, quorum.Refused, m.Said(node), story...)
				continue
			}
		}
		require.Equal(t, says[node], m.Said(node), story...)
		if says[node] == quorum.Yes {
			yes++
		}
	}
	require.Equal(t, yes >= majorityOf(len(servers)), outcome == quorum.Done, story...)
}

func TestAServerThatHasNotSpokenForAnotherNodeYetCounts(t *testing.T) {
	for _, silence := range []quorum.Vote{quorum.Lost, quorum.Refused, quorum.Unsent} {
		for name, m := range machines(3) {
			require.Empty(t, describe(m.Vote(instant(inTime), 0, silence, "a")), name)
			require.Empty(t, describe(m.Vote(instant(inTime), 1, quorum.Yes, "a")), name)
			require.Equal(t, "done", describe(m.Vote(instant(inTime), 2, quorum.Yes, "b")), name)
			_, ok := m.Twin(1)
			require.False(t, ok, name)
		}
	}
}

func TestAcquireReleasesATwinAndWaitsForIt(t *testing.T) {
	play(t, newAcquire(3, granted), []step{
		{"0 yes by a", ""},
		{"1 yes by a", ""},
		{"2 lost", "release 0 1 2, settling"},
		{"0 released", ""},
		{"1 released", "no quorum"},
	})
}

// Trap 8. The first vote of the server counts, even where the other is the one that
// made the TTL longer: a late acquire landed between them.
func TestExtendGivesTheOldTTLBackToATwin(t *testing.T) {
	play(t, newExtend(quorum.NewLease(3, granted), longer), []step{
		{"0 no by a", ""},
		{"1 yes by a", ""},
		{"2 lost", "restore 1 2, no quorum"},
	})
}
