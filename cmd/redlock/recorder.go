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
	votes   []*redlock.Vote // votes[i] is node i's; nil if it was not asked or has not answered yet
	verdict *redlock.Verdict
}

// with returns the nodes that gave one of the answers.
func (r *round) with(answers ...redlock.Answer) []int {
	var nodes []int
	for i, vote := range r.votes {
		if vote != nil && slices.Contains(answers, vote.Answer) {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// complete reports whether the verdict and the answers of as many nodes as were asked are there.
func (r *round) complete(asked int) bool {
	for _, vote := range r.votes {
		if vote != nil {
			asked--
		}
	}
	return r.verdict != nil && asked <= 0
}

// recorder is the Observer of one client. It assigns votes and verdicts to rounds: each round
// asks a node once, and the answers of a node keep their order.
type recorder struct {
	n       int           // nodes
	changed chan struct{} // holds an element if something was recorded

	mu     sync.Mutex
	op     redlock.Op // the operation that is recorded
	rounds []*round
}

func newRecorder(n int) *recorder { return &recorder{n: n, changed: make(chan struct{}, 1)} }

// watch forgets all rounds and records an operation from now on.
func (r *recorder) watch(op redlock.Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.op, r.rounds = op, nil
}

// Vote implements [redlock.Observer].
func (r *recorder) Vote(vote redlock.Vote) {
	r.record(vote.Op, func(seen *round) bool {
		free := seen.votes[vote.Node] == nil
		if free {
			seen.votes[vote.Node] = &vote
		}
		return free
	})
}

// Verdict implements [redlock.Observer].
func (r *recorder) Verdict(verdict redlock.Verdict) {
	r.record(verdict.Op, func(seen *round) bool {
		free := seen.verdict == nil
		if free {
			seen.verdict = &verdict
		}
		return free
	})
}

// record calls put with the rounds, oldest first, until it returns true.
func (r *recorder) record(op redlock.Op, put func(*round) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if op != r.op {
		return
	}
	if !slices.ContainsFunc(r.rounds, put) {
		next := &round{votes: make([]*redlock.Vote, r.n)}
		put(next)
		r.rounds = append(r.rounds, next)
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// wait returns the i-th round since watch when it is complete.
func (r *recorder) wait(ctx context.Context, i, asked int) (*round, error) {
	for {
		r.mu.Lock()
		if i < len(r.rounds) && r.rounds[i].complete(asked) {
			defer r.mu.Unlock()
			return r.rounds[i], nil // which does not change any more
		}
		r.mu.Unlock()
		select {
		case <-r.changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the votes: %w", ctx.Err())
		}
	}
}
