package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// testScenario makes parties on n embedded nodes.
func testScenario(t *testing.T, n int) *scenario {
	t.Helper()
	servers, err := testredis.Embed(n, nil)
	require.NoError(t, err)
	s := &scenario{
		n:    n,
		show: &show{w: io.Discard}, urls: testredis.URLs(servers), network: newNetwork(),
		name: "name", ttl: 10 * time.Second, timeout: 500 * time.Millisecond,
	}
	t.Cleanup(func() {
		assert.NoError(t, s.close())
		assert.NoError(t, testredis.Close(servers))
	})
	return s
}

func testParty(t *testing.T, s *scenario) *party {
	t.Helper()
	p, err := s.newParty("A")
	require.NoError(t, err)
	return p
}

func TestNetwork_DisconnectedNodeKeepsItsKeysAndIsReachableAfterReconnect(t *testing.T) {
	s := testScenario(t, 1)
	a := testParty(t, s)
	lock, err := a.locker.TryLock(t.Context(), "name")
	require.NoError(t, err)
	s.network.disconnect(strings.TrimPrefix(s.urls[0], "redis://"))
	err = lock.Extend(t.Context(), 10*time.Second)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	_, err = testParty(t, s).locker.TryLock(t.Context(), "name")
	require.ErrorIs(t, err, errUnreachable)

	s.network.reconnect()
	_, err = testParty(t, s).locker.TryLock(t.Context(), "name")
	require.ErrorIs(t, err, redlock.ErrTaken)
}

func TestRecorder_LateVotesBelongToTheirRoundAndNotToTheNext(t *testing.T) {
	r := newRecorder(3)
	r.watch("acquire")
	addrs := []string{"a", "b", "c"}
	vote := func(node int, answer protocol.Answer) {
		r.Observe(protocol.Vote{Op: "acquire", Node: node, Addr: addrs[node], Answer: answer})
	}
	refused := errors.New("refused")
	vote(0, protocol.AnswerNo)
	vote(1, protocol.AnswerNo)
	r.Observe(protocol.Round{Op: "acquire", Err: refused})
	vote(0, protocol.AnswerYes)
	vote(1, protocol.AnswerYes)
	r.Observe(protocol.Round{Op: "acquire"})
	vote(2, protocol.AnswerUnknown)
	vote(2, protocol.AnswerYes)

	first, err := r.wait(t.Context(), 0, 3)
	require.NoError(t, err)
	assert.Equal(t, addrs[:2], first.with(protocol.AnswerNo))
	assert.Equal(t, addrs[2:], first.with(protocol.AnswerUnknown))
	assert.ErrorIs(t, first.verdict.Err, refused)

	second, err := r.wait(t.Context(), 1, 3)
	require.NoError(t, err)
	assert.Equal(t, addrs, second.with(protocol.AnswerYes))
	assert.NoError(t, second.verdict.Err)
}

func TestRecorder_RoundIsCompleteWhenAllNodesThatWereAskedHaveAnswered(t *testing.T) {
	r := newRecorder(2)
	r.watch("unlock")
	r.Observe(protocol.Vote{Op: "acquire", Node: 1, Answer: protocol.AnswerYes})
	r.Observe(protocol.Round{Op: "unlock"})
	r.Observe(protocol.Vote{Op: "unlock", Node: 0, Answer: protocol.AnswerYes})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.wait(ended, 0, 2)
	assert.ErrorIs(t, err, context.Canceled)

	seen, err := r.wait(t.Context(), 0, 1) // node 1 was not asked
	require.NoError(t, err)
	assert.Nil(t, seen.votes[1])
}
