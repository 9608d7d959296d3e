package quorum_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

func TestFence_HowARoundFindsItsToken(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes int
		story string
		token uint64 // of a round that is won
	}{
		"one node": {1, "0 grants 5 → done", 5},
		"a majority that grants the same is enough": {
			5, "0 grants 5; 3 grants 5; 1 grants 5 → done; 2 grants 5; 4 no", 5,
		},
		"one that is ahead or behind does not matter": {
			5, "0 grants 9; 1 grants 5; 2 grants 5 → raise 1 2; 3 grants 5 → raise 3; 2 raised yes; 1 raised yes → done", 9,
		},
		"a straggler that is behind does not matter either": {
			5, "0 grants 5; 1 grants 5; 2 grants 5 → done; 3 grants 2; 4 grants 7", 5,
		},
		"the highest of a majority, once the others are raised to it": {
			3, "2 grants 4; 0 grants 7 → raise 2; 2 raised yes → done", 7,
		},
		"a straggler agrees before the raise is answered": {
			3, "2 grants 4; 0 grants 7 → raise 2; 1 grants 7 → done; 2 raised no", 7,
		},
		"a straggler that grants more does not agree": {
			3, "2 grants 4; 0 grants 7 → raise 2; 1 grants 8; 2 raised yes → done", 7,
		},
		"a node that has lost what it granted is not raised": {
			3, "2 grants 4; 0 grants 7 → raise 2; 2 raised no; 1 grants 6 → raise 1; 1 raised yes → done", 7,
		},
		"the second vote of a server grants nothing": {
			3, "0 grants 5 by a; 1 grants 5 by a; 2 grants 5 by b → done", 5,
		},
		"nobody is left who could agree": {nodes: 3, story: `2 grants 4; 0 grants 7 → raise 2; 1 grants 9;
			2 raised no → release 0 1 2, await clean-up; stop → no quorum`},
		"a raise without an answer is no yes": {nodes: 3, story: `2 grants 4; 0 grants 7 → raise 2; 1 unknown;
			2 raised unknown → release 0 1 2, await clean-up; stop → no quorum`},
		"a lost round ends when every node is released, and it is not that others hold the lock": {nodes: 3, story: `0 grants 4;
			1 grants 7 → raise 0; 2 unknown; 0 raised no → release 0 1 2, await clean-up; 0 released; 1 released → no quorum`},
		"others are in the way": {nodes: 3, story: `2 grants 4; 0 no; 1 no → release 2, observe 0 1, await clean-up; stop → denied`},
		"raised too late": {nodes: 3, story: `2 grants 4; 0 grants 7 → raise 2;
			2 raised yes late → release 0 1 2, await clean-up; stop late → too late`},
		"agreed too late": {nodes: 3, story: `2 grants 4; 0 grants 4 late → release 0 1 2, await clean-up; stop late → too late`},
		"what is granted after the end is not raised": {nodes: 5, story: `0 grants 4; 1 grants 5; 2 grants 9 → raise 0 1;
			0 raised no; 1 raised no; 3 grants 10 → release 0 1 2 3 4, await clean-up; 4 grants 2; stop → no quorum`},
		"without fencing there is no token": {1, "0 yes → done", 0},
	} {
		t.Run(name, func(t *testing.T) {
			a := new(quorum.Acquire).Begin(tt.nodes, granted)
			play(t, a, tt.story)
			if tt.token > 0 {
				require.Equal(t, tt.token, a.Fence())
			}
		})
	}
}

func TestFence_HighestIsThatOfANodeAndNotThatOfTheRound(t *testing.T) {
	a := new(quorum.Acquire).Begin(3, granted)
	require.Zero(t, a.Highest())
	play(t, a, "0 grants 4; 1 grants 7 → raise 0; 2 grants 4 → raise 2; 0 raised yes → done")
	require.EqualValues(t, 7, a.Highest())
}
