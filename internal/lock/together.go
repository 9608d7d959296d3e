package lock

import (
	"errors"
	"slices"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// The locks of several names are taken together: one command takes all of them on a node, or none. Each name has a
// round of its own ([Name.Join]). All rounds have the same token, and the node's answer is a vote in each of them. So a
// lock is granted, released and raised like any other. Only one thing is new: a caller that has not won all of the
// locks gives back the locks that it has won.

// Together makes the command for rounds that have one token. Each of the rounds has a part in it. The command asks for
// all locks with the time estimate of the first round, because the process may have learnt another estimate since.
func Together(c *wire.Command, rounds []*Acquire) {
	ids, asks := make([]form.ID, len(rounds)), make([]form.Ask, len(rounds))
	for i, a := range rounds {
		a.Ask.Time, a.Ask.Advance = rounds[0].Ask.Time, rounds[0].Ask.Advance
		ids[i], asks[i] = a.id, a.Ask
	}
	rounds[0].form.(form.Joint).AcquireAll(c, ids, asks)
	c.WantsLate = true // see detached
}

// Part returns the part of the reply that is for the round of name i.
func Part(reply *wire.Reply, i int) *wire.Reply {
	if reply.Each == nil { // the server is not known to have carried out the command
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

// Others returns how many nodes have said no because others hold the key of this name.
func (a *Acquire) Others() (count int) {
	for node := range a.Nodes() {
		if a.Answer(node) == quorum.No && !errors.Is(a.Reason(node), form.ErrOthersHeld) {
			count++
		}
	}
	return count
}

// Blocks reports whether others hold a name on too many nodes for a majority. If they hold it on fewer nodes, a release
// may be under way.
func Blocks(others, nodes int) bool { return nodes-others < quorum.Majority(nodes) }
