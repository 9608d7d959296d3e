package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

func newRecorder(n int) *recorder { return &recorder{n: n, news: make(chan struct{}, 1)} }

func TestVotesOfARoundThatComeLateAreNotTakenForThoseOfTheNext(t *testing.T) {
	r := newRecorder(3)
	r.watch("acquire")
	vote := func(node int, answer pool.Answer) {
		r.Vote(redlock.Vote{Op: "acquire", Node: node, Answer: answer})
	}
	refused := errors.New("refused")
	vote(0, pool.No)
	vote(1, pool.No)
	r.Verdict(redlock.Verdict{Op: "acquire", Err: refused})
	vote(0, pool.Yes)
	vote(1, pool.Yes)
	r.Verdict(redlock.Verdict{Op: "acquire"})
	vote(2, pool.Maybe)
	vote(2, pool.Yes)

	first, err := r.wait(t.Context(), 0, 3)
	require.NoError(t, err)
	assert.Equal(t, []int{0, 1}, first.with(pool.No))
	assert.Equal(t, []int{2}, first.with(pool.Maybe))
	assert.ErrorIs(t, first.verdict.Err, refused)

	second, err := r.wait(t.Context(), 1, 3)
	require.NoError(t, err)
	assert.Equal(t, []int{0, 1, 2}, second.with(pool.Yes))
	assert.NoError(t, second.verdict.Err)
}

func TestARoundIsNotShownBeforeAllWhoWereAskedHaveAnswered(t *testing.T) {
	r := newRecorder(2)
	r.watch("unlock")
	r.Vote(redlock.Vote{Op: "acquire", Node: 1, Answer: pool.Yes})
	r.Verdict(redlock.Verdict{Op: "unlock"})
	r.Vote(redlock.Vote{Op: "unlock", Node: 0, Answer: pool.Yes})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.wait(ended, 0, 2)
	assert.ErrorIs(t, err, context.Canceled)

	seen, err := r.wait(t.Context(), 0, 1) // node 1 was not asked
	require.NoError(t, err)
	assert.Nil(t, seen.votes[1])
}

func TestEmbeddedNodesForgetAKeyWhenItsTimeIsOverAndNotBefore(t *testing.T) {
	servers, err := newEmbedded(3)
	require.NoError(t, err)
	defer servers.close()
	c, err := newClient("A", servers, time.Second, 500*time.Millisecond)
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.close()) }()

	first, err := c.locker.TryLock(t.Context(), "name", redlock.TTL(50*time.Millisecond))
	require.NoError(t, err)
	<-first.Done()
	second, err := c.locker.Lock(t.Context(), "name")
	require.NoError(t, err)
	require.ErrorIs(t, first.Unlock(t.Context()), redlock.ErrNotHeld)
	require.NoError(t, second.Unlock(t.Context()))
}

func TestAnEmbeddedNodeThatComesBackHasItsAddressAndItsKeys(t *testing.T) {
	servers, err := newEmbedded(1)
	require.NoError(t, err)
	defer servers.close()
	c, err := newClient("A", servers, 10*time.Second, 500*time.Millisecond)
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.close()) }()

	lock, err := c.locker.TryLock(t.Context(), "name")
	require.NoError(t, err)
	servers.stop(0)
	servers.stop(0)
	require.ErrorIs(t, lock.Extend(t.Context(), 10*time.Second), redlock.ErrNoQuorum)
	require.NoError(t, servers.start(0))
	require.NoError(t, servers.start(0))
	other, err := newClient("B", servers, 10*time.Second, 500*time.Millisecond)
	require.NoError(t, err)
	defer func() { assert.NoError(t, other.close()) }()
	_, err = other.locker.TryLock(t.Context(), "name")
	require.ErrorIs(t, err, redlock.ErrTaken)
}
