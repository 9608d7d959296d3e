package quorum_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// fenceStep is one event of a round with fencing: "0=7" grants 7, "0 no", "0 lost" are votes, "0 raised", "0 not raised" and "0 silent"
// answer a raise, "late" puts the clock to the deadline.
type fenceStep struct{ event, actions string }

func describeFenced(e quorum.Actions) string {
	words := describe(e)
	if len(e.Raise) == 0 {
		return words
	}
	nodes := make([]int, len(e.Raise))
	for i, raise := range e.Raise {
		nodes[i] = raise.Node
	}
	return strings.Trim("raise "+strings.Trim(fmt.Sprint(nodes), "[]")+", "+words, ", ")
}

func TestFence_HowARoundFindsItsToken(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes int
		steps []fenceStep
		token any // or why the round is lost
	}{
		"one node": {1, []fenceStep{{"0=5", "done"}}, uint64(5)},
		"a majority that grants the same is enough": {
			5, []fenceStep{{"0=5", ""}, {"3=5", ""}, {"1=5", "done"}, {"2=5", ""}, {"4 no", ""}}, uint64(5),
		},
		"one that is ahead or behind does not matter": {
			5, []fenceStep{{"0=9", ""}, {"1=5", ""}, {"2=5", "raise 1 2"}, {"3=5", "raise 3"}, {"2 raised", ""}, {"1 raised", "done"}}, uint64(9),
		},
		"a straggler that is behind does not matter either": {
			5, []fenceStep{{"0=5", ""}, {"1=5", ""}, {"2=5", "done"}, {"3=2", ""}, {"4=7", ""}}, uint64(5),
		},
		"the highest of a majority, once the others are raised to it": {
			3, []fenceStep{{"2=4", ""}, {"0=7", "raise 2"}, {"2 raised", "done"}}, uint64(7),
		},
		"a straggler agrees before the raise is answered": {
			3, []fenceStep{{"2=4", ""}, {"0=7", "raise 2"}, {"1=7", "done"}, {"2 not raised", ""}}, uint64(7),
		},
		"a straggler that grants more does not agree": {
			3, []fenceStep{{"2=4", ""}, {"0=7", "raise 2"}, {"1=8", ""}, {"2 raised", "done"}}, uint64(7),
		},
		"a node that has lost what it granted is not raised": {
			3, []fenceStep{{"2=4", ""}, {"0=7", "raise 2"}, {"2 not raised", ""}, {"1=6", "raise 1"}, {"1 raised", "done"}}, uint64(7),
		},
		"nobody is left who could agree": {
			3, []fenceStep{{"2=4", ""}, {"0=7", "raise 2"}, {"1=9", ""}, {"2 not raised", "release 0 1 2, await clean-up"}}, "no quorum",
		},
		"a raise without an answer is no yes": {
			3, []fenceStep{{"2=4", ""}, {"0=7", "raise 2"}, {"1 lost", ""}, {"2 silent", "release 0 1 2, await clean-up"}}, "no quorum",
		},
		"others are in the way": {
			3, []fenceStep{{"2=4", ""}, {"0 no", ""}, {"1 no", "release 0 1 2, await clean-up"}}, "denied",
		},
		"raised too late": {
			3, []fenceStep{{"2=4", ""}, {"0=7", "raise 2"}, {"late", ""}, {"2 raised", "release 0 1 2, await clean-up"}}, "too late",
		},
		"agreed too late": {
			3, []fenceStep{{"2=4", ""}, {"late", ""}, {"0=4", "release 0 1 2, await clean-up"}}, "too late",
		},
		"what is granted after the end is not raised": {
			5, []fenceStep{
				{"0=4", ""}, {"1=5", ""}, {"2=9", "raise 0 1"}, {"0 not raised", ""}, {"1 not raised", ""},
				{"3=10", "release 0 1 2 3 4, await clean-up"}, {"4=2", ""},
			}, "no quorum",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, clock := new(quorum.Acquire).Begin(tt.nodes, granted), instant(start)
			for _, s := range tt.steps {
				require.Equal(t, s.actions, describeFenced(feedFenced(a, &clock, s.event)), s.event)
			}
			if reason, lost := tt.token.(string); lost {
				require.Equal(t, reason, describeFenced(a.Stop(clock)))
			} else {
				require.Equal(t, tt.token, a.Fence())
				require.Empty(t, describeFenced(a.Stop(clock)))
			}
		})
	}
}

func feedFenced(a *quorum.Acquire, clock *instant, event string) quorum.Actions {
	var node int
	var number uint64
	if event == "late" {
		*clock = instant(deadline)
		return quorum.Actions{}
	}
	if n, _ := fmt.Sscanf(event, "%d=%d", &node, &number); n == 2 {
		return a.Granted(*clock, node, number, "")
	}
	_, word, _ := strings.Cut(event, " ")
	_, _ = fmt.Sscan(event, &node)
	switch word {
	case "raised":
		return a.Raised(*clock, node, quorum.Yes)
	case "not raised":
		return a.Raised(*clock, node, quorum.No)
	case "silent":
		return a.Raised(*clock, node, quorum.Unknown)
	case "no":
		return a.Vote(*clock, node, quorum.No, "")
	default:
		return a.Vote(*clock, node, quorum.Unknown, "")
	}
}

func TestFence_LostRoundEndsWhenEveryNodeIsReleased(t *testing.T) {
	a, clock := new(quorum.Acquire).Begin(3, granted), instant(start)
	feedFenced(a, &clock, "0=4")
	feedFenced(a, &clock, "1=7")
	feedFenced(a, &clock, "2 lost")
	require.Equal(t, "release 0 1 2, await clean-up", describeFenced(feedFenced(a, &clock, "0 not raised")))
	require.Empty(t, describeFenced(a.Released(0)))
	require.Equal(t, "no quorum", describeFenced(a.Released(1)), "a majority has granted: it is not that others hold the lock")
	require.EqualValues(t, 7, a.Highest())
}

func TestFence_PlainRoundHasNoToken(t *testing.T) {
	a := new(quorum.Acquire).Begin(1, granted)
	require.Equal(t, "done", describe(a.Vote(instant(start), 0, quorum.Yes, "")))
	require.Zero(t, a.Fence())
	require.Zero(t, a.Highest())
}

func TestFence_SecondVoteOfAServerGrantsNothing(t *testing.T) {
	a := new(quorum.Acquire).Begin(3, granted)
	require.Empty(t, describeFenced(a.Granted(instant(start), 0, 5, "the server")))
	require.Empty(t, describeFenced(a.Granted(instant(start), 1, 5, "the server")))
	require.Equal(t, "done", describeFenced(a.Granted(instant(start), 2, 5, "another")))
}
