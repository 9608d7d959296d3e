package lock

import (
	"errors"
	"slices"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// The locks of several names are taken together: one command takes all of them on a node, or none. Each name has a round of its own
// ([Name.Join]), with the same token, in which the node's answer is a vote. So a lock is granted, released and raised as any other, and
// all that is new is that a caller who has not won all of them gives back those that he has.

// Together makes the command for rounds that have one token, of which each has a part. It asks for all of them at the time of the first: the
// process may have learnt another since.
func Together(c *wire.Command, rounds []*Acquire) {
	ids, asks := make([]form.ID, len(rounds)), make([]form.Ask, len(rounds))
	for i, a := range rounds {
		a.Ask.Time, a.Ask.Advance = rounds[0].Ask.Time, rounds[0].Ask.Advance
		ids[i], asks[i] = a.id, a.Ask
	}
	rounds[0].form.(form.Joint).AcquireAll(c, ids, asks)
	c.WantsLate = true // see detached
}

// Part returns what the reply to the command is for the round of one of the names.
func Part(reply *wire.Reply, i int) *wire.Reply {
	if reply.Each == nil { // the server has not carried it out, as far as is known
		return reply
	}
	part := reply.Each[i]
	part.Command, part.Server, part.Late = reply.Command, reply.Server, reply.Late
	return &part
}

// AllWon reports whether the rounds have won the locks of all names.
func AllWon(outcomes []quorum.Outcome) bool {
	return !slices.ContainsFunc(outcomes, func(o quorum.Outcome) bool { return o != quorum.Done })
}

// Others returns how many nodes have said that others hold the key.
func (a *Acquire) Others() (count int) {
	for node := range a.Nodes() {
		if a.Answer(node) == quorum.No && !errors.Is(a.Reason(node), form.ErrOthersHeld) {
			count++
		}
	}
	return count
}

// InTheWay returns which of the names is the first that others hold on too many nodes for a majority, and which is the first that they hold
// on any node; -1 means none.
func InTheWay(others []int, nodes int) (blocked, named int) {
	return slices.IndexFunc(others, func(n int) bool { return Blocks(n, nodes) }),
		slices.IndexFunc(others, func(n int) bool { return n > 0 })
}

// Blocks reports whether others hold a name on too many nodes for a majority. On fewer, a release may be under way.
func Blocks(others, nodes int) bool { return nodes-others < quorum.Majority(nodes) }
