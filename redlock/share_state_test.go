package redlock_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// shareStates returns what nodes hold, a word for each: - for nothing, ? for no answer, # for somebody's data, = before a token, | before
// readers, a letter for each.
func shareStates(text string) (nodes []redlock.NodeState) {
	for word := range strings.FieldsSeq(text) {
		n := redlock.NodeState{Addr: fmt.Sprint("node-", len(nodes)), TTL: time.Hour}
		switch word[0] {
		case '#':
			n.Err = nodeerr.ErrForeign
		case '=':
			n.Held, n.Token = true, word[1:]
		case '?':
			n.Err = nodeerr.ErrTimeout
			fallthrough // what it seems to hold does not count
		case '|':
			n.Held, n.Kind = true, redlock.KindShared
			for i, who := range word[1:] {
				n.Sharers = append(n.Sharers, redlock.Sharer{Token: string(who), Metadata: "of " + string(who), TTL: time.Duration(i+len(nodes)+1) * time.Second, Nodes: 1})
			}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func TestNewState_TellsWhichReadersHoldTheLock(t *testing.T) {
	t.Parallel()
	const held, nobody, data, unknown = redlock.VerdictHeld, redlock.VerdictNobody, redlock.VerdictForeign, redlock.VerdictUnknown
	const lock, reads = redlock.KindExclusive, redlock.KindShared
	for _, test := range []struct {
		nodes   string
		want    redlock.Verdict
		kind    redlock.Kind
		holders string
	}{
		{"|x |x |x", held, reads, "x"},
		{"|x |x -", held, reads, "x"},
		{"|xy |xz |yz", held, reads, "xyz"},
		{"|x |y |z", nobody, reads, ""},
		{"|x |y ?", unknown, reads, ""},
		{"|x - ?", unknown, reads, ""},
		{"| | ?", nobody, reads, ""},
		{"| | |", nobody, reads, ""},
		{"| - -", nobody, reads, ""},
		{"| ? ?", unknown, reads, ""},
		{"|x ? ?", unknown, reads, ""},
		{"=x |x |x", held, reads, "x"},
		{"=x |x -", nobody, reads, ""},
		{"=x =x |x", held, lock, ""},
		{"=x =y |x", nobody, reads, ""},
		{"# # |x", data, reads, ""},
		{"# |x |x", held, reads, "x"},
		{"# |x ?", unknown, reads, ""},
		{"- - -", nobody, lock, ""},
		{"?x |x -", unknown, reads, ""},
		{"= | |", nobody, reads, ""},
		{"= = |", held, lock, ""},
		{"=x =x |y ? -", unknown, reads, ""},
		{"|xy |xy |x |y ?", held, reads, "xy"},
	} {
		s := redlock.NewLockState("name", shareStates(test.nodes))
		require.Equal(t, test.want, s.Verdict, test.nodes)
		require.Equal(t, test.kind, s.Kind, test.nodes)
		var holders []string
		for _, r := range s.Sharers {
			require.Equal(t, "of "+r.Token, r.Metadata)
			holders = append(holders, r.Token)
		}
		slices.Sort(holders)
		require.Equal(t, test.holders, strings.Join(holders, ""), test.nodes)
		require.Equal(t, test.want == held, s.TTL > 0, test.nodes)
	}
	s := redlock.NewLockState("name", shareStates("|x |yx |zx"))
	require.Equal(t, []redlock.Sharer{{Token: "x", Metadata: "of x", TTL: 3 * time.Second, Nodes: 3}}, s.Sharers, "for so long two have it")
	require.Equal(t, 3*time.Second, s.TTL)
}
