package redlock

import (
	"cmp"
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// Removal is what [Locker.ForceUnlock] has deleted.
type Removal struct {
	Name string
	// Verdict is about what was deleted: VerdictHeld means that a holder has lost the lock, VerdictUnknown that one may have, as it is
	// not known what was deleted on some nodes, and VerdictNobody or VerdictForeign that none has.
	Verdict Verdict
	// Kind is that of the locks that were lost; if none was, that of a mark that was deleted; otherwise it is KindExclusive.
	// See [LockState].
	Kind Kind
	// Token, Metadata and Fence are those of the holder who has lost the lock. They are empty unless the Verdict is VerdictHeld and Kind is
	// KindExclusive.
	Token    string
	Metadata string
	Fence    uint64
	// Sharers have lost a shared lock or a slot: they were on a majority of the nodes. It is nil if none has.
	Sharers []Sharer
	// Nodes[i] is what was deleted from the i-th node given to New or Open, with the TTL that it had left, and the sharers that
	// were removed from it as its Sharers. Held is false if nothing was there. If Err is set, nothing is known to be deleted:
	// nodeerr.ErrForeign means that data of another program is there and was left alone, nodeerr.ErrHeld that another has taken the lock meanwhile, nodeerr.ErrAbsent that it has ended meanwhile.
	Nodes []NodeState
}

// ForceUnlock removes a lock from every node, whoever holds it. It is for an operator who knows that the holder is gone. A holder that
// is not gone works on beside the next one until it notices: with [AutoExtend] within moments if the nodes announce changes, and at
// its next renewal at the latest; without, at its Unlock or its deadline. A name is a key of Redis: ForceUnlock deletes any string of
// up to 1024 bytes under it, so it must not be the name of a program's data.
//
// A Lock of this Locker itself is not ended by it: calls that wait here for the name wait on until its Unlock or its deadline. So
// unlock it, or use another Locker. With [WithLocalHandoff] call its Token first; otherwise its Unlock hands the lock off to one of
// them.
//
// It looks at all nodes first, and then deletes on each node only the value that it has seen there. So a deletion that
// arrives late does not delete the key of a later holder, unless a client of another kind uses the same value again. Shared locks
// and slots are ended one by one, those that [Locker.Inspect] shows; one that comes meanwhile stays. A mark that nobody is behind is
// deleted. The call is logged at level Warn.
//
// ForceUnlock returns nil if a majority of the nodes no longer holds what was seen there, or held nothing. Otherwise
// the error is a [*QuorumError] with the reason of every node: [ErrForeign] if the other nodes of a majority have data of another
// program, [ErrNoQuorum] if too few nodes answered, joined with ctx.Err() if ctx ended first. If ctx ends while
// ForceUnlock looks, nothing is deleted; what was sent goes on. The Removal is nil only after [ErrInvalid], [ErrClosed], and ctx.Err()
// alone, if ctx had ended before.
func (l *Locker) ForceUnlock(ctx context.Context, name string) (removed *Removal, err error) {
	var req request
	if err := l.begin(&req, opForceUnlock, name, nil); err != nil {
		return nil, err
	}
	defer l.engine.End()
	if ctx.Err() != nil {
		return nil, failed(opForceUnlock, name, ended(ctx))
	}
	answers := l.engine.Observe(ctx, req.key, false)
	deleted := l.remove(ctx, req.key, l.state(name, answers), answers)
	removed = &Removal{name, deleted.Verdict, deleted.Kind, deleted.Token, deleted.Metadata, deleted.Fence, deleted.Sharers, deleted.Nodes}
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
			answers[i].Err = nil // it is free
		}
	}
	return removed, l.unanswered(ctx, opForceUnlock, name, reason, answers)
}

// remove deletes what was observed on the nodes, and returns what was deleted. The answers become those to the deletions.
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
