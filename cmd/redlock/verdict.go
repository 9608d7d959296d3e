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
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/redlock"
)

// verdict is what the answers of all nodes come to. docs/tool.md explains each.
type verdict string

const (
	isHeld    verdict = "held"
	isFree    verdict = "free"
	isSplit   verdict = "split"
	isData    verdict = "data"
	isUnknown verdict = "unknown"
)

// color returns in which color the verdict is shown.
func (v verdict) color() *color.Color {
	switch v {
	case isHeld, isFree:
		return good
	case isData:
		return bad
	}
	return odd
}

// tally counts the answers of the nodes.
type tally struct {
	nodes, need          int
	nothing, data, blind int // how many hold nothing, hold somebody's data, gave no answer
	forEver              int // how many hold a key without TTL
	tokens               []tokenShare
}

// tokenShare is on how many nodes a token is, the most first.
type tokenShare struct {
	token string
	nodes int
	ttl   time.Duration // the longest
}

func tallyOf(s *redlock.State) tally {
	t := tally{nodes: len(s.Nodes), need: s.Need}
	for _, n := range s.Nodes {
		switch {
		case errors.Is(n.Err, redlock.ErrForeign):
			t.data++
		case n.Err != nil:
			t.blind++
		case !survey.Holds(&n):
			t.nothing++
		default:
			if n.TTL == redlock.NoTTL {
				t.forEver++
			}
			i := slices.IndexFunc(t.tokens, func(s tokenShare) bool { return s.token == n.Token })
			if i < 0 {
				i = len(t.tokens)
				t.tokens = append(t.tokens, tokenShare{token: n.Token})
			}
			t.tokens[i].nodes++
			t.tokens[i].ttl = max(t.tokens[i].ttl, n.TTL)
		}
	}
	slices.SortStableFunc(t.tokens, func(a, b tokenShare) int { return cmp.Compare(b.nodes, a.nodes) })
	return t
}

// verdictOn returns what the answers come to, in a word and in sentences.
func verdictOn(s *redlock.State, full bool) (verdict, string) {
	t := tallyOf(s)
	most := 0
	if len(t.tokens) > 0 {
		most = t.tokens[0].nodes
	}
	v, text := isFree, fmt.Sprintf("Held by nobody:%s", t.shares(full))
	switch {
	case s.Held():
		v, text = isHeld, t.held(s, full)
	case most >= t.need: // an empty token is none for State
		v, text = isHeld, fmt.Sprintf("Held by an empty value: %d of %d nodes hold a key without a token. Nobody holds the lock, and nobody can take it "+
			"before the key has expired, or is removed by \"redlock unlock %s --force\".%s", most, t.nodes, display.Text(s.Name), t.shares(full))
	case t.nodes-t.blind < t.need:
		v, text = isUnknown, fmt.Sprintf("Unknown: %d of %d nodes answered, %d are needed.%s", t.nodes-t.blind, t.nodes, t.need, t.shares(full))
	case t.data > t.nodes-t.need:
		v = isData
		text = fmt.Sprintf("Somebody's data: %d of %d nodes hold a key under this name that is no lock. "+
			"Nobody can take a lock of this name: choose another one, or a --key-prefix that no data has.", t.data, t.nodes)
	case most > 0 && most+t.blind >= t.need:
		v, text = isUnknown, fmt.Sprintf("Unknown: the nodes that did not answer decide.%s", t.shares(full))
	case most > 0 && t.nothing >= t.need:
		v, text = isSplit, fmt.Sprintf("Held by nobody, and free to be taken: no token is on a majority (%d).%s", t.need, t.shares(full))
	case most > 0:
		v, text = isSplit, fmt.Sprintf("Split: no token is on a majority (%d).%s Nobody holds the lock, and nobody can take it before some are released "+
			"or their TTLs are over.", t.need, t.shares(full))
	}
	if t.forEver > 0 {
		text += fmt.Sprintf(" On %d of %d nodes the key has no TTL: it stays there until it is released, or removed by \"redlock unlock %s --force\".",
			t.forEver, t.nodes, display.Text(s.Name))
	}
	return v, text
}

func (t tally) held(s *redlock.State, full bool) string {
	about := tokenText(s.Token, full)
	if s.Metadata != "" && !full {
		about += fmt.Sprintf(", metadata %s", display.Text(s.Metadata))
	}
	if s.Fence > 0 {
		about += fmt.Sprint(", fence ", s.Fence)
	}
	if s.TTL != redlock.NoTTL {
		about += fmt.Sprintf(", for %s more", ttlText(s.TTL))
	}
	return fmt.Sprintf("Held by a majority: %d of %d nodes hold the token %s.", t.tokens[0].nodes, t.nodes, about)
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
	for _, p := range []struct {
		what  string
		nodes int
	}{{"nothing", t.nothing}, {"somebody's data", t.data}, {"no answer", t.blind}} {
		if p.nodes > 0 {
			parts = append(parts, fmt.Sprintf("%s on %d", p.what, p.nodes))
		}
	}
	return " " + strings.Join(parts, ", ") + "."
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
	case ttl == redlock.NoTTL:
		return "no TTL"
	case ttl < time.Second:
		return ttl.Truncate(time.Millisecond).String()
	case ttl < time.Minute:
		return ttl.Truncate(100 * time.Millisecond).String()
	}
	return plain(ttl.Truncate(time.Second))
}
