package redlock

import (
	"context"
	"errors"
	"slices"
	"time"

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
	var req request
	if err := l.begin(&req, opInspect, name, nil); err != nil {
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

// Verdict is whether anybody holds a lock, as far as the answers of the nodes show it.
type Verdict string

const (
	// VerdictHeld means that a majority of the nodes holds the same token.
	VerdictHeld Verdict = "held"
	// VerdictNobody means that nobody holds the lock, whatever the nodes hold that did not answer. Tokens on a minority may still
	// prevent an acquire, until they are released or expire.
	VerdictNobody Verdict = "nobody"
	// VerdictForeign means that nobody holds the lock and nobody can take it: data of another program is on so many nodes that
	// the others are no majority.
	VerdictForeign Verdict = "foreign"
	// VerdictUnknown means that a token may be on a majority or not: the nodes that did not answer decide.
	VerdictUnknown Verdict = "unknown"
)

// LockState is what the nodes hold of a lock. [Locker.Inspect] returns it.
type LockState struct {
	Name    string
	Need    int // how many nodes make the majority
	Verdict Verdict
	// Token is what a majority of the nodes holds; "" without a majority. It is "" also if that is an empty value, which another
	// client has set: it keeps the lock from everybody else, as any token does.
	Token    string
	Metadata string // of the holder, see [Metadata]
	// Fence is the fencing token that a majority holds with Token; 0 if there is none.
	Fence uint64
	// TTL is how much longer a majority holds the token, counted from the call of Inspect. It is [NoLimit] if the key never
	// expires, and 0 unless Verdict is VerdictHeld.
	TTL time.Duration
	// Nodes[i] is about the i-th node given to New or Open. There is one for each.
	Nodes []NodeState
}

// NodeState is what one node holds of a lock.
type NodeState struct {
	Addr     string
	Held     bool          // it holds a token, which may be empty
	Token    string        // that it holds
	Metadata string        // of the holder, see [Metadata]
	Fence    uint64        // of the holder, 0 for none: see [Lock.Fence]; on a minority of nodes it may be another
	TTL      time.Duration // that the key has left, NoLimit if it never expires
	// Err is why there is no answer, an error of package nodeerr; nodeerr.ErrForeign means that data of another program is there.
	Err error
}

// NewLockState computes the LockState from the states of all nodes that the lock is taken on. A node whose Err is set has not
// answered, and may hold anything, unless that is [nodeerr.ErrForeign]. Nodes with equal Tokens and different Fences have one holder.
func NewLockState(name string, nodes []NodeState) *LockState {
	s := &LockState{Name: name, Need: quorum.Majority(len(nodes)), Verdict: VerdictNobody, Nodes: nodes}
	missing, data, most := 0, 0, 0
	for i := range nodes {
		switch n := &nodes[i]; {
		case errors.Is(n.Err, nodeerr.ErrForeign):
			data++
		case n.Err != nil:
			missing++
		case n.Held:
			most = max(most, s.count(n))
		}
	}
	switch {
	case most >= s.Need:
		s.Verdict = VerdictHeld
	case most+missing >= s.Need:
		s.Verdict = VerdictUnknown
	case data > 0 && len(nodes)-data < s.Need:
		s.Verdict = VerdictForeign
	}
	return s
}

// count returns how many nodes hold the token of n, and makes n the holder if they are a majority.
func (s *LockState) count(n *NodeState) int {
	var ttls []time.Duration
	fences := 0
	for _, o := range s.Nodes {
		if !o.Held || o.Err != nil || o.Token != n.Token {
			continue
		}
		ttls = append(ttls, o.TTL)
		if o.Fence == n.Fence {
			fences++
		}
	}
	if len(ttls) >= s.Need {
		slices.Sort(ttls)
		s.Token, s.Metadata, s.TTL = n.Token, n.Metadata, ttls[len(ttls)-s.Need]
		if fences >= s.Need {
			s.Fence = n.Fence
		}
	}
	return len(ttls)
}

// Ping returns nil if a majority of the nodes would grant a lock now: it is for the readiness probe of a program that is of no
// use without locks. It asks each node what an acquire asks, without setting anything, so it notices a server that refuses to
// write (a replica, a full memory or disk, a missing permission) or may not vote ([pool.WithRestartGuard]). It returns as soon as
// a majority has said yes, and within the node timeout whatever the nodes do.
//
// On the wire it is SET with XX, PX and a key that begins with the key prefix and that nothing has, so that the server sets nothing.
// The user of the servers needs the permission for it: Ping fails without [WithKeyPrefix] if that permits some names only. With
// [WithFencing] an acquire is a script, whose permission Ping does not check.
//
// The errors are [ErrNoQuorum] in a [*QuorumError] with every node's reason, joined with ctx.Err() if ctx ended first; ctx.Err()
// alone if it had ended before; [ErrClosed] after Close.
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
