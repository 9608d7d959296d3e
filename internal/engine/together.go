package engine

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Together is a request for the locks of several names at once. Each node gets one command, whose answer is a vote in a
// round of each name. Together implements [wire.Receiver].
type Together struct {
	command wire.Command
	parts   []Part
	sent    chan struct{} // closed when the command was sent to all nodes, so that no release of a name overtakes it
}

// Part is the part of a Together that is about one name.
type Part struct {
	*Acquire
	Key  string
	Call *Call
}

// Ask begins the rounds of the parts, which all have the same token. Their keys differ. The caller must hold no mutex.
func (t *Together) Ask(g *Engine, token, metadata string, parts []Part) {
	token = g.Token(token, metadata)
	t.parts, t.sent = parts, make(chan struct{})
	rounds := make([]*lock.Acquire, len(parts))
	for i, p := range parts {
		g.Events.Began(&p.Round)
		e := g.Enter(p.Key)
		p.begin(&p.acquire.Round, e, nil)
		e.Name.Join(&p.acquire, p.Call, token, &p.Round)
		e.Exit()
		rounds[i] = &p.acquire
	}
	lock.Together(&t.command, rounds)
	since := time.Now()
	unsent, reasons := []int(nil), make([]error, len(g.Nodes))
	for i, n := range g.Nodes {
		if reasons[i] = n.Send(since, &t.command, t, wire.Tag{What: lock.Vote, Node: uint16(i)}); reasons[i] != nil {
			unsent = append(unsent, i)
		}
	}
	close(t.sent)
	if unsent == nil {
		return
	}
	for _, p := range parts {
		p.entry.Enter()
		for _, i := range unsent {
			p.unsentLocked(i, reasons[i])
		}
		p.entry.doLocked(p.Unsent(nil, g.Clock, unsent))
		p.entry.Exit()
	}
}

// Reply hands each part of an answer to the round of its name. It implements [wire.Receiver].
func (t *Together) Reply(tag wire.Tag, reply *wire.Reply) {
	<-t.sent
	for i, p := range t.parts {
		p.Reply(tag, lock.Part(reply, i))
	}
}

// Wait waits for the rounds of all names, and reports whether all are won. It stops the rounds when ctx ends, or when
// the Engine is closed.
func (t *Together) Wait(ctx context.Context) bool {
	outcomes := make([]quorum.Outcome, len(t.parts))
	for i, p := range t.parts {
		outcomes[i] = p.Wait(ctx, nil)
	}
	return lock.AllWon(outcomes)
}

// Others returns on how many nodes others hold each of the names. The caller must hold no mutex.
func (t *Together) Others() []int {
	others := make([]int, len(t.parts))
	for i, p := range t.parts {
		p.entry.Enter()
		others[i] = p.acquire.Others()
		p.entry.Exit()
	}
	return others
}

// LostRounds returns the record of each round. The caller must hold no mutex.
func (t *Together) LostRounds() []LostRound {
	lost := make([]LostRound, len(t.parts))
	for i, p := range t.parts {
		p.entry.Enter()
		lost[i] = p.LostRoundLocked()
		p.entry.Exit()
	}
	return lost
}

// Blocks reports whether a majority is out of reach if others hold a name on this number of nodes.
func (t *Together) Blocks(others int) bool {
	return lock.Blocks(others, len(t.parts[0].entry.engine.Nodes))
}

// GiveBackLocked releases the lock that a round has won, if it has, because the round of another name was not won. It
// records that the round of the call was not won.
func (e *Entry) GiveBackLocked(a *Acquire, c *Call) {
	e.doLocked(e.Name.GiveBack(nil, &a.acquire))
	e.LostLocked(a, c)
}

// AgainLocked releases the lock in the same way for a call on its turn, which goes on with the turn or gives up.
func (e *Entry) AgainLocked(a *Acquire) { e.doLocked(e.Name.Again(nil, &a.acquire)) }

// ErrOthersHeld is why a node has not granted a name that nobody holds there: it refused other names of the call.
var ErrOthersHeld = form.ErrOthersHeld

// Entry returns the entry of the name.
func (r *Round) Entry() *Entry { return r.entry }
