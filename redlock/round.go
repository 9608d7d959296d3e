package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// round is one command for the nodes: an acquire, an extend or an unlock. It receives the answers, reports them to its
// machine of package quorum, and applies the actions that the machine returns. It decides nothing.
type round struct {
	locker  *Locker
	op      event.Op
	name    string
	mark    form.Mark    // of the lock; an acquire has no number yet
	call    *call        // of which its events are; nil if nobody wants its number
	grant   quorum.Grant // what is asked for; its Start is that of the round
	ask     form.Ask     // of an acquire
	held    *heldLock    // that is extended or released; nil for an acquire
	command *wire.Command
	done    chan struct{}  // closed once the outcome is there
	sending sync.WaitGroup // the rollback is being sent

	// mu is not held while a node is called. It is that of held if there is one, since an extend changes the lease.
	mu      *sync.Mutex
	own     sync.Mutex // mu of an acquire
	machine machine
	acquire *quorum.Acquire // the machine of an acquire
	extend  *quorum.Extend  // the machine of an extend
	errs    []error         // errs[i] is why node i did not say yes; nil while there is no reason
	timer   clock.Timer     // ends the wait for the clean-up
	outcome quorum.Outcome
	refusal *QuorumError // unless the outcome is Done
	split   bool         // see event.Round
}

// machine is what all kinds need of quorum.Acquire, Extend and Release.
type machine interface {
	Vote(clock quorum.Clock, node int, answer quorum.Answer, server string) quorum.Actions
	Stop(clock quorum.Clock) quorum.Actions
	Answer(node int) quorum.Answer
	Duplicate(node int) (of int, ok bool)
}

// send sends the command to each node for whose vote the machine waits. An extend is sent for as long as the lease stands.
func (r *round) send() {
	since := time.Now()
	for i := range r.locker.nodes {
		r.mu.Lock()
		ask := r.machine.Answer(i) == quorum.Pending
		may := r.extend == nil || r.extend.Ask(r.locker.clock)
		r.mu.Unlock()
		switch {
		case ask && may:
			r.locker.send(since, r.command, r, wire.Tag{What: vote, Node: uint16(i)})
		case ask:
			r.voted(i, wire.Reply{Answer: quorum.Unsent, Err: errOver})
		}
	}
	if r.acquire != nil {
		r.step(r.acquire.Asked)
	}
}

// What a round sends.
const (
	vote     uint8 = iota // its command
	raise                 // of a fencing token
	rollback              // the release that follows a lost acquire
)

// Reply implements [wire.Receiver].
func (r *round) Reply(tag wire.Tag, reply wire.Reply) {
	i := int(tag.Node)
	switch {
	case tag.What == raise:
		r.step(func(clock quorum.Clock) quorum.Actions {
			r.noteLocked(i, reply.Err)
			return r.acquire.Raised(clock, i, reply.Answer)
		})
	case tag.What == rollback:
		r.step(func(quorum.Clock) quorum.Actions {
			if r.machine.Answer(i) == quorum.No && (errors.Is(reply.Err, nodeerr.ErrForeign) || errors.Is(reply.Err, nodeerr.ErrNoExpiry)) {
				r.noteLocked(i, reply.Err) // which is more than that the key is there
			}
			return r.acquire.Released(i)
		})
	case reply.Late:
		r.step(func(clock quorum.Clock) quorum.Actions {
			r.noteLocked(i, reply.Err)
			return r.extend.Late(clock, i, reply.Answer, reply.Server)
		})
	default:
		r.voted(i, reply)
	}
}

// voted takes the answer of a node to the command.
func (r *round) voted(i int, reply wire.Reply) {
	if e := &r.locker.events; e.wants(kindVotes) {
		took := r.took() // read before At, so that At less Took is not before the round
		e.emitVote(r.call, event.Vote{
			At: time.Now(), Op: r.op, Name: r.name, Node: i, Addr: r.locker.nodes[i].Addr(),
			Answer: event.Answer(reply.Answer), Command: reply.Command, Err: reply.Err, Took: took,
		})
	}
	r.step(func(clock quorum.Clock) quorum.Actions {
		r.noteLocked(i, reply.Err)
		if reply.Number > 0 {
			return r.acquire.Granted(clock, i, reply.Number, reply.Server)
		}
		return r.machine.Vote(clock, i, reply.Answer, reply.Server)
	})
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
	// Another goroutine may have lost the round, and may not have sent the rollback yet.
	r.sending.Wait()
	return r.outcome
}

// soFar returns the outcome, which is NoQuorum while there is none. It does not end the round.
func (r *round) soFar() (quorum.Outcome, *QuorumError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outcome == quorum.Undecided {
		return quorum.NoQuorum, r.locker.refusal(r.op, r.name, ErrNoQuorum, r.reasonLocked)
	}
	return r.outcome, r.refusal
}

// stop has the outcome reported now.
func (r *round) stop() { r.step(r.machine.Stop) }

