package redlock_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// nodeStates returns what nodes hold, a letter for each: - for nothing, a letter for a token, 0 for an empty value, # for
// somebody's data, ? for no answer.
func nodeStates(text string) (nodes []redlock.NodeState) {
	for _, letter := range text {
		n := redlock.NodeState{Addr: fmt.Sprint("node-", len(nodes))}
		switch letter {
		case '-':
		case '?':
			n.Err = nodeerr.ErrTimeout
		case '#':
			n.Err = &nodeerr.ServerError{Code: "WRONGTYPE"}
		case '0':
			n.Held, n.TTL = true, time.Minute
		default:
			n.Held, n.Token, n.TTL = true, string(letter), time.Minute
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func TestNewState_TellsWhoHoldsTheLock(t *testing.T) {
	t.Parallel()
	const held, nobody, data, unknown = redlock.VerdictHeld, redlock.VerdictNobody, redlock.VerdictForeign, redlock.VerdictUnknown
	for _, test := range []struct {
		nodes string
		want  redlock.Verdict
	}{
		{"a", held}, {"-", nobody}, {"#", data}, {"?", unknown}, {"0", held},
		{"aa-", held}, {"a--", nobody}, {"ab-", nobody}, {"abc", nobody}, {"---", nobody},
		{"00-", held}, {"0--", nobody}, {"0a-", nobody}, {"0a?", unknown}, {"00?", held},
		{"aa?", held}, {"ab?", unknown}, {"a-?", unknown}, {"--?", nobody}, {"-??", unknown}, {"???", unknown},
		{"##-", data}, {"##?", data}, {"##a", data}, {"#--", nobody}, {"#-?", nobody}, {"#a?", unknown}, {"#aa", held}, {"#??", unknown},
		{"aaa??", held}, {"aa---", nobody}, {"aa-??", unknown}, {"aabb?", unknown}, {"aabb-", nobody}, {"abc-?", nobody}, {"ab-??", unknown}, {"a---?", nobody},
		{"---??", nobody}, {"--???", unknown}, {"###a?", data}, {"##aa?", unknown}, {"##abb", nobody}, {"##-??", nobody}, {"#--??", nobody}, {"#a-??", unknown},
		{"aaa-", held}, {"aa--", nobody}, {"aa??", unknown}, {"aabb", nobody}, {"a-??", unknown}, {"--??", nobody}, {"##--", data}, {"-???", unknown},
	} {
		s := redlock.NewLockState("name", nodeStates(test.nodes))
		require.Equal(t, test.want, s.Verdict, test.nodes)
		require.Equal(t, len(test.nodes)/2+1, s.Need)
		require.Equal(t, test.want == held, s.TTL > 0, test.nodes)
		require.Len(t, s.Nodes, len(test.nodes))
	}
}

// Whatever nodes hold that did not answer: a verdict is certain, or unknown.
func TestNewState_IsUnknownIfAndOnlyIfTheMissingNodesDecide(t *testing.T) {
	t.Parallel()
	const answers = "-ab0#?"
	for n := 1; n <= 5; n++ {
		for _, text := range combinations(answers, n) {
			holders := map[string]bool{} // of all that the missing nodes may hold
			for _, complete := range completions(text) {
				holders[holder(complete)] = true
			}
			s := redlock.NewLockState("name", nodeStates(text))
			switch s.Verdict {
			case redlock.VerdictHeld:
				require.Equal(t, map[string]bool{"of " + s.Token: true}, holders, text)
			case redlock.VerdictNobody, redlock.VerdictForeign:
				require.Equal(t, map[string]bool{"": true}, holders, text)
				require.Empty(t, s.Token)
			default:
				require.Greater(t, len(holders), 1, text)
				require.Empty(t, s.Token)
			}
			require.Equal(t, s.Verdict == redlock.VerdictForeign, nobodyCanTake(text), text)
		}
	}
}

// combinations returns all texts of n of the letters.
func combinations(letters string, n int) []string {
	if n == 0 {
		return []string{""}
	}
	var all []string
	for _, rest := range combinations(letters, n-1) {
		for _, letter := range letters {
			all = append(all, rest+string(letter))
		}
	}
	return all
}

// completions returns what nodes may hold of which some did not answer.
func completions(text string) []string {
	all := []string{""}
	for _, letter := range text {
		may := string(letter)
		if letter == '?' {
			may = "-ab0#"
		}
		var longer []string
		for _, begin := range all {
			for _, letter := range may {
				longer = append(longer, begin+string(letter))
			}
		}
		all = longer
	}
	return all
}

// holder returns who holds a lock if all nodes answer; "" means nobody.
func holder(text string) string {
	on := map[rune]int{}
	for _, letter := range text {
		on[letter]++
	}
	for letter, name := range map[rune]string{'a': "of a", 'b': "of b", '0': "of "} {
		if on[letter] > len(text)/2 {
			return name
		}
	}
	return ""
}

// nobodyCanTake reports whether data is on so many nodes that the others are no majority.
func nobodyCanTake(text string) bool {
	others := 0
	for _, letter := range text {
		if letter != '#' {
			others++
		}
	}
	return others <= len(text)/2
}

func TestNewState_CountsTheHolderOnce(t *testing.T) {
	t.Parallel()
	nodes := nodeStates("aab-?")
	for i := range nodes[:2] {
		nodes[i].Metadata = "of a"
	}
	nodes[3] = redlock.NodeState{Held: true, Token: "a", TTL: redlock.NoLimit, Metadata: "of a"}
	nodes[0].Fence, nodes[1].Fence, nodes[3].Fence = 7, 8, 7
	s := redlock.NewLockState("name", nodes)
	require.Equal(t, redlock.VerdictHeld, s.Verdict, "numbers behind the same token do not make it another's")
	require.Equal(t, "a", s.Token)
	require.Equal(t, "of a", s.Metadata)
	require.Zero(t, s.Fence, "no majority has the same")
	require.Equal(t, time.Minute, s.TTL, "for so long three hold it")
	nodes[1].Fence, nodes[1].TTL, nodes[0].TTL = 7, redlock.NoLimit, redlock.NoLimit
	s = redlock.NewLockState("name", nodes)
	require.EqualValues(t, 7, s.Fence)
	require.EqualValues(t, redlock.NoLimit, s.TTL)

	nodes[0].Err = errors.New("late") // what it holds is not known
	require.Equal(t, redlock.VerdictUnknown, redlock.NewLockState("name", nodes).Verdict)
}
