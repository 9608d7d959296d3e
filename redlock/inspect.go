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

// Inspect asks every node who holds a lock, and for how much longer. It changes nothing. It waits for all nodes, for
// the node timeout at most. Its result may be outdated when it is read.
//
// Inspect also asks a node that has shared locks or slots for their holders. It asks for up to 256 at a time, with the
// node timeout each time. It reads up to 2048 holders of a node, the ones whose TTLs end first. A holder that comes,
// leaves or is renewed meanwhile may be missing or not.
//
// The error is [ErrNoQuorum] in a [*QuorumError] if fewer than a majority answered. It is joined with ctx.Err() if ctx
// ended first. The LockState is nil only after [ErrInvalid], [ErrClosed], and ctx.Err() alone, if ctx had ended before.
// A node that holds data of another program has answered: its NodeState has [nodeerr.ErrForeign]. A replica counts as a
// node that did not answer, and so does a server that still loads its data.
//
// Even with a nil error the Verdict may be uncertain. It is [VerdictUnknown] if the nodes that did not answer decide.
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

// Ping returns nil if a majority of the nodes would grant a lock now. It is for the readiness probe of a program that
// is of no use without locks. It asks each node for the same as an acquire, without setting anything. So it notices a
// server that refuses to write (a replica, a full memory or disk, a missing permission) or may not vote
// ([pool.WithRestartGuard]). It returns as soon as a majority has said yes, and within the node timeout whatever the
// nodes do.
//
// On the wire Ping is the script of a first acquire, with XX in the place of NX. The script also does the things that a
// renewal and a release need. Its key begins with the key prefix. No such key exists, so the server sets nothing. The
// user of the servers needs the permission for this key: without [WithKeyPrefix] Ping fails if the user may use only
// some names. With [WithFencing] Ping also reads the counter of that key and the server's time. It does not check
// whether a counter may be raised, and not the needs of shared locks and slots.
//
// The errors:
//   - [ErrNoQuorum] in a [*QuorumError] with every node's reason. It is joined with ctx.Err() if ctx ended first;
//   - ctx.Err() alone: ctx had ended before the call;
//   - [ErrClosed]: the Locker has been closed.
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
