package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

func TestRecorder_LateVotesBelongToTheirRoundAndNotToTheNext(t *testing.T) {
	r := newRecorder(3)
	r.watch("acquire")
	addrs := []string{"a", "b", "c"}
	vote := func(node int, answer redlock.Answer) {
		r.Observe(redlock.VoteEvent{Op: "acquire", Node: node, Addr: addrs[node], Answer: answer})
	}
	refused := errors.New("refused")
	vote(0, redlock.AnswerNo)
	vote(1, redlock.AnswerNo)
	r.Observe(redlock.VerdictEvent{Op: "acquire", Err: refused})
	vote(0, redlock.AnswerYes)
	vote(1, redlock.AnswerYes)
	r.Observe(redlock.VerdictEvent{Op: "acquire"})
	vote(2, redlock.AnswerUnknown)
	vote(2, redlock.AnswerYes)

	first, err := r.wait(t.Context(), 0, 3)
	require.NoError(t, err)
	assert.Equal(t, addrs[:2], first.with(redlock.AnswerNo))
	assert.Equal(t, addrs[2:], first.with(redlock.AnswerUnknown))
	assert.ErrorIs(t, first.verdict.Err, refused)

	second, err := r.wait(t.Context(), 1, 3)
	require.NoError(t, err)
	assert.Equal(t, addrs, second.with(redlock.AnswerYes))
	assert.NoError(t, second.verdict.Err)
}

func TestRecorder_RoundIsCompleteWhenAllNodesThatWereAskedHaveAnswered(t *testing.T) {
	r := newRecorder(2)
	r.watch("unlock")
	r.Observe(redlock.VoteEvent{Op: "acquire", Node: 1, Answer: redlock.AnswerYes})
	r.Observe(redlock.VerdictEvent{Op: "unlock"})
	r.Observe(redlock.VoteEvent{Op: "unlock", Node: 0, Answer: redlock.AnswerYes})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.wait(ended, 0, 2)
	assert.ErrorIs(t, err, context.Canceled)

	seen, err := r.wait(t.Context(), 0, 1) // node 1 was not asked
	require.NoError(t, err)
	assert.Nil(t, seen.votes[1])
}
