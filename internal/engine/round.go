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

// Round is a lock.Round that the Engine carries out. A caller can wait for its outcome. It is part of an [Acquire], an
// [Extend] or a [Release]. The mutex of its entry guards it until it has ended.
type Round struct {
	*lock.Round
	Of    any           // the program's own value for the call; nil if it keeps none
	Began time.Duration // when the round began, in the program's own time; 0 if the program sets no time

	entry    *Entry
	held     *Held         // the lock that is extended or released; nil for an acquire
	lost     *lost         // nil before the outcome, and if the outcome is Done
	renewal  *Extend       // the Extend of the round if it is a renewal, for which no call waits; otherwise nil
	done     chan struct{} // closed when the round has ended and was reported
	all      chan struct{} // closed once all nodes have answered; nil if nobody waits for that
	timer    clock.Timer   // ends the wait for the clean-up, or calls again
	next     *Round        // see Entry.settled
	releases bool
}

// lost is the answers of the nodes at an outcome that is not Done.
type lost struct {
	why   []error // why each node did not say yes
	split bool    // some nodes have granted an acquire that was denied
	// overtaken means that the lock was released before the outcome of an extension.
	overtaken bool
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
	counted bool // Close waits for the renewal; otherwise the function that holds the lock does
}

// Release is a round that releases a lock.
type Release struct {
	Round
	release lock.Release
}

// begin makes r the round of in. held is the lock that is extended or released; it is nil for an acquire.
func (r *Round) begin(in *lock.Round, e *Entry, held *Held) {
	r.Round, r.entry, r.held, r.done = in, e, held, make(chan struct{})
}

// Held returns the lock that is extended or released; nil for an acquire.
func (r *Round) Held() *Held { return r.held }

// Releases reports whether the round releases a lock.
func (r *Round) Releases() bool { return r.releases }

// Split reports whether an acquire was denied though some nodes have granted it.
func (r *Round) Split() bool { return r.lost != nil && r.lost.split }

// Overtaken reports whether the lock was released before the outcome of an extension.
func (r *Round) Overtaken() bool { return r.lost != nil && r.lost.overtaken }

// Renewal returns the Extend of the round if it is a renewal, and otherwise nil.
func (r *Round) Renewal() *Extend { return r.renewal }

// Before returns the deadline of the lock when the nodes were asked; zero if they were not.
func (x *Extend) Before() time.Time { return x.extend.Before }

// Reply hands an answer to the round, and carries out the Acts that follow. It implements [wire.Receiver].
func (r *Round) Reply(tag wire.Tag, reply *wire.Reply) {
	r.entry.Enter()
	r.replyLocked(tag, reply)
	r.entry.Exit()
}

// replyLocked hands an answer to the round, and carries out the Acts that follow from it.
func (r *Round) replyLocked(tag wire.Tag, reply *wire.Reply) {
	var room [1]lock.Act // usually the only Act is End
	r.entry.doLocked(r.answeredLocked(room[:0], tag, reply))
}

// stop ends the wait for the outcome, because the caller gives up.
func (r *Round) stop() {
	r.entry.Enter()
	r.entry.doLocked(r.GiveUp(nil, r.entry.engine.Clock))
	r.entry.Exit()
}

// overdue ends the wait for the outcome, because the node timeout is over.
func (r *Round) overdue() {
	r.entry.Enter()
	r.entry.doLocked(r.Overdue(nil, r.entry.engine.Clock))
	r.entry.Exit()
}

// again asks the nodes once more: see [lock.Round.Again].
func (r *Round) again() {
	r.entry.Enter()
	r.entry.doLocked(r.Again(nil))
	r.entry.Exit()
}

// answeredLocked handles the answer of a node.
func (r *Round) answeredLocked(acts []lock.Act, tag wire.Tag, reply *wire.Reply) []lock.Act {
	if tag.What == lock.Vote && !reply.Late {
		r.events().Voted(r, int(tag.Node), reply.Answer, reply.Command, reply.Err)
	}
	acts = r.Answered(acts, r.entry.engine.Clock, tag, reply)
	if r.all != nil && !r.Asking() {
		close(r.all)
		r.all = nil
	}
	return acts
}

