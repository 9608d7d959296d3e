package quorum_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// step is an event in words and the effects that it must have, in words too:
//
//	2 yes            node 2 votes, at storyTime
//	2 yes by a       the same, and its server is known as a
//	2 yes late       the same, at the old deadline
//	2 released       node 2 has confirmed the release
//	stop, stop late  the caller gives up
type step struct{ event, effects string }

var storyTime = start.Add(6 * time.Second)

// play tells a machine a story. After it nothing may be left to say.
func play(t *testing.T, m machine, story []step) {
	t.Helper()
	for i, s := range story {
		require.Equal(t, s.effects, describe(feed(m, parse(t, s.event))), "step %d: %s", i+1, s.event)
	}
	require.Empty(t, describe(m.Stop(instant(deadline))), "at the end")
}

func parse(t *testing.T, text string) event {
	e := event{what: aStop, at: storyTime}
	words := strings.Fields(text)
	if words[len(words)-1] == "late" {
		e.at = deadline
		words = words[:len(words)-1]
	}
	if len(words) == 4 && words[2] == "by" {
		e.server = words[3]
	}
	if words[0] == "stop" {
		return e
	}
	_, err := fmt.Sscan(words[0], &e.node)
	require.NoError(t, err, text)
	e.what = aRelease
	for vote, name := range voteName {
		if name == words[1] {
			e.what, e.vote = aVote, vote
		}
	}
	require.True(t, e.what == aVote || words[1] == "released", text)
	return e
}

func TestScenariosOfAnAcquire(t *testing.T) {
	tiny, none := granted, granted
	tiny.Start, tiny.TTL = storyTime, time.Millisecond // not an instant goes by
	none.Start, none.TTL = storyTime, 0
	for name, tt := range map[string]struct {
		nodes int
		grant quorum.Grant // default: granted
		story []step
	}{
		"a majority is enough, and what comes later changes nothing": {nodes: 5, story: []step{
			{"3 yes", ""},
			{"0 no", ""},
			{"4 yes", ""},
			{"1 yes", "done"},
			{"2 no", ""},
		}},
		"a loss goes to every node at once, also to those that have not answered": {nodes: 5, story: []step{
			{"0 no", ""},
			{"1 no", ""},
			{"2 no", "release 0 1 2 3 4, settling"},
			{"1 released", ""},
			{"3 yes", ""}, // a straggler is waited for as well, since it has answered
			{"0 released", ""},
			{"2 released", ""},
			{"3 released", "denied"},
			{"4 yes", ""},
		}},
		"a majority that comes too late is none": {nodes: 3, story: []step{
			{"0 yes", ""},
			{"1 yes late", "release 0 1 2, settling"},
			{"0 released", ""},
			{"2 yes late", ""},
			{"1 released", ""},
			{"2 released", "too late"},
		}},
		"trap 6: a lost reply is not a no, so the round lacks a quorum and others need not hold the key": {nodes: 3, story: []step{
			{"0 lost", ""},
			{"1 yes", ""},
			{"2 lost", "release 0 1 2, settling"},
			{"1 released", "no quorum"},
		}},
		"trap 6: a lost reply is cleaned up, an acquire that never went out is not": {nodes: 3, story: []step{
			{"0 unsent", ""},
			{"1 lost", "release 1 2, no quorum"},
			{"2 unsent", ""},
		}},
		"trap 6: a node that answers after its reply was given up for lost is not counted": {nodes: 3, story: []step{
			{"0 lost", ""},
			{"1 yes", ""},
			{"0 yes", ""},
			{"stop", "release 0 1 2, no quorum"},
		}},
		"trap 12: a TTL under the drift gets no lock, not one without an end": {nodes: 3, grant: tiny, story: []step{
			{"0 yes", ""},
			{"1 yes", "release 0 1 2, settling"},
			{"0 released", ""},
			{"1 released", "too late"},
		}},
		"trap 12: no TTL gets no lock": {nodes: 1, grant: none, story: []step{
			{"0 yes", "release 0, settling"},
			{"0 released", "too late"},
		}},
		"trap 19: a majority of the nodes that can be reached is none": {nodes: 5, story: []step{
			{"0 unsent", ""},
			{"1 unsent", ""},
			{"2 yes", ""},
			{"3 yes", ""},
			{"4 lost", "release 2 3 4, settling"},
			{"2 released", ""},
			{"3 released", "no quorum"},
		}},
		"trap 19: one server under two names is one": {nodes: 3, story: []step{
			{"0 yes by a", ""},
			{"2 yes by a", ""},
			{"1 no by b", "release 0 1 2, settling"},
			{"0 released", ""},
			{"1 released", ""},
			{"2 released", "denied"},
		}},
		"trap 20: a split vote is lost for both sides and cleaned up": {nodes: 4, story: []step{
			{"0 yes", ""},
			{"1 yes", ""},
			{"2 no", ""},
			{"3 no", "release 0 1 2 3, settling"},
			{"0 released", ""},
			{"1 released", ""},
			{"2 released", ""},
			{"3 released", "denied"},
		}},
		"trap 20: of two nodes both are needed": {nodes: 2, story: []step{
			{"1 yes", ""},
			{"0 no", "release 0 1, settling"},
			{"0 released", ""},
			{"1 released", "denied"},
		}},
		"the caller gives up while all is open": {nodes: 3, story: []step{
			{"0 yes", ""},
			{"stop", "release 0 1 2, no quorum"},
			{"1 yes", ""},
			{"2 yes", ""},
			{"0 released", ""},
		}},
		"the caller gives up the wait for the clean-up, which goes on": {nodes: 3, story: []step{
			{"0 no", ""},
			{"1 no", "release 0 1 2, settling"},
			{"0 released", ""},
			{"stop", "denied"},
			{"1 released", ""},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.grant == (quorum.Grant{}) {
				tt.grant = granted
			}
			play(t, newAcquire(tt.nodes, tt.grant), tt.story)
		})
	}
}