// step reports an event to the machine, and applies the actions that it returns.
func (r *round) step(report func(clock quorum.Clock) quorum.Actions) {
	l := r.locker
	r.mu.Lock()
	actions := report(l.clock)
	if r.extend != nil {
		lost := r.held.answeredLocked() == quorum.Lost
		if lost && actions.Outcome == quorum.Undecided && (r.outcome == quorum.Done || r.outcome == quorum.NoQuorum) {
			go r.held.cleanUp() // the caller has gone, and another extension may be sending
		}
	}
	if len(actions.Release) > 0 {
		r.sending.Add(1)
	}
	if actions.AwaitCleanUp {
		r.timer = l.clock.AfterFunc(l.timeout-r.took(), r.stop)
	}
	if actions.Outcome != quorum.Undecided {
		r.outcome = actions.Outcome
		if !l.served.Load() && (r.outcome == quorum.Done || r.outcome == quorum.Denied) {
			l.served.Store(true) // once, as all calls share it
		}
		if r.timer != nil {
			r.timer.Stop()
		}
		if r.outcome != quorum.Done {
			r.split = r.op == event.OpAcquire && r.outcome == quorum.Denied && r.yesLocked()
			r.refusal = l.refusal(r.op, r.name, reasons[r.op][r.outcome], r.reasonLocked)
		}
		if r.op == event.OpAcquire {
			l.outages.ended(r)
		}
	}
	r.mu.Unlock()
	// The context of the caller has no part in what follows.
	if len(actions.Release) > 0 {
		since, command := time.Now(), new(wire.Command)
		l.form.Release(command, r.mark, r.grant.TTL)
		for _, i := range actions.Release {
			l.send(since, command, r, wire.Tag{What: rollback, Node: uint16(i)})
		}
		r.sending.Done()
	}
	for _, due := range actions.Raise {
		if l.events.wants(kindRounds) {
			l.events.emit(event.Raise{
				At: time.Now(), Call: r.call.number(), Name: r.name, Node: due.Node, Addr: l.nodes[due.Node].Addr(),
				Granted: due.Granted, Fence: due.Token,
			})
		}
		command := new(wire.Command)
		l.form.(form.Numbered).Raise(command, r.mark, due.Granted, due.Token)
		l.send(time.Now(), command, r, wire.Tag{What: raise, Node: uint16(due.Node)})
	}
	for _, i := range actions.Observe {
		r.held.sendObservation(i, nil)
	}
	if actions.Outcome != quorum.Undecided {
		r.finish()
	}
}

// finish reports the outcome to the observer, the log and the caller.
func (r *round) finish() {
	e := &r.locker.events
	ended := event.Round{Op: r.op, Name: r.name, Split: r.split}
	if r.refusal != nil {
		ended.Err = r.refusal
	}
	if e.wants(kindRounds) || r.refusal != nil && e.logsRefusal(ended) {
		ended.Took, ended.At = r.took(), time.Now() // in this order, as those of a vote
		if r.refusal == nil && r.op != event.OpUnlock {
			ended.Validity = r.grant.Deadline().Sub(r.grant.Start) - ended.Took
		}
		e.emitRound(r.call, ended)
	}
	if r.op == event.OpUnlock && (r.locker.events.wants(kindEnds) || r.outcome == quorum.Denied) { // else nobody wants to know
		r.held.released(r.outcome, r.call)
	}
	close(r.done)
}

// took returns the time since the round began.
func (r *round) took() time.Duration { return r.locker.clock.Now().Sub(r.grant.Start) }

// yesLocked reports whether a node has said yes.
func (r *round) yesLocked() bool {
	for i := range r.locker.nodes {
		if r.machine.Answer(i) == quorum.Yes {
			return true
		}
	}
	return false
}

// noteLocked notes why a node did not say yes; nil means that it did.
func (r *round) noteLocked(node int, err error) {
	if err == nil {
		return
	}
	if r.errs == nil {
		r.errs = make([]error, len(r.locker.nodes))
	}
	r.errs[node] = err
}

// reasonLocked returns why the yes of node i was missing; nil if it counted.
func (r *round) reasonLocked(i int) error {
	duplicate, isDuplicate := r.machine.Duplicate(i)
	answer := r.machine.Answer(i)
	switch {
	case isDuplicate:
		return fmt.Errorf("%w %s", nodeerr.ErrSameServer, r.locker.nodes[duplicate].Addr())
	case answer == quorum.Pending:
		return nodeerr.ErrPending
	case r.errs != nil && r.errs[i] != nil: // also if it said yes and the raise failed
		return r.errs[i]
	case answer == quorum.Recreated: // the node has said yes, which does not count
		return errMaybeRecreated
	case answer != quorum.Yes: // counted as no without having been asked
		return errNeverAcquired
	case r.acquire == nil:
		return nil
	}
	switch agrees, open := r.acquire.Agrees(i); {
	case open:
		return nodeerr.ErrPending
	case !agrees:
		return errAhead
	}
	return nil
}
