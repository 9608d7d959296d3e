package redlock

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// Removal is the result of [Locker.ForceUnlock]: the locks and keys that it has deleted.
type Removal struct {
	Name string
	// Verdict says whether a holder has lost the lock. VerdictHeld means that one has. VerdictUnknown means that one may
	// have, because on some nodes it is not known whether anything was deleted. VerdictNobody and VerdictForeign mean that
	// none has.
	Verdict Verdict
	// Kind is the kind of the locks that were lost. If none was lost, it is the kind of a mark that was deleted, or else
	// KindExclusive. See [LockState].
	Kind Kind
	// Token, Metadata and Fence belong to the holder that has lost the lock. They are empty unless the Verdict is
	// VerdictHeld and Kind is KindExclusive.
	Token    string
	Metadata string
	Fence    uint64
	// Sharers are the holders that have lost a shared lock or a slot. Each was on a majority of the nodes. It is nil if
	// there is none.
	Sharers []Sharer
	// Nodes[i] is the lock that was deleted from the i-th node given to New or Open, with the TTL that it had left. Its
	// Sharers are the sharers that were removed from the node. Held is false if nothing was there. If Err is set, nothing
	// is known to be deleted. nodeerr.ErrForeign means that data of another program is there and was left alone.
	// nodeerr.ErrHeld means that another holder has taken the lock meanwhile. nodeerr.ErrAbsent means that the lock has
	// ended meanwhile.
	Nodes []NodeState
}

// ForceUnlock removes a lock from every node, no matter who holds it. It is for an operator who knows that the holder
// is gone. A holder that is not gone works on beside the next one until it notices. With [RenewFor] it notices within
// moments if the nodes announce changes, and at its next renewal at the latest. Without RenewFor it notices at its
// Unlock or its deadline.
//
// The prefix and the name together are a Redis key. ForceUnlock deletes any string of up to 1024 bytes under it, so it
// must not be the key of a program's data.
//
// ForceUnlock does not itself end a Lock of this Locker. Calls of this Locker that wait for the name wait on until the
// Unlock or the deadline of that Lock. So unlock it, or use another Locker. With [WithLocalHandoff] call its Token
// before its Unlock. Otherwise its Unlock hands the lock off to one of these calls.
//
// ForceUnlock looks at all nodes first, and then deletes on each node only the value that it has seen there. So a
// deletion that arrives late does not delete the key of a later holder. The exception is a client of another kind that
// uses the same value again. ForceUnlock ends shared locks and slots one by one, and looks again until all are gone.
// Meanwhile the nodes grant no further ones. If ctx ends first, the Removal has the ones that were ended. It also
// deletes a mark without sharers. The call is logged at level Warn.
//
// The error is nil if a majority of the nodes no longer holds the value that was seen there, or held nothing. Otherwise
// it is a [*QuorumError] with the reason of every node, joined with ctx.Err() if ctx ended first. It matches
// [ErrForeign] if the nodes that are missing for a majority have data of another program, and [ErrNoQuorum] if too few
// nodes answered.
//
// If ctx ends while ForceUnlock looks, nothing is deleted. Deletions that were sent go on. The Removal is nil only
// after [ErrInvalid], [ErrClosed], and ctx.Err() alone, if ctx had ended before.
func (l *Locker) ForceUnlock(ctx context.Context, name string) (removed *Removal, err error) {
	var req request
	if err := l.begin(&req, opForceUnlock, name, nil); err != nil {
		return nil, err
	}
	defer l.engine.End()
	if ctx.Err() != nil {
		return nil, failed(opForceUnlock, name, ended(ctx))
	}
	deleted, answers := l.removeAll(ctx, req.key, name)
	removed = &Removal{
		name, deleted.Verdict, deleted.Kind, deleted.Token, deleted.Metadata, deleted.Fence, deleted.Sharers, deleted.Nodes,
	}
	yes, no, foreign := tally(answers)
	l.events.emit(event.ForceUnlock{At: time.Now(), Name: name, Nodes: yes, Metadata: removed.Metadata})

	reason := ErrNoQuorum
	switch {
	case yes+no >= deleted.Need:
		return removed, nil
	case yes+no+foreign >= deleted.Need:
		reason = ErrForeign
	}
	for i := range answers {
		if answers[i].Answer == quorum.No {
			answers[i].Err = nil // the key is free there
		}
	}
	return removed, l.unanswered(ctx, opForceUnlock, name, reason, answers)
}

// removeAll deletes all that is under a key, and returns a LockState of the deletions. If several holders share the
// lock, there may be more of them than one observation shows. The answers are about the last deletions.
func (l *Locker) removeAll(ctx context.Context, key, name string) (deleted *LockState, answers []engine.Answer) {
	several := func(a engine.Answer) bool { return a.Kind.Several() }
	more := func(a engine.Answer) bool { return len(a.Sharers) == engine.MostSharers }
	answers = l.engine.Observe(ctx, key, false)
	if !slices.ContainsFunc(answers, several) {
		return l.remove(ctx, key, l.state(name, answers), answers), answers
	}
	defer l.engine.Bar(key, false)
	for {
		l.engine.Bar(key, true)
		answers = l.engine.Observe(ctx, key, false)
		for i := range answers {
			answers[i].WriterWaits = false // it is this call that bars the key
		}
		left := slices.ContainsFunc(answers, more)
		next := l.remove(ctx, key, l.state(name, answers), answers)
		last := !left || ctx.Err() != nil || len(next.Sharers) == 0
		if deleted != nil {
			next = joined(deleted, next)
		}
		if deleted = next; last {
			return deleted, answers
		}
	}
}

// joined returns the LockState of two deletions of the holders that share a lock.
func joined(first, second *LockState) *LockState {
	for i := range second.Nodes {
		before, n := &first.Nodes[i], &second.Nodes[i]
		if n.Sharers = append(before.Sharers, n.Sharers...); before.Held {
			n.Held, n.Kind, n.TTL, n.Err = true, before.Kind, before.TTL, nil
		}
	}
	return NewLockState(second.Name, second.Nodes)
}

// remove deletes the values that were observed on the nodes, and returns a LockState of the deletions. It replaces each
// answer to the observation with the answer to the deletion.
func (l *Locker) remove(ctx context.Context, key string, seen *LockState, answers []engine.Answer) *LockState {
	kept := make([]error, len(answers))
	for i, deleted := range l.engine.Remove(ctx, key, answers) {
		if answers[i].Answer != quorum.Yes {
			continue
		}
		kind := answers[i].Kind
		answers[i] = deleted
		switch deleted.Answer {
		case quorum.Yes:
			seen.Nodes[i].Sharers = sharers(kind, deleted.Sharers)
		case quorum.No: // certainly nothing was deleted
			seen.Nodes[i], kept[i] = NodeState{Addr: seen.Nodes[i].Addr}, deleted.Err
		default:
			seen.Nodes[i] = NodeState{Addr: seen.Nodes[i].Addr, Err: deleted.Err}
		}
	}
	removed := NewLockState(seen.Name, seen.Nodes)
	for i, err := range kept {
		seen.Nodes[i].Err = cmp.Or(seen.Nodes[i].Err, err)
	}
	return removed
}
