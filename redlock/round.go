package redlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// round carries out what a lock.Round asks for, reports what it comes to, and lets the caller wait for that.
type round struct {
	*lock.Round
	locker *Locker
	op     event.Op
	name   string
	call   *call         // of which its events are; nil if nobody wants its number
	held   *heldLock     // that is extended or released; nil for an acquire
	done   chan struct{} // closed once the outcome is there

	mu      *sync.Mutex  // that of held, or of the acquire
	timer   clock.Timer  // ends the wait for the clean-up
	ended   bool         // the outcome has been reported
	refusal *QuorumError // unless it is Done
	split   bool         // see event.Round
}

// Reply implements [wire.Receiver].
func (r *round) Reply(tag wire.Tag, reply wire.Reply) {
	r.mu.Lock()
	ends := r.actLocked(r.answeredLocked(nil, tag, reply))
	r.mu.Unlock()
	r.finish(ends)
}

// stop has the outcome reported now.
func (r *round) stop() {
	r.mu.Lock()
	acts := r.GiveUp(nil, r.locker.clock)
	r.extendedLocked(quorum.Undecided)
	ends := r.actLocked(acts)
	r.mu.Unlock()
	r.finish(ends)
}

// askLocked sends what a round begins with. The outcome may be there at once, see finish.
func (r *round) askLocked(asks []lock.Act) (ends bool) {
	since := time.Now()
	var refusals []lock.Refusal
	for _, act := range asks {
		err := lock.ErrOver
		if act.Until.IsZero() || r.locker.clock.Now().Before(act.Until) {
			err = r.locker.nodes[act.Tag.Node].Send(since, act.Command, r, act.Tag)
		}
		if err != nil {
			refusals = append(refusals, lock.Refusal{Node: int(act.Tag.Node), Err: err})
			r.emitVote(act.Tag, wire.Reply{Answer: quorum.Unsent, Err: err})
		}
	}
	if refusals == nil {
		return false
	}
	acts := r.Unsent(nil, r.locker.clock, refusals)
	r.extendedLocked(quorum.Undecided)
	return r.actLocked(acts)
}

// answeredLocked takes the answer of a node.
func (r *round) answeredLocked(acts []lock.Act, tag wire.Tag, reply wire.Reply) []lock.Act {
	if tag.What == lock.Vote && !reply.Late {
		r.emitVote(tag, reply)
	}
	before := r.Outcome()
	acts = r.Answered(acts, r.locker.clock, tag, reply)
	r.extendedLocked(before)
	return acts
}

func (r *round) emitVote(tag wire.Tag, reply wire.Reply) {
	if e := &r.locker.events; e.wants(kindVotes) {
		took := r.took() // read before At, so that At less Took is not before the round
		e.emitVote(r.call, event.Vote{
			At: time.Now(), Op: r.op, Name: r.name, Node: int(tag.Node), Addr: r.locker.nodes[tag.Node].Addr(),
			Answer: event.Answer(reply.Answer), Command: reply.Command, Err: reply.Err, Took: took,
		})
	}
}

// extendedLocked has the lock take what an answer to an extension shows. before is the outcome that the extension had.
func (r *round) extendedLocked(before quorum.Outcome) {
	if r.op == event.OpExtend && r.held.answeredLocked() == quorum.Lost && (before == quorum.Done || before == quorum.NoQuorum) {
		go r.held.cleanUp() // the caller has gone
	}
}

// actLocked carries out what has come of an input, and reports whether the outcome has come with it.
func (r *round) actLocked(acts []lock.Act) (ends bool) {
	for i := 0; i < len(acts); i++ {
		switch act := &acts[i]; act.What {
		case lock.Send:
			acts = r.sendLocked(acts, act)
		case lock.AwaitCleanUp:
			r.timer = r.locker.clock.AfterFunc(r.locker.timeout-r.took(), r.stop)
		}
	}
	if r.ended || r.Outcome() == quorum.Undecided {
		return false
	}
	r.ended = true
	r.endLocked()
	return true
}

// sendLocked sends a clean-up or a raise, or an observation of the lock.
func (r *round) sendLocked(acts []lock.Act, act *lock.Act) []lock.Act {
	l := r.locker
	if act.Tag.What == lock.Observe {
		r.held.sendLocked([]lock.Act{*act}, r.held)
		return acts
	}
	if act.Tag.What == lock.Raise && l.events.wants(kindRounds) {
		l.events.emit(event.Raise{
			At: time.Now(), Call: r.call.number(), Name: r.name, Node: int(act.Tag.Node), Addr: l.nodes[act.Tag.Node].Addr(),
			Granted: act.Raise.Granted, Fence: act.Raise.Token,
		})
	}
	if err := l.nodes[act.Tag.Node].Send(time.Now(), act.Command, r, act.Tag); err != nil {
		acts = r.answeredLocked(acts, act.Tag, wire.Reply{Answer: quorum.Unsent, Err: err})
	}
	return acts
}

// endLocked takes the outcome.
func (r *round) endLocked() {
	l, outcome := r.locker, r.Outcome()
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

// finish reports the outcome to the observer, the log and the caller, if it has come. No mutex of a round or a lock is held, as the
// handler of the log is asked whether it wants it.
func (r *round) finish(ends bool) {
	if !ends {
		return
	}
	e := &r.locker.events
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
	close(r.done)
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
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Outcome() == quorum.Undecided {
		return quorum.NoQuorum, r.locker.refusal(r.op, r.name, ErrNoQuorum, r.reasonLocked)
	}
	return r.Outcome(), r.refusal
}

// took returns the time since the round began.
func (r *round) took() time.Duration { return r.locker.clock.Now().Sub(r.Grant().Start) }

// yesLocked reports whether a node has said yes.
func (r *round) yesLocked() bool {
	for i := range r.locker.nodes {
		if r.Answer(i) == quorum.Yes {
			return true
		}
	}
	return false
}

// reasonLocked returns why the yes of node i was missing; nil if it counted.
func (r *round) reasonLocked(i int) error {
	if twin, ok := r.Duplicate(i); ok {
		return fmt.Errorf("%w %s", nodeerr.ErrSameServer, r.locker.nodes[twin].Addr())
	}
	return r.Reason(i)
}
