package redlock

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// Locker takes locks over N nodes. Make one with [Open] or [New]; it is safe for concurrent use, and a program needs one
// for each set of nodes.
type Locker struct {
	config
	engine *engine.Engine

	events   events
	calling  atomic.Uint64 // the number of the last call; from a random one on, as Lockers may share an observer
	throttle throttle
	outages  outages
}

// begin checks the arguments of a call and counts it, which ends with engine.End.
func (l *Locker) begin(op event.Op, name string, opts []LockOption) (request, error) {
	req, err := l.request(name, opts)
	if err == nil && !l.engine.Begin() {
		err = ErrClosed
	}
	if err != nil {
		err = failed(op, name, err)
	}
	return req, err
}

// refusal makes a QuorumError. err returns why a node did not do what it was asked to.
func (l *Locker) refusal(op event.Op, name string, reason error, err func(node int) error) *QuorumError {
	nodes := l.engine.Nodes
	e := &QuorumError{Op: string(op), Name: name, Need: quorum.Majority(len(nodes)), Reason: reason, Nodes: make([]NodeError, len(nodes))}
	for i, n := range nodes {
		e.Nodes[i] = NodeError{Addr: n.Addr(), Err: err(i)}
	}
	e.blame()
	return e
}

// refused is the error of a call that the nodes have refused, or had not answered when it was given up.
func (l *Locker) refused(ctx context.Context, answers *QuorumError) error {
	if l.engine.Closing().Err() != nil {
		return &LockError{answers.Op, answers.Name, ErrClosed}
	}
	return givenUp(ctx, answers)
}

func (l *Locker) addr(node int) string { return l.engine.Nodes[node].Addr() }

func (l *Locker) nameOf(key string) string { return strings.TrimPrefix(key, l.prefix) }

// newCall returns nil if nobody wants events with the number of the call.
func (l *Locker) newCall(ctx context.Context) *call {
	if !l.events.wants(numbered) {
		return nil
	}
	return &call{ctx: ctx, id: l.calling.Add(1), start: time.Now()}
}
