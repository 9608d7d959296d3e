package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/redlock"
)

// round is what was observed of one request to all nodes.
type round struct {
	votes   []*redlock.Vote // votes[i] is node i's; nil if it was not asked
	verdict redlock.Verdict
}

// with returns the addresses of the nodes that gave one of the answers.
func (r *round) with(answers ...redlock.Answer) []string {
	var addrs []string
	for _, vote := range r.votes {
		if vote != nil && slices.Contains(answers, vote.Answer) {
			addrs = append(addrs, vote.Addr)
		}
	}
	return addrs
}

// recorder is the Observer of one client. Each round asks a node once, and the answers of a node
// keep their order: the i-th is its vote of the i-th round.
type recorder struct {
	changed chan struct{} // holds an element if something was recorded

	mu       sync.Mutex
	op       redlock.Op // the operation that is recorded
	votes    [][]redlock.Vote
	verdicts []redlock.Verdict
}

func newRecorder(n int) *recorder {
	return &recorder{changed: make(chan struct{}, 1), votes: make([][]redlock.Vote, n)}
}

// watch forgets everything and records an operation from now on.
func (r *recorder) watch(op redlock.Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.op, r.verdicts = op, nil
	clear(r.votes)
}

// Vote implements [redlock.Observer].
func (r *recorder) Vote(v redlock.Vote) {
	r.record(v.Op, func() { r.votes[v.Node] = append(r.votes[v.Node], v) })
}

// Verdict implements [redlock.Observer].
func (r *recorder) Verdict(v redlock.Verdict) {
	r.record(v.Op, func() { r.verdicts = append(r.verdicts, v) })
}

func (r *recorder) record(op redlock.Op, add func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if op != r.op {
		return
	}
	add()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// wait returns the i-th round since watch when its verdict and as many votes as were asked for are there.
func (r *recorder) wait(ctx context.Context, i, asked int) (*round, error) {
	for {
		if seen := r.round(i, asked); seen != nil {
			return seen, nil
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the votes: %w", ctx.Err())
		}
	}
}

// round returns the i-th round, or nil if it is not complete.
func (r *recorder) round(i, asked int) *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := &round{votes: make([]*redlock.Vote, len(r.votes))}
	for node, votes := range r.votes {
		if i < len(votes) {
			seen.votes[node] = &votes[i]
			asked--
		}
	}
	if asked > 0 || i >= len(r.verdicts) {
		return nil
	}
	seen.verdict = r.verdicts[i]
	return seen
}
