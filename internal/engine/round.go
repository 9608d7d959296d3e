package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Round carries out what a lock.Round asks for, and lets the caller wait for what it comes to. It is part of an [Acquire], an [Extend]
// or a [Release], and under the mutex of its entry until it has ended.
type Round struct {
	*lock.Round
	entry   *Entry
	of      Caller
	Renewal *Extend       // that it is in; nil if it is no renewal, for which nobody waits
	done    chan struct{} // closed once the outcome is there
	all     chan struct{} // closed once all nodes have answered; nil if nobody waits for that

	timer clock.Timer // ends the wait for the clean-up, or that of Again
	next  *Round      // see Entry.settled
}

// Caller is who a round is for. Its methods are called under the mutex of the entry, but for Report.
type Caller interface {
	// Raising reports that a node is asked to raise the number that it has granted.
	Raising(r *Round, node int, granted, number uint64)
	// Voted reports what a node has answered in time to which command, and why it is not yes.
	Voted(r *Round, node int, answer quorum.Answer, command string, err error)
	// Settled takes the outcome, which is not Undecided.
	Settled(r *Round)
	// Report reports the outcome, before the wait for it ends.
	Report(r *Round)
}

// Acquire is a round that asks for a lock that nobody holds.
type Acquire struct {
	Round
	acquire lock.Acquire
}

// Extend is a round that extends a lock.
type Extend struct {
	Round
	extend  lock.Extend
	held    *Held
	counted bool // Close waits for it; otherwise the function that holds the lock does
}

// Release is a round that releases a lock.
type Release struct {
	Round
	release lock.Release
}

// begin makes r the round of in.
func (r *Round) begin(in *lock.Round, e *Entry, of Caller) {
	r.Round, r.entry, r.of, r.done = in, e, of, make(chan struct{})
}

// Before returns the deadline of the lock when the nodes were asked; zero if they were not.
func (x *Extend) Before() time.Time { return x.extend.Before }

// Reply implements [wire.Receiver].
func (r *Round) Reply(tag wire.Tag, reply *wire.Reply) {
	var room [1]lock.Act // as a rule the end is all
	r.entry.Lock()
	r.entry.doLocked(r.answeredLocked(room[:0], tag, reply))
	r.entry.Unlock()
}

// stop has the outcome taken now, as the caller does not wait on.
func (r *Round) stop() {
	r.entry.Lock()
	r.entry.doLocked(r.GiveUp(nil, r.entry.engine.Clock))
	r.entry.Unlock()
}

// overdue has it taken, as the node timeout is over.
func (r *Round) overdue() {
	r.entry.Lock()
	r.entry.doLocked(r.Overdue(nil, r.entry.engine.Clock))
	r.entry.Unlock()
}

// again has the nodes looked at once more.
func (r *Round) again() {
	r.entry.Lock()
	r.entry.doLocked(r.Again(nil))
	r.entry.Unlock()
}

// answeredLocked takes the answer of a node.
func (r *Round) answeredLocked(acts []lock.Act, tag wire.Tag, reply *wire.Reply) []lock.Act {
	if tag.What == lock.Vote && !reply.Late {
		r.of.Voted(r, int(tag.Node), reply.Answer, reply.Command, reply.Err)
	}
	acts = r.Answered(acts, r.entry.engine.Clock, tag, reply)
	if r.all != nil && !r.Asking() {
		close(r.all)
		r.all = nil
	}
	return acts
}

// AllLocked returns a channel that is closed when all nodes have answered, or have not in time. Some are to answer.
func (r *Round) AllLocked() <-chan struct{} {
	if r.all == nil {
		r.all = make(chan struct{})
	}
	return r.all
}

// unsentLocked notes that a node has not taken the command. [lock.Round.Unsent] follows.
func (r *Round) unsentLocked(node int, err error) {
	r.Note(node, err)
	r.of.Voted(r, node, quorum.Unsent, "", err)
}

// settleLocked takes the outcome. It is reported when the mutex is released.
func (r *Round) settleLocked() {
	if outcome := r.Outcome(); outcome != quorum.Undecided {
		if outcome == quorum.Done || outcome == quorum.Denied {
			r.entry.engine.serves()
		}
		if r.timer != nil {
			r.timer.Stop()
		}
		r.of.Settled(r)
	}
	last := &r.entry.settled
	for *last != nil {
		last = &(*last).next
	}
	*last = r
}

// serves records that a majority of the nodes has answered.
func (g *Engine) serves() {
	if !g.served.Load() {
		g.served.Store(true) // once, as all calls share it
	}
}

// finish reports the outcome, unless no node was asked, and ends the wait of the caller. The mutex is not held, as user code may be
// asked whether it wants the report.
func (r *Round) finish() {
	defer close(r.done) // also if that code panics
	if r.Outcome() != quorum.Undecided {
		r.of.Report(r)
	}
	if r.Renewal != nil {
		r.entry.engine.renewals.ended(r.Renewal)
	}
}

// Wait returns the outcome. It stops the round when ctx ends, over is closed, or the Engine is.
func (r *Round) Wait(ctx context.Context, over <-chan struct{}) quorum.Outcome {
	select {
	case <-r.done:
	case <-over:
		r.stop()
	case <-ctx.Done():
		r.stop()
	case <-r.entry.engine.closing.Done():
		r.stop()
	}
	<-r.done
	return r.Outcome()
}

// Done returns a channel that is closed when the outcome is there and was reported.
func (r *Round) Done() <-chan struct{} { return r.done }

// Outlook is what becomes of the reason of a node.
type Outlook = wire.Outlook

// The Outlooks that end waits, and how long the first of them is waited for.
const (
	MayPass  = wire.MayPass
	Stays    = wire.Stays
	Final    = wire.Final
	Patience = wire.Patience
)

// OutlookOf returns what becomes of the reason of a node.
func OutlookOf(reason error) Outlook { return wire.OutlookOf(reason) }

// SentAgain reports whether a release that a node has not confirmed for a reason is sent still.
func SentAgain(reason error) bool { return wire.SentAgain(reason) }

// Of returns who the round is for.
func (r *Round) Of() Caller { return r.of }

// Took returns the time since the round began.
func (r *Round) Took() time.Duration { return r.entry.engine.Clock.Now().Sub(r.Grant().Start) }

// Why returns why the yes of node i was missing; nil if it counted.
func (r *Round) Why(i int) error {
	if twin, ok := r.Duplicate(i); ok {
		return fmt.Errorf("%w %s", nodeerr.ErrSameServer, r.entry.engine.Nodes[twin].Addr())
	}
	return r.Reason(i)
}