// allLocked returns a channel that is closed when each node has answered, or has not answered in time. Some answers
// must still be missing when it is called.
func (r *Round) allLocked() <-chan struct{} {
	if r.all == nil {
		r.all = make(chan struct{})
	}
	return r.all
}

// unsentLocked records that a node did not accept the command. The caller then calls [lock.Round.Unsent].
func (r *Round) unsentLocked(node int, err error) {
	r.Note(node, err)
	r.events().Voted(r, node, quorum.Unsent, "", err)
}

// settleLocked records the outcome. It is reported when the mutex is released.
func (r *Round) settleLocked() {
	if outcome := r.Outcome(); outcome != quorum.Undecided {
		if outcome == quorum.Done || outcome == quorum.Denied {
			r.entry.engine.serves()
		}
		if r.timer != nil {
			r.timer.Stop()
		}
		r.outcomeLocked(outcome)
	}
	last := &r.entry.settled
	for *last != nil {
		last = &(*last).next
	}
	*last = r
}

// outcomeLocked keeps why each node did not say yes, unless the outcome is Done. Late answers still change the
// [lock.Round], because the rules need them. If the round is an acquire, outcomeLocked reports it as Settled.
func (r *Round) outcomeLocked(outcome quorum.Outcome) {
	if outcome != quorum.Done {
		r.lost = &lost{why: make([]error, r.Nodes())}
		for i := range r.lost.why {
			r.lost.why[i] = r.reason(i)
			r.lost.split = r.lost.split || outcome == quorum.Denied && r.held == nil && r.Answer(i) == quorum.Yes
		}
		r.lost.overtaken = r.held != nil && outcome == quorum.TooLate && r.held.Lease.At(r.held.Now()) == quorum.Released
	}
	if r.held == nil {
		r.events().Settled(r)
	}
}

func (r *Round) events() Events { return r.entry.engine.Events }

// serves records that a majority of the nodes has answered.
func (g *Engine) serves() {
	if !g.served.Load() {
		g.served.Store(true) // once, because all calls share it
	}
}

// finish reports the outcome, unless no node was asked, and ends the wait of the caller. The mutex is not held, because
// user code may be asked whether it wants the report.
func (r *Round) finish() {
	defer close(r.done) // even if user code panics
	if r.Outcome() != quorum.Undecided {
		r.events().Ended(r)
	}
	if r.renewal != nil {
		r.entry.engine.renewals.ended(r.renewal)
	}
}

// Wait waits for the outcome and returns it. It stops the round when ctx ends, over is closed, or the Engine is closed.
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

// Done returns a channel that is closed when the round has ended and its outcome was reported.
func (r *Round) Done() <-chan struct{} { return r.done }

// Outlook is whether the reason of a node may pass.
type Outlook = wire.Outlook

// These are the Outlooks that can end waits. Patience is for how long calls wait while reasons have the Outlook
// MayPass.
const (
	MayPass  = wire.MayPass
	Stays    = wire.Stays
	Final    = wire.Final
	Patience = wire.Patience
)

// OutlookOf returns the Outlook of the reason of a node.
func OutlookOf(reason error) Outlook { return wire.OutlookOf(reason) }

// SentAgain reports whether a node goes on sending a release that has failed for this reason.
func SentAgain(reason error) bool { return wire.SentAgain(reason) }

// Took returns the time since the round began.
func (r *Round) Took() time.Duration { return r.entry.engine.Clock.Now().Sub(r.Grant().Start) }

// Why returns why the yes of node i was missing at the outcome. Without an outcome, and if it is Done, Why returns why
// the yes is missing now. nil means that the yes counts.
func (r *Round) Why(i int) error {
	if r.lost != nil {
		return r.lost.why[i]
	}
	return r.reason(i)
}

// reason returns why the yes of node i is missing now. nil means that the yes counts.
func (r *Round) reason(i int) error {
	if twin, ok := r.Duplicate(i); ok {
		return fmt.Errorf("%w %s", nodeerr.ErrSameServer, r.entry.engine.Nodes[twin].Addr())
	}
	return r.Reason(i)
}
