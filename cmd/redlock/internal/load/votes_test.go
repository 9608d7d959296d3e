package load_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/load"
	"github.com/quorumlock/quorumlock/internal/benchreport"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// poll votes on an acquire: node i answers answers[i] after i+1 ms, and the second yes decides.
func poll(votes *load.Votes, name string, answers ...protocol.Answer) {
	yes := 0
	for i, answer := range answers {
		took := time.Duration(i+1) * time.Millisecond
		votes.Observe(protocol.Vote{At: time.Now(), Op: "acquire", Name: name, Node: i, Answer: answer, Took: took})
		votes.Observe(protocol.Vote{At: time.Now(), Op: "unlock", Name: name, Node: i, Answer: answer, Took: time.Hour})
		if answer == protocol.AnswerYes {
			if yes++; yes == 2 {
				votes.Observe(protocol.Round{At: time.Now(), Op: "acquire", Name: name, Took: took})
			}
		}
	}
	if yes < 2 {
		votes.Observe(protocol.Round{At: time.Now(), Op: "acquire", Name: name, Err: redlock.ErrNoQuorum})
	}
	votes.Observe(protocol.Round{At: time.Now(), Op: "unlock", Name: name, Took: time.Hour})
}

// vote measures a run in which each cycle is one poll.
func vote(t *testing.T, names []string, rounds ...[]protocol.Answer) *benchreport.Result {
	t.Helper()
	var result *benchreport.Result
	synctest.Test(t, func(t *testing.T) {
		votes := load.NewVotes([]string{"x", "y", "z"}, len(names) > 1)
		pass(time.Minute)
		poll(votes, names[0], protocol.AnswerYes, protocol.AnswerYes, protocol.AnswerYes) // before the measurement
		straggler := protocol.Vote{At: time.Now(), Op: "acquire", Name: names[0], Answer: protocol.AnswerYes, Took: 30 * time.Second}
		var i atomic.Int64
		var err error
		result, err = load.Run(t.Context(), load.Plan{
			Names: names, Duration: time.Second, Votes: votes, Rate: float64(len(rounds)),
			Take: func(_ context.Context, name string) (load.Held, error) {
				pass(10 * time.Millisecond)
				poll(votes, name, rounds[i.Add(1)-1]...)
				votes.Observe(straggler) // it began before
				return held{}, nil
			},
		})
		require.NoError(t, err)
	})
	return result
}

func TestVotes_AnswersAreCountedByKindAndTimedIfTheServerGaveThem(t *testing.T) {
	result := vote(t, []string{"a"},
		[]protocol.Answer{protocol.AnswerYes, protocol.AnswerYes, protocol.AnswerUnknown},
		[]protocol.Answer{protocol.AnswerYes, protocol.AnswerNo, protocol.AnswerYes},
		[]protocol.Answer{protocol.AnswerYes, protocol.AnswerRefused, protocol.AnswerUnsent},
	)
	require.Len(t, result.Nodes, 3)
	assert.Equal(t, map[string]int64{"yes": 3, "no": 0, "unknown": 0, "refused": 0, "unsent": 0}, result.Nodes[0].Answers)
	assert.Equal(t, map[string]int64{"yes": 1, "no": 1, "unknown": 0, "refused": 1, "unsent": 0}, result.Nodes[1].Answers)
	assert.Equal(t, map[string]int64{"yes": 1, "no": 0, "unknown": 1, "refused": 0, "unsent": 1}, result.Nodes[2].Answers)
	for i, answers := range []int64{3, 3, 1} {
		node := result.Nodes[i]
		assert.Equal(t, string(rune('x'+i)), node.Addr)
		assert.Equal(t, int64(3), node.Answered())
		assert.Equal(t, answers, node.Latency.Count)
		within(t, time.Duration(i+1)*time.Millisecond, node.Latency.Max, "max")
	}
	assert.Equal(t, int64(2), result.Won)
	assert.Equal(t, int64(1), result.Lost)
	within(t, 3*time.Millisecond, result.Quorum.Max, "the quorum's")
	within(t, 2*time.Millisecond, result.Quorum.P50, "the quorum's")
}

func TestVotes_DecidingNodeIsTheLastThatWasNeeded(t *testing.T) {
	rounds := [][]protocol.Answer{
		{protocol.AnswerYes, protocol.AnswerYes, protocol.AnswerYes},
		{protocol.AnswerYes, protocol.AnswerYes, protocol.AnswerYes},
		{protocol.AnswerYes, protocol.AnswerUnknown, protocol.AnswerYes},
		{protocol.AnswerUnknown, protocol.AnswerUnknown, protocol.AnswerYes},
	}
	result := vote(t, []string{"a"}, rounds...)
	assert.Equal(t, []int64{0, 2, 1}, []int64{result.Nodes[0].Decided, result.Nodes[1].Decided, result.Nodes[2].Decided})

	result = vote(t, []string{"a", "a"}, rounds...)
	for _, node := range result.Nodes {
		assert.Zero(t, node.Decided, "nobody knows where callers share a name")
	}
	assert.Equal(t, int64(3), result.Won)
}

func TestVotes_VoteAllocatesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		votes := load.NewVotes([]string{"x", "y"}, false)
		result, err := load.Run(t.Context(), load.Plan{
			Names: []string{"a"}, Duration: 20 * time.Millisecond, Votes: votes,
			Take: func(context.Context, string) (load.Held, error) {
				pass(3 * time.Millisecond) // the duration of the poll
				assert.Zero(t, testing.AllocsPerRun(10, func() { poll(votes, "a", protocol.AnswerYes, protocol.AnswerYes) }))
				return held{}, nil
			},
		})
		require.NoError(t, err)
		assert.NotZero(t, result.Won)
	})
}