// Trap 18: what the caller is told of a node is told in the order of nodes, whatever
// the order of answers.
func TestAnswersAreKnownByTheirNodeAndNotByTheirTurn(t *testing.T) {
	for _, order := range orders(indexOrder(5)) {
		for name, m := range machines(5) {
			for _, node := range order {
				m.Vote(instant(inTime), node, votes[node], "")
			}
			for node, vote := range votes {
				require.Equal(t, vote, m.Said(node), "node %d of a %s, in the order of %v", node, name, order)
			}
		}
	}
}

func TestScenariosOfAnExtend(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes int
		story []step
	}{
		"a majority is enough": {nodes: 3, story: []step{
			{"2 yes", ""},
			{"0 yes", "done"},
			{"1 lost", ""},
		}},
		"trap 6: a lost reply confirms nothing": {nodes: 3, story: []step{
			{"0 lost", ""},
			{"1 yes", ""},
			{"2 refused", "restore 0 1 2, no quorum"},
		}},
		"trap 8: a partial extension is undone, on the nodes that have not answered too": {nodes: 5, story: []step{
			{"0 yes", ""},
			{"1 no", ""},
			{"2 unsent", ""},
			{"stop", "restore 0 3 4, no quorum"},
			{"3 yes", ""},
			{"4 lost", ""},
		}},
		"trap 9: the old deadline counts and not the new": {nodes: 3, story: []step{
			{"0 yes", ""},
			{"1 yes late", "too late"},
		}},
		"trap 10: a failure of one node is none": {nodes: 3, story: []step{
			{"0 lost", ""},
			{"1 yes", ""},
			{"2 yes", "done"},
		}},
		"trap 16: keys that are gone are told apart from nodes that are, though it takes a wait": {nodes: 3, story: []step{
			{"0 lost", ""},
			{"1 no", ""},
			{"2 no", "denied"},
		}},
		"trap 19: a majority of the nodes that can be reached is none": {nodes: 5, story: []step{
			{"0 unsent", ""},
			{"1 yes", ""},
			{"2 lost", ""},
			{"3 lost", "restore 1 2 3 4, no quorum"},
			{"4 yes", ""},
		}},
		"trap 20: half of an even number confirms nothing": {nodes: 4, story: []step{
			{"0 yes", ""},
			{"1 yes", ""},
			{"2 lost", ""},
			{"3 lost", "restore 0 1 2 3, no quorum"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, newExtend(quorum.NewLease(tt.nodes, granted), longer), tt.story)
		})
	}
}

func TestScenariosOfARelease(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes int
		story []step
	}{
		"a majority that let go of it is enough": {nodes: 3, story: []step{
			{"1 yes", ""},
			{"2 yes", "done"},
			{"0 no", ""},
		}},
		"a release has no deadline": {nodes: 1, story: []step{
			{"0 yes late", "done"},
		}},
		"trap 6: a lost reply leaves it unknown": {nodes: 3, story: []step{
			{"0 yes", ""},
			{"1 lost", ""},
			{"2 lost", "no quorum"},
		}},
		"trap 16: a lock that was not ours any more is not given back": {nodes: 3, story: []step{
			{"0 no", ""},
			{"1 yes", ""},
			{"2 no", "denied"},
		}},
		"trap 20: half of an even number is neither": {nodes: 4, story: []step{
			{"0 yes", ""},
			{"1 yes", ""},
			{"2 lost", ""},
			{"3 lost", "no quorum"},
		}},
		"trap 20: of four nodes two that do not hold it are a majority that did not": {nodes: 4, story: []step{
			{"0 yes", ""},
			{"1 no", ""},
			{"2 no", "denied"},
		}},
		"the caller gives up": {nodes: 3, story: []step{
			{"0 yes", ""},
			{"stop", "no quorum"},
			{"1 yes", ""},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, quorum.NewRelease(tt.nodes, func(int) bool { return true }), tt.story)
		})
	}
}
