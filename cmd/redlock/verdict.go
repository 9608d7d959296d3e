package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fatih/color"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// colorOf returns in which color a verdict is shown.
func colorOf(v redlock.Verdict) *color.Color {
	switch v {
	case redlock.VerdictHeld, redlock.VerdictNobody:
		return good
	case redlock.VerdictForeign:
		return bad
	}
	return odd
}

// tally counts the answers of the nodes.
type tally struct {
	nodes, need          int
	nothing, data, blind int // how many hold nothing, hold data of another program, gave no answer
	dataForEver          int // how many hold data without a TTL
	forEver              int // how many hold a key without TTL
	tokens               []tokenShare
	marks                []tokenShare // of nodes that sharers of a kind are on, or that have only their key
	sharers              []tokenShare
}

// tokenShare is on how many nodes a token, or a mark, is, the most first.
type tokenShare struct {
	token string
	nodes int
	ttl   time.Duration // the longest
}

func tallyOf(s *redlock.LockState) tally {
	t := tally{nodes: len(s.Nodes), need: s.Need}
	for _, n := range s.Nodes {
		switch {
		case errors.Is(n.Err, nodeerr.ErrForeign):
			if t.data++; n.TTL == redlock.NoLimit {
				t.dataForEver++
			}
		case n.Err != nil:
			t.blind++
		case n.Kind == "":
			t.nothing++
		default:
			if n.TTL == redlock.NoLimit {
				t.forEver++
			}
			if !display.Several(n.Kind) {
				t.tokens = count(t.tokens, string(n.Holders[0].Token), n.TTL)
				continue
			}
			mark := display.Nouns(n.Kind)
			if len(n.Holders) == 0 {
				mark = "a key left by " + mark
			}
			t.marks = count(t.marks, mark, n.TTL)
			for _, h := range n.Holders {
				t.sharers = count(t.sharers, string(h.Token), h.TTL)
			}
		}
	}
	for _, all := range [][]tokenShare{t.tokens, t.marks, t.sharers} {
		slices.SortStableFunc(all, func(a, b tokenShare) int { return cmp.Compare(b.nodes, a.nodes) })
	}
	return t
}

// count counts a token of one more node.
func count(all []tokenShare, token string, ttl time.Duration) []tokenShare {
	i := slices.IndexFunc(all, func(s tokenShare) bool { return s.token == token })
	if i < 0 {
		i = len(all)
		all = append(all, tokenShare{token: token})
	}
	all[i].nodes++
	all[i].ttl = max(all[i].ttl, ttl)
	return all
}

// explain says in sentences what the answers come to. docs/tool.md explains each.
func explain(s *redlock.LockState, full bool) (text string) {
	t := tallyOf(s)
	switch shares := t.shares(full); {
	case s.Verdict == redlock.VerdictHeld && display.Several(s.Kind):
		text = t.shared(s)
	case s.Verdict == redlock.VerdictHeld && s.Holders[0].Token == "":
		text = fmt.Sprintf("Held by an empty value: %d of %d nodes hold a key without a token. Nobody can take the lock "+
			"before the key has expired, or is removed by \"redlock unlock %s --force\".%s", t.tokens[0].nodes, t.nodes, display.Text(s.Name), shares)
	case s.Verdict == redlock.VerdictHeld:
		text = t.held(s, full)
	case s.Verdict == redlock.VerdictForeign:
		text = fmt.Sprintf("Data of another program: %d of %d nodes hold a key under this name that is no lock. "+
			"Nobody can take a lock of this name", t.data, t.nodes)
		if t.nodes-t.dataForEver < t.need {
			text += ": choose another one, or a --key-prefix that no data has."
		} else {
			text += " before it has expired, on a majority of the nodes."
		}
	case s.Verdict == redlock.VerdictUnknown && t.nodes-t.blind < t.need:
		text = fmt.Sprintf("Unknown: %d of %d nodes answered, %d are needed.%s", t.nodes-t.blind, t.nodes, t.need, shares)
	case s.Verdict == redlock.VerdictUnknown:
		text = "Unknown: the nodes that did not answer decide." + shares
	case len(t.marks) > 0:
		text = fmt.Sprintf("Held by nobody: no token and no %s is on a majority (%d).%s The keys of %s keep writers out of these nodes "+
			"until they expire, or are removed by \"redlock unlock %s --force\".", display.Noun(s.Kind), t.need, shares, display.Nouns(s.Kind), display.Text(s.Name))
	case len(t.tokens) == 0:
		text = "Held by nobody:" + shares
	case t.nothing >= t.need:
		text = fmt.Sprintf("Held by nobody, and free to be taken: no token is on a majority (%d).%s", t.need, shares)
	case t.nothing+t.blind >= t.need:
		text = fmt.Sprintf("Held by nobody: no token is on a majority (%d).%s", t.need, shares)
	default:
		text = fmt.Sprintf("Held by nobody: no token is on a majority (%d).%s Nobody can take the lock before some are released "+
			"or their TTLs are over.", t.need, shares)
	}
	if n := len(s.Holders); s.Verdict == redlock.VerdictHeld && n > 0 && s.Holders[n-1].TTL != redlock.NoLimit {
		text += thawed
	}
	if s.WriterWaits {
		text += " A writer waits, so nobody else comes in."
	}
	if t.forEver > 0 {
		text += fmt.Sprintf(" On %d of %d nodes the key has no TTL: it stays there until it is released, or removed by \"redlock unlock %s --force\".",
			t.forEver, t.nodes, display.Text(s.Name))
	}
	return text
}

