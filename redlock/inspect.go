package redlock

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Inspect asks every node who holds a lock, and for how much longer. It changes nothing, waits for all nodes, for the node
// timeout at most, and its result may be outdated when it is read.
//
// The error is [ErrNoQuorum] in a [*QuorumError] if fewer than a majority answered, joined with ctx.Err() if ctx ended first. The
// LockState is nil only after [ErrInvalid], [ErrClosed], and ctx.Err() alone, if ctx had ended before. A node that holds data of
// another program has answered: its NodeState has [nodeerr.ErrForeign]. A replica counts as a node that did not answer, and so does a
// server that still loads its data.
//
// A nil error does not mean that the Verdict is certain: it is [VerdictUnknown] if the nodes that did not answer decide.
func (l *Locker) Inspect(ctx context.Context, name string) (*LockState, error) {
	req, err := l.begin(opInspect, name, nil)
	if err != nil {
		return nil, err
	}
	defer l.calls.Done()
	if ctx.Err() != nil {
		return nil, failed(opInspect, name, ended(ctx))
	}
	replies := l.poll(ctx, l.all(form.ObserveMaster(req.key)), nil)
	s := l.state(name, replies)
	if count(replies, quorum.Yes)+count(replies, quorum.No)+foreign(replies) >= s.Need {
		return s, nil
	}
	return s, l.unanswered(ctx, opInspect, name, ErrNoQuorum, replies)
}

// state returns what the nodes have answered to an observation.
func (l *Locker) state(name string, replies []wire.Reply) *LockState {
	nodes := make([]NodeState, len(replies))
	for i, reply := range replies {
		n := NodeState{Addr: l.nodes[i].Addr(), Err: reply.Err}
		switch reply.Answer {
		case quorum.Yes:
			n.Held, n.TTL = true, reply.TTL
			seen := l.form.Seen(reply)
			n.Token, n.Fence = seen.Token, seen.Number
			n.Metadata = token.Metadata(n.Token)
		case quorum.No:
			n.Err = nil
		}
		nodes[i] = n
	}
	return NewLockState(name, nodes)
}
