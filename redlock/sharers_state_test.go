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

// sharersOn returns nodes that hold what text says, a word for each: - for nothing, ? for no answer, # for somebody's data, = before a token, | before the
// holders of a shared lock, a letter for each, and : before those of slots, a letter and a slot for each.
func sharersOn(text string) (nodes []redlock.NodeState) {
	for word := range strings.FieldsSeq(text) {
		n := redlock.NodeState{Addr: fmt.Sprint("node-", len(nodes)), TTL: time.Hour}
		holds := func(token string, slot int) {
			ttl := time.Duration(len(n.Holders)+len(nodes)+1) * time.Second
			n.Holders = append(n.Holders, redlock.Holder{Token: redlock.Token(token), Metadata: "of " + token, Slot: slot, TTL: ttl, Nodes: 1})
		}
		switch word[0] {
		case '#':
			n.Err = nodeerr.ErrForeign
		case '=':
			n.Kind = redlock.KindExclusive
			holds(word[1:], 0)
		case '?':
			n.Err = nodeerr.ErrTimeout
			fallthrough // what it seems to hold does not count
		case '|':
			n.Kind = redlock.KindShared
			for _, who := range word[1:] {
				holds(string(who), 0)
			}
		case ':':
			n.Kind = redlock.KindSlot
			for pair := range slices.Chunk([]byte(word[1:]), 2) {
				holds(string(pair[0]), strings.IndexByte("0123456789", pair[1]))
			}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// The danger: a token that has a slot on one node and another one on the next counts as a slot, though nobody else is kept from either.
func TestNewState_TellsWhoSharesTheLock(t *testing.T) {
	t.Parallel()
	const held, nobody, data, unknown = redlock.VerdictHeld, redlock.VerdictNobody, redlock.VerdictForeign, redlock.VerdictUnknown
	const lock, reads, slot = redlock.KindExclusive, redlock.KindShared, redlock.KindSlot
	for _, test := range []struct {
		nodes   string
		want    redlock.Verdict
		kind    redlock.Kind
		holders string // of slots each with its slot
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
		{"=x =x |x", held, lock, "x"},
		{"=x =y |x", nobody, reads, ""},
		{"# # |x", data, reads, ""},
		{"# |x |x", held, reads, "x"},
		{"# |x ?", unknown, reads, ""},
		{"- - -", nobody, "", ""},
		{"?x |x -", unknown, reads, ""},
		{"= | |", nobody, reads, ""},
		{"= = |", held, lock, ""},
		{"=x =x |y ? -", unknown, reads, ""},
		{"|xy |xy |x |y ?", held, reads, "xy"},
		{":x0 :x0 :x0", held, slot, "x0"},
		{":x3 :x3 -", held, slot, "x3"},
		{":x0y1 :x0 :y1", held, slot, "x0y1"},
		{":x0 :x1 :x2", nobody, slot, ""},
		{":x0 :x1 ?", unknown, slot, ""},
		{":x0 :x1 :x1", held, slot, "x1"},
		{":x- :x- :x-", nobody, slot, ""},
		{":x- :x- ?", nobody, slot, ""},
		{":x0 :x- ?", unknown, slot, ""},
		{": : :", nobody, slot, ""},
		{"|x :x0 :x0", held, slot, "x0"},
		{"|x |x :x0", held, reads, "x"},
		{"|x :x0 -", nobody, reads, ""},
		{"|x :x0 ?", unknown, reads, ""},
		{"|x :x0 :y0", nobody, slot, ""},
		{"=x :x0 :x0", held, slot, "x0"},
		{"=x =x :x0", held, lock, "x"},
		{"=x :x0 -", nobody, slot, ""},
	} {
		s := redlock.NewLockState("name", sharersOn(test.nodes))
		require.Equal(t, test.want, s.Verdict, test.nodes)
		require.Equal(t, test.kind, s.Kind, test.nodes)
		var holders []string
		for _, h := range s.Holders {
			token := string(h.Token)
			require.Equal(t, "of "+token, h.Metadata)
			require.Positive(t, h.TTL)
			if test.kind == slot {
				token += fmt.Sprint(h.Slot)
			}
			holders = append(holders, token)
		}
		slices.Sort(holders)
		require.Equal(t, test.holders, strings.Join(holders, ""), test.nodes)
		require.Equal(t, test.want == held, s.Holders != nil, test.nodes)
	}
	s := redlock.NewLockState("name", sharersOn("|x |yx |zx"))
	require.Equal(t, []redlock.Holder{{Token: "x", Metadata: "of x", TTL: 3 * time.Second, Nodes: 3}}, s.Holders, "for so long two have it")
	waits := sharersOn("|x |x |x ?x")
	for i, want := range []bool{false, false, true, true} { // the last one has not answered
		waits[i].WriterWaits = true
		require.Equal(t, want, redlock.NewLockState("name", waits).WriterWaits)
	}
	require.False(t, redlock.NewLockState("name", waits[2:]).WriterWaits)
}
