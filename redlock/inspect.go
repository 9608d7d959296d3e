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

// Inspect asks every node who holds a lock, and for how much longer. It changes nothing. It waits for the node timeout
// at most, longer for first connections, and again for each 256 readers or slots.
//
// The error is [ErrNoQuorum] in a [*QuorumError], with the LockState beside it, if fewer than a majority answered.
// After [ErrInvalid], [ErrClosed] and ctx.Err() alone the LockState is nil.
func (l *Locker) Inspect(ctx context.Context, name string) (*LockState, error) {
	return l.look(ctx, name, false)
}

// look is Inspect. If tracked is true, the nodes also push the next change.
func (l *Locker) look(ctx context.Context, name string, tracked bool) (*LockState, error) {
	var req request
	if err := l.begin(&req, opInspect, name, nil); err != nil {
		return nil, err
	}
	defer l.engine.End()
	if ctx.Err() != nil {
		return nil, failed(opInspect, name, ended(ctx))
	}
	answers := l.engine.Observe(ctx, req.key, tracked)
	s := newLockState(name, l.states(answers))
	if yes, no, foreign := tally(answers); yes+no+foreign >= s.Need {
		return s, nil
	}
	return s, l.unanswered(ctx, opInspect, name, ErrNoQuorum, answers)
}

// states returns what the answers to an observation show of each node.
func (l *Locker) states(answers []engine.Answer) []NodeState {
	nodes := make([]NodeState, len(answers))
	for i, a := range answers {
		n := NodeState{Addr: l.addr(i), Err: a.Err}
		switch a.Answer {
		case quorum.No:
			n.Err = nil
		case quorum.Yes:
			n.Kind, n.TTL, n.WriterWaits = Kind(a.Kind.String()), a.TTL, a.WriterWaits
			if n.Kind == KindExclusive {
				n.Holders = holdersIn(a.Kind, []engine.Observation{a.Observation})
				n.Holders[0].Fence = a.Fence
			} else {
				n.Holders = holdersIn(a.Kind, a.Sharers)
			}
		default:
			if n.TTL = a.TTL; errors.Is(a.Err, nodeerr.ErrForeign) && a.TTL == 0 {
				n.TTL = NoLimit
			}
		}
		nodes[i] = n
	}
	return nodes
}

// holdersIn returns the holders that a node has shown. kind is the kind of their locks.
func holdersIn(kind engine.Kind, seen []engine.Observation) (all []Holder) {
	for _, s := range seen {
		slot := 0
		if kind.HasSlots() {
			slot, _ = s.Slot.At() // -1 if there is none
		}
		all = append(all, Holder{Token: Token(s.Token), Metadata: token.Metadata(s.Token), Slot: slot, TTL: s.TTL, Nodes: 1})
	}
	return all
}

// tally counts the nodes that said yes, the nodes that said no, and the nodes that said neither because they hold data
// of another program.
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

// unanswered returns the error of a question that a majority has not answered as needed.
func (l *Locker) unanswered(
	ctx context.Context, op event.Op, name string, reason error, answers []engine.Answer,
) error {
	return l.refused(ctx, l.refusal(op, name, reason, func(i int) error { return answers[i].Err }))
}

// Ping returns nil if a majority of the nodes would grant a lock now, for readiness probes. It sets nothing, and takes
// the node timeout at most. It notices a replica, full memory, a missing permission and a quarantine. The error is
// [ErrNoQuorum] in a [*QuorumError].
func (l *Locker) Ping(ctx context.Context) error {
	if !l.engine.Begin() {
		return failed(opPing, "", ErrClosed)
	}
	defer l.engine.End()
	if ctx.Err() != nil {
		return failed(opPing, "", ended(ctx))
	}
	if would, answers := l.engine.Probe(ctx, l.prefix); !would {
		return l.unanswered(ctx, opPing, "", ErrNoQuorum, answers)
	}
	return nil
}
