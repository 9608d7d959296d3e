package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// round carries out what a lock.Round asks for, reports what it comes to, and lets the caller wait for that. It is under the mutex of
// its entry; call, refusal and split are not, once it has ended.
type round struct {
	*lock.Round
	entry   *entry
	op      event.Op
	name    string
	call    *call         // of which its events are; nil if nobody wants its number
	held    *heldLock     // that is extended or released; nil for an acquire
	renewal *extendRound  // that it is in; nil if it is no renewal, for which nobody waits
	done    chan struct{} // closed once the outcome is there

	timer   clock.Timer  // ends the wait for the clean-up
	refusal *QuorumError // unless it is Done
	split   bool         // see event.Round
	next    *round       // see entry.settled
}

// Reply implements [wire.Receiver].
func (r *round) Reply(tag wire.Tag, reply wire.Reply) {
	var room [1]lock.Act // as a rule there is no more than the end
	r.entry.mu.Lock()
	r.entry.doLocked(r.answeredLocked(room[:0], tag, reply))
	r.entry.unlock()
}

// stop has the outcome taken now.
func (r *round) stop() {
	r.entry.mu.Lock()
	r.entry.doLocked(r.GiveUp(nil, r.entry.locker.clock))
	r.entry.unlock()
}

// answeredLocked takes the answer of a node.
func (r *round) answeredLocked(acts []lock.Act, tag wire.Tag, reply wire.Reply) []lock.Act {
	if tag.What == lock.Vote && !reply.Late {
		r.emitVote(tag, reply)
	}
	return r.Answered(acts, r.entry.locker.clock, tag, reply)
}

// settleLocked takes the outcome. It is reported when the mutex is released.
func (r *round) settleLocked() {
	if r.Outcome() != quorum.Undecided {
		r.endLocked()
	}
	last := &r.entry.settled
	for *last != nil {
		last = &(*last).next
	}
	*last = r
}

func (r *round) emitVote(tag wire.Tag, reply wire.Reply) {
	if e := &r.entry.locker.events; e.wants(kindVotes) {
		took := r.took() // read before At, so that At less Took is not before the round
		e.emitVote(r.call, event.Vote{
			At: time.Now(), Op: r.op, Name: r.name, Node: int(tag.Node), Addr: r.entry.locker.nodes[tag.Node].Addr(),
			Answer: event.Answer(reply.Answer), Command: reply.Command, Err: reply.Err, Took: took,
		})
	}
}

// endLocked takes the outcome.
func (r *round) endLocked() {
	l, outcome := r.entry.locker, r.Outcome()
	if !l.served.Load() && (outcome == quorum.Done || outcome == quorum.Denied) {
		l.served.Store(true) // once, as all calls share it
	}
	if r.timer != nil {
		r.timer.Stop()
	}
	if outcome != quorum.Done {
		r.split = r.op == event.OpAcquire && outcome == quorum.Denied && r.yesLocked()
		r.refusal = l.refusal(r.op, r.name, reasons[r.op][outcome], r.reasonLocked)
	}
	if r.op == event.OpAcquire {
		l.outages.ended(r)
	}
}

// finish reports the outcome, unless no node was asked, and ends the wait of the caller. The mutex is not held, as the handler of the
// log is asked whether it wants it.
func (r *round) finish() {
	if r.Outcome() != quorum.Undecided {
		r.report()
	}
	if r.renewal != nil {
		r.entry.locker.renewals.ended(r.renewal)
	}
	close(r.done)
}

func (r *round) report() {
	e := &r.entry.locker.events
	ended := event.Round{Op: r.op, Name: r.name, Split: r.split}
	if r.refusal != nil {
		ended.Err = r.refusal
	}
	if e.wants(kindRounds) || r.refusal != nil && e.logsRefusal(ended) {
		ended.Took, ended.At = r.took(), time.Now() // in this order, as those of a vote
		if grant := r.Grant(); r.refusal == nil && r.op != event.OpUnlock {
			ended.Validity = grant.Deadline().Sub(grant.Start) - ended.Took
		}
		e.emitRound(r.call, ended)
	}
	if r.op == event.OpUnlock && (e.wants(kindEnds) || r.Outcome() == quorum.Denied) { // else nobody wants to know
		r.held.released(r.Outcome(), r.call)
	}
}

// wait returns the outcome. It stops the round when ctx ends, or over or closing is closed.
func (r *round) wait(ctx context.Context, over, closing <-chan struct{}) quorum.Outcome {
	select {
	case <-r.done:
	case <-over:
		r.stop()
	case <-ctx.Done():
		r.stop()
	case <-closing:
		r.stop()
	}
	<-r.done
	return r.Outcome()
}

// soFar returns the outcome, which is NoQuorum while there is none. It does not end the round.
func (r *round) soFar() (quorum.Outcome, *QuorumError) {
	r.entry.mu.Lock()
	defer r.entry.mu.Unlock()
	if r.Outcome() == quorum.Undecided {
		return quorum.NoQuorum, r.entry.locker.refusal(r.op, r.name, ErrNoQuorum, r.reasonLocked)
	}
	return r.Outcome(), r.refusal
}

// took returns the time since the round began.
func (r *round) took() time.Duration { return r.entry.locker.clock.Now().Sub(r.Grant().Start) }

// yesLocked reports whether a node has said yes.
func (r *round) yesLocked() bool {
	for i := range r.entry.locker.nodes {
		if r.Answer(i) == quorum.Yes {
			return true
		}
	}
	return false
}

// reasonLocked returns why the yes of node i was missing; nil if it counted.
func (r *round) reasonLocked(i int) error {
	if twin, ok := r.Duplicate(i); ok {
		return fmt.Errorf("%w %s", nodeerr.ErrSameServer, r.entry.locker.nodes[twin].Addr())
	}
	return r.Reason(i)
}
