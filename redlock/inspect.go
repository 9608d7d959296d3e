package redlock

import (
	"context"
	"errors"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock/event"
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
	defer l.engine.End()
	if ctx.Err() != nil {
		return nil, failed(opInspect, name, ended(ctx))
	}
	answers := l.engine.Observe(ctx, req.key)
	s := l.state(name, answers)
	if yes, no, foreign := tally(answers); yes+no+foreign >= s.Need {
		return s, nil
	}
	return s, l.unanswered(ctx, opInspect, name, ErrNoQuorum, answers)
}

// state returns what the nodes have answered to an observation.
func (l *Locker) state(name string, answers []engine.Answer) *LockState {
	nodes := make([]NodeState, len(answers))
	for i, a := range answers {
		n := NodeState{Addr: l.addr(i), Err: a.Err}
		switch a.Answer {
		case quorum.Yes:
			n.Held, n.TTL, n.Token, n.Fence, n.Metadata = true, a.TTL, a.Token, a.Number, token.Metadata(a.Token)
		case quorum.No:
			n.Err = nil
		}
		nodes[i] = n
	}
	return NewLockState(name, nodes)
}

// tally counts the nodes that said yes, that said no, and that have not, as they hold data of another program.
func tally(answers []engine.Answer) (yes, no, foreign int) {
	for i := range answers {
		switch a := &answers[i]; {
		case a.Answer == quorum.Yes:
			yes++
		case a.Answer == quorum.No:
			no++
		case errors.Is(a.Err, nodeerr.ErrForeign):
			foreign++
		}
	}
	return yes, no, foreign
}

// unanswered is the error of a question that a majority has not answered as needed.
func (l *Locker) unanswered(ctx context.Context, op event.Op, name string, reason error, answers []engine.Answer) error {
	return l.refused(ctx, l.refusal(op, name, reason, func(i int) error { return answers[i].Err }))
}
