package redlock

import (
	"context"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// ForceUnlock removes a lock from every node, no matter who holds it. Use it only if the holder is gone. A holder that
// still runs works on beside the next one, until its next renewal ([RenewFor]), its Unlock or its deadline.
//
// ForceUnlock deletes any string of up to 1024 bytes under the key, so the key must not hold data. It returns the
// holders that it removed, also with an error. Their Nodes says from how many nodes. A holder that was removed from a
// majority has lost the lock, and its TTL is the time that was left.
//
// nil means that a majority of the nodes is free of it. The errors, in a [*QuorumError]:
//   - [ErrForeign]: data of another program is in the way;
//   - [ErrNoQuorum]: too few nodes answered. Others may have been removed too.
func (l *Locker) ForceUnlock(ctx context.Context, name string) (removed []Holder, err error) {
	var req request
	if err := l.begin(&req, opForceUnlock, name, nil); err != nil {
		return nil, err
	}
	defer l.engine.End()
	if ctx.Err() != nil {
		return nil, failed(opForceUnlock, name, ended(ctx))
	}
	deleted, answers := l.removeAll(ctx, req.key)
	need := quorum.Majority(len(deleted))
	for _, kind := range kindsOn(deleted) {
		removed = append(removed, holdersOn(deleted, kind, need)...)
	}
	yes, no, foreign := tally(answers)
	e := event.ForceUnlock{At: time.Now(), Name: name, Nodes: yes}
	if i := slices.IndexFunc(removed, func(h Holder) bool { return h.Nodes >= need }); i >= 0 {
		e.Metadata = removed[i].Metadata
	}
	l.events.emit(e)

	reason := ErrNoQuorum
	switch {
	case yes+no >= need:
		return removed, nil
	case yes+no+foreign >= need:
		reason = ErrForeign
	}
	for i := range answers {
		if answers[i].Answer == quorum.No {
			answers[i].Err = nil // the key is free there
		}
	}
	return removed, l.unanswered(ctx, opForceUnlock, name, reason, answers)
}

// removeAll deletes all that is under a key, and returns the deletions for each node. If several holders share the
// lock, there may be more of them than one observation shows. The answers are about the last deletions.
func (l *Locker) removeAll(ctx context.Context, key string) (deleted []NodeState, answers []engine.Answer) {
	several := func(a engine.Answer) bool { return a.Kind.Several() }
	more := func(a engine.Answer) bool { return len(a.Sharers) == engine.MostSharers }
	answers = l.engine.Observe(ctx, key, false)
	if !slices.ContainsFunc(answers, several) {
		return l.remove(ctx, key, answers), answers
	}
	defer l.engine.Bar(key, false)
	for {
		l.engine.Bar(key, true)
		answers = l.engine.Observe(ctx, key, false)
		left := slices.ContainsFunc(answers, more)
		next := l.remove(ctx, key, answers)
		last := !left || ctx.Err() != nil ||
			!slices.ContainsFunc(next, func(n NodeState) bool { return len(n.Holders) > 0 })
		for i := range deleted {
			next[i] = joined(deleted[i], next[i])
		}
		if deleted = next; last {
			return deleted, answers
		}
	}
}

// joined returns what two passes have deleted on a node.
func joined(first, second NodeState) NodeState {
	if first.Kind == "" {
		return second
	}
	known := map[Token]bool{}
	for _, h := range first.Holders {
		known[h.Token] = true
	}
	for _, h := range second.Holders {
		if !known[h.Token] { // otherwise it has come back between the passes
			first.Holders = append(first.Holders, h)
		}
	}
	return first
}

// remove deletes the values that were observed on the nodes, and returns the deletions for each node. It replaces each
// answer to the observation with the answer to the deletion.
func (l *Locker) remove(ctx context.Context, key string, answers []engine.Answer) (deleted []NodeState) {
	deleted = l.states(answers)
	for i, removed := range l.engine.Remove(ctx, key, answers) {
		if answers[i].Answer != quorum.Yes {
			continue
		}
		kind := answers[i].Kind
		answers[i] = removed
		switch {
		case kind.Several(): // some may have been removed, whatever the sum of the answers is
			deleted[i].Holders = holdersIn(kind, removed.Sharers)
		case removed.Answer != quorum.Yes:
			deleted[i] = NodeState{}
		}
	}
	return deleted
}