// thawed is said of each holder, as the nodes do not show whether it lives: one that was frozen may carry out its last renewal late.
const thawed = " A holder that has died shows until then, which is up to one TTL after frozen nodes have thawed."

func (t tally) held(s *redlock.LockState, full bool) string {
	h := s.Holders[0]
	about := tokenText(string(h.Token), full)
	if h.Metadata != "" && !full {
		about += fmt.Sprintf(", metadata %s", display.Text(h.Metadata))
	}
	if h.Fence > 0 {
		about += fmt.Sprint(", fence ", h.Fence)
	}
	if h.TTL != redlock.NoLimit {
		about += fmt.Sprintf(", for %s more", ttlText(h.TTL))
	}
	return fmt.Sprintf("Held by a majority: %d of %d nodes hold the token %s.", t.tokens[0].nodes, t.nodes, about)
}

func (t tally) shared(s *redlock.LockState) string {
	holders := len(s.Holders)
	text := fmt.Sprintf("Held by %s: each is on at least %d of %d nodes, the last one for %s more.",
		display.Counted(holders, display.Noun(s.Kind)), t.need, t.nodes, ttlText(s.Holders[holders-1].TTL))
	switch {
	case s.Kind == redlock.KindSlot:
		text += " They keep writers and readers out, and who asks for one of as many slots as are taken."
	case s.WriterWaits:
		text += " They keep writers out."
	default:
		text += " They keep writers out, and nobody else."
	}
	if more := len(t.sharers) - holders; more > 0 {
		text += fmt.Sprintf(" On fewer nodes there are %d more, who do not hold it.", more)
	}
	return text
}

// shares says on how many nodes what is.
func (t tally) shares(full bool) string {
	var parts []string
	for i, s := range t.tokens {
		if i == 3 {
			parts = append(parts, fmt.Sprintf("%d other tokens on others", len(t.tokens)-3))
			break
		}
		parts = append(parts, fmt.Sprintf("%s on %d", tokenText(s.token, full), s.nodes))
	}
	others := []tokenShare{{token: "nothing", nodes: t.nothing}, {token: "data of another program", nodes: t.data}, {token: "no answer", nodes: t.blind}}
	for _, s := range slices.Concat(t.marks, others) {
		if s.nodes > 0 {
			parts = append(parts, fmt.Sprintf("%s on %d", s.token, s.nodes))
		}
	}
	return " " + strings.Join(parts, ", ") + "."
}

// heldBy says what a node holds.
func heldBy(n *redlock.NodeState, full bool) string {
	if display.Several(n.Kind) {
		return display.Counted(len(n.Holders), display.Noun(n.Kind))
	}
	return tokenText(string(n.Holders[0].Token), full)
}

// ttlOn returns how much longer a node has its holders, the last one if several share the lock.
func ttlOn(n *redlock.NodeState) string {
	if display.Several(n.Kind) {
		return ttlText(display.Last(n.Holders, n.TTL))
	}
	return ttlText(n.TTL)
}

// exclusive returns the holder of an exclusive lock. It returns an empty Holder if there is none.
func exclusive(kind redlock.Kind, holders []redlock.Holder) (h redlock.Holder) {
	if kind == redlock.KindExclusive && len(holders) > 0 {
		h = holders[0]
	}
	return h
}

// tokenText returns a token for people to read: with full all of it, otherwise what tells it from others.
func tokenText(held string, full bool) string {
	const chars = token.OwnerChars + 1 + 6
	switch {
	case held == "":
		return `""`
	case full:
		return display.Text(held)
	case token.Owner(held) != "":
		return display.Text(held[:chars]) + "…"
	}
	return clip(display.Text(held), 20)
}

// ttlText returns a TTL for people to read.
func ttlText(ttl time.Duration) string {
	switch {
	case ttl == redlock.NoLimit:
		return "no TTL"
	case ttl < time.Second:
		return ttl.Truncate(time.Millisecond).String()
	case ttl < time.Minute:
		return ttl.Truncate(100 * time.Millisecond).String()
	}
	return plain(ttl.Truncate(time.Second))
}
