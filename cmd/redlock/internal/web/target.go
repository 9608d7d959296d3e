package web

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// target is what an unlock is about: a lock, or one of its sharers.
type target struct {
	name  string
	token string // of the one; "" means the lock
}

// parseToken returns the token of the sharer that an unlock is about, "" if it is about the whole lock.
func parseToken(text string) (string, error) {
	decoded, err := encoding.DecodeString(text)
	if err != nil || len(decoded) > wire.MaxToken {
		return "", errors.New("the token of the one to end cannot be read")
	}
	return string(decoded), nil
}

// in returns the part of the state of a lock that the target is about. Whatever else a node has is left out.
func (t target) in(state *redlock.LockState) *redlock.LockState {
	if t.token == "" {
		return state
	}
	others := func(h redlock.Holder) bool { return string(h.Token) != t.token }
	part := *state
	part.Holders = slices.DeleteFunc(slices.Clone(state.Holders), others)
	part.Nodes = slices.Clone(state.Nodes)
	for i := range part.Nodes {
		n := &part.Nodes[i]
		n.Holders = slices.DeleteFunc(slices.Clone(n.Holders), others)
		if !display.Several(n.Kind) || len(n.Holders) == 0 {
			n.Kind, n.Holders = "", nil
		}
	}
	return &part
}

// noun returns what the target is, by the part of the state that it is about.
func (t target) noun(part *redlock.LockState) string {
	if t.token == "" {
		return "lock"
	}
	return display.Noun(kindIn(part))
}

// title returns what is to be unlocked or ended.
func (t target) title(part *redlock.LockState) string {
	name := display.Clipped(t.name, maxText)
	if t.token == "" {
		return name
	}
	return fmt.Sprintf("the %s %s of %s", t.noun(part), called(redlock.Holder{Token: redlock.Token(t.token), Metadata: token.Metadata(t.token)}), name)
}

// statement says what is known of the target.
func (t target) statement(part *redlock.LockState) (state, text string) {
	if t.token == "" {
		return statement(part)
	}
	on, known := 0, 0
	for _, n := range part.Nodes {
		if n.Kind != "" {
			on++
		}
		if n.Err == nil {
			known++
		}
	}
	text = fmt.Sprintf("It is on %d of %d nodes", on, len(part.Nodes))
	switch {
	case on >= part.Need:
		return stateHeld, text + ", a majority."
	case on+len(part.Nodes)-known >= part.Need:
		return stateUnknown, text + ": the nodes that do not answer decide whether it holds the lock."
	case on > 0:
		return stateSplit, text + ", no majority: it does not hold the lock."
	}
	return stateFree, "It is gone: it does not hold the lock."
}

// result says what is known after a removal from nodes: on how many it is known to be gone.
func (t target) result(part *redlock.LockState, free int) (state, text string) {
	of := len(part.Nodes)
	several := display.Several(kindIn(part))
	switch {
	case free < part.Need && several:
		return stateUnknown, fmt.Sprintf("What was shown may still be there: only %d of %d nodes are known not to have it, %d are needed.", free, of, part.Need)
	case free < part.Need:
		return stateUnknown, fmt.Sprintf("The lock may still be held: only %d of %d nodes are known not to hold it, %d are needed.", free, of, part.Need)
	case several:
		return stateFree, fmt.Sprintf("What was shown is ended: %d of %d nodes do not have it any more.", free, of)
	}
	return stateFree, fmt.Sprintf("The lock is free: %d of %d nodes do not hold it any more.", free, of)
}

// kindIn returns the kind of what nodes have, or had.
func kindIn(part *redlock.LockState) redlock.Kind {
	for _, n := range part.Nodes {
		if n.Kind != "" {
			return n.Kind
		}
	}
	return part.Kind
}

// sharersOf shows all sharers of a lock, by its state: an unlock ends all that it has shown.
func sharersOf(part *redlock.LockState) (all shared) {
	away := 0
	for _, n := range part.Nodes {
		if n.Err != nil && n.Kind == "" && !errors.Is(n.Err, nodeerr.ErrForeign) {
			away++
		}
	}
	for _, kind := range []redlock.Kind{redlock.KindShared, redlock.KindSlot} {
		for i, h := range survey.Sharers(part, kind) {
			v := sharer(kind, h, len(part.Nodes))
			if part.Kind != kind || i >= len(part.Holders) {
				v.State = shortOf(h.Nodes+away, part.Need)
			}
			all.Sharers = append(all.Sharers, v)
			all.Slots = all.Slots || kind == redlock.KindSlot
		}
	}
	return all
}
