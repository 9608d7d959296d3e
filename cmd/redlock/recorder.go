package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// round is what was observed of one request to all nodes.
type round struct {
	votes   []*protocol.Vote // votes[i] is node i's; nil if it was not asked
	verdict protocol.Round
}

// with returns the addresses of the nodes that gave one of the answers.
func (r *round) with(answers ...protocol.Answer) []string {
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
	events chan event.Event // with room for more than a step has

	op       event.Op // the operation that is watched
	votes    [][]protocol.Vote
	verdicts []protocol.Round
}

func newRecorder(n int) *recorder {
	return &recorder{events: make(chan event.Event, 4096), votes: make([][]protocol.Vote, n)}
}

// Observe implements [event.Observer].
func (r *recorder) Observe(e event.Event) { r.events <- e }

// watch forgets everything, and makes wait wait for an operation that begins after it.
func (r *recorder) watch(op event.Op) {
	r.op, r.verdicts = op, nil
	clear(r.votes)
	for len(r.events) > 0 {
		<-r.events
	}
}

// wait returns the i-th round since watch when its verdict and as many votes as were asked for are there.
func (r *recorder) wait(ctx context.Context, i, asked int) (*round, error) {
	for {
		if seen := r.round(i, asked); seen != nil {
			return seen, nil
		}
		select {
		case e := <-r.events:
			switch v := e.(type) {
			case protocol.Vote:
				if v.Op == r.op {
					r.votes[v.Node] = append(r.votes[v.Node], v)
				}
			case protocol.Round:
				if v.Op == r.op {
					r.verdicts = append(r.verdicts, v)
				}
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the votes: %w", ctx.Err())
		}
	}
}

// round returns the i-th round, or nil if it is not complete.
func (r *recorder) round(i, asked int) *round {
	seen := &round{votes: make([]*protocol.Vote, len(r.votes))}
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
