package quorum_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

func TestSlot_AMajorityHasToGrantTheSame(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes int
		story string
		slot  uint64 // of a round that is won
		split bool
	}{
		"one node": {nodes: 1, story: "0 grants 5 → done", slot: 5},
		"what others have granted is taken back": {
			nodes: 5, story: "0 grants 5; 3 grants 7; 1 grants 5; 2 grants 5 → raise 3, done; 3 raised yes; 4 grants 5", slot: 5,
		},
		"also if they grant it when the round is won": {
			nodes: 5, story: "0 grants 5; 1 grants 5; 2 grants 5 → done; 3 grants 7 → raise 3; 4 grants 2 → raise 4", slot: 5,
		},
		"a majority that has not granted the same is none": {
			nodes: 3, story: "0 grants 1; 1 grants 2; 2 grants 1 → raise 1, done", slot: 1,
		},
		"three of which no two are the same": {nodes: 3, split: true, story: `0 grants 1; 1 grants 2;
			2 grants 3 → release 0 1 2, await clean-up; 0 released; 1 released; 2 released → denied`},
		"it is lost as soon as no slot can have a majority": {nodes: 5, split: true, story: `0 grants 1; 1 grants 2; 2 grants 1;
			3 grants 2; 4 no → release 0 1 2 3, observe 4, await clean-up; stop → denied`},
		"no slot is free on a majority": {
			nodes: 3, split: true, story: "2 grants 4; 0 no; 1 no → release 2, observe 0 1, await clean-up; stop → denied",
		},
		"no slot is free": {nodes: 3, story: "0 no; 1 no → release 2, observe 0 1, await clean-up; stop → denied"},
		"too few answer":  {nodes: 3, story: "2 grants 4; 0 unknown; 1 unknown → release 0 1 2, await clean-up; stop → no quorum"},
		"agreed too late": {nodes: 3, story: "2 grants 4; 0 grants 4 late → release 0 1 2, await clean-up; stop late → too late"},
		"what is granted after the round is lost is not taken back by itself": {nodes: 5, split: true, story: `0 no; 1 no;
			2 no → release 3 4, observe 0 1 2, await clean-up; 3 grants 4; 4 grants 5; stop → denied`},
		"the second vote of a server grants nothing": {
			nodes: 3, story: "0 grants 5 by a; 1 grants 5 by a; 2 grants 5 by b → done", slot: 5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := new(quorum.Acquire).BeginSlots(tt.nodes, granted)
			play(t, a, tt.story)
			require.Equal(t, tt.split, a.Split())
			if tt.slot == 0 {
				return
			}
			require.Equal(t, tt.slot, a.Fence())
			for i := range tt.nodes {
				if agrees, _ := a.Agrees(i); a.Answer(i) == quorum.Yes {
					require.Equal(t, agrees, a.Holds(i), "node %d", i)
				}
			}
		})
	}
}

func TestSlot_ANodeWhoseSlotWasTakenBackDoesNotCount(t *testing.T) {
	a := new(quorum.Acquire).BeginSlots(3, granted)
	play(t, a, "0 grants 1; 1 grants 2; 2 grants 1 → raise 1, done; 1 raised yes")
	lease := a.Lease()
	play(t, new(quorum.Extend).Begin(&lease, longer), "0 yes; 1 yes; 2 unknown → no quorum")
}

func TestSlot_TheFurthestIsSeenFromTheStart(t *testing.T) {
	a := new(quorum.Acquire).BeginSlots(5, granted)
	require.Zero(t, a.Furthest(2, 4), "none was granted")
	play(t, a, "0 grants 1; 1 grants 3; 2 grants 4; 3 no → release 0 1 2 4, observe 3, await clean-up; stop → denied")
	for start, furthest := range []uint64{4, 1, 1, 3} { // a slot counts from 0 where the nodes start, and from 1 where they grant it
		require.Equal(t, furthest, a.Furthest(uint64(start), 4), "from %d on", start)
	}
}
