package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// round is what the kinds of rounds have in common. A kind sends one command to the nodes, receives the answers to it,
// reports them to its machine of package quorum, and applies the actions that the machine returns. It decides nothing.
type round struct {
	locker *Locker
	op     Op
	req    request
	token  string
	grant  quorum.Grant  // what is asked for; its Start is that of the round
	done   chan struct{} // closed once the outcome is there

	mu      *sync.Mutex // not held while a node is called
	machine machine
	errs    []error // errs[i] is why node i did not say yes; nil while there is no reason
	outcome quorum.Outcome
	refusal *QuorumError // unless the outcome is Done
}

// machine is what all kinds need of quorum.Acquire, Extend and Release.
type machine interface {
	Vote(clock quorum.Clock, node int, answer quorum.Answer, server string) quorum.Actions
	Answer(node int) quorum.Answer
	Duplicate(node int) (of int, ok bool)
}

// took returns the time since the round began.
func (r *round) took() time.Duration { return r.locker.clock.Now().Sub(r.grant.Start) }

// voteLocked reports the answer of a node to the machine.
func (r *round) voteLocked(i int, reply node.Reply) quorum.Actions {
	r.noteLocked(i, reply.Err)
	return r.machine.Vote(r.locker.clock, i, reply.Answer, reply.Server)
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

// endLocked notes the outcome, if there is one now. reason returns why a node did not say yes.
func (r *round) endLocked(outcome quorum.Outcome, reason func(node int) error) {
	if outcome == quorum.Undecided {
		return
	}
	r.outcome = outcome
	if outcome == quorum.Done {
		return
	}
	r.refusal = r.locker.refusal(r.op, r.req.name, reasons[r.op][outcome], reason)
}

// reasonLocked returns why node i did not say yes, as far as all kinds know it; nil if it did.
func (r *round) reasonLocked(i int) error {
	duplicate, isDuplicate := r.machine.Duplicate(i)
	switch answer := r.machine.Answer(i); {
	case isDuplicate:
		return fmt.Errorf("%w %s", ErrSameServer, r.locker.nodes[duplicate].Addr())
	case answer == quorum.Pending:
		return ErrPending
	case answer == quorum.Yes:
		return nil
	case r.errs == nil || r.errs[i] == nil: // counted as no without having been asked
		return errNeverAcquired
	}
	return r.errs[i]
}

// observe reports the answer of a node to the observer.
func (r *round) observe(i int, reply node.Reply) {
	if o := r.locker.observer; o != nil {
		o.Vote(Vote{
			Op: r.op, Name: r.req.name, Node: i, Addr: r.locker.nodes[i].Addr(),
			Answer: reply.Answer, Err: reply.Err, Took: r.took(),
		})
	}
}

// finish reports the outcome to the observer, the log and the caller. validity is what is left of the TTL.
func (r *round) finish(validity time.Duration, level slog.Level) {
	l := r.locker
	if log := r.refusal != nil && l.logger.Enabled(context.Background(), level); log || l.observer != nil {
		verdict := Verdict{Op: r.op, Name: r.req.name, Took: r.took()}
		if r.refusal != nil {
			verdict.Err = r.refusal
		} else if validity > 0 {
			verdict.Validity = validity - verdict.Took
		}
		if l.observer != nil {
			l.observer.Verdict(verdict)
		}
		if log {
			l.logger.Log(context.Background(), level, "redlock: refused", "op", r.op, "name", r.req.name, "took", verdict.Took, "error", verdict.Err)
		}
	}
	close(r.done)
}

// validity is how long the round's grant is valid, counted from its start.
func (r *round) validity() time.Duration { return r.grant.Deadline().Sub(r.grant.Start) }

// extendRound asks for a longer TTL of a lock that is held.
type extendRound struct {
	round
	held   *heldLock      // its mutex is mu, since the machine changes the lease
	extend *quorum.Extend // the machine
}

// send sends the command to the nodes for as long as the lease stands.
func (r *extendRound) send(command *node.Command) {
	since := time.Now()
	for i, n := range r.locker.nodes {
		r.mu.Lock()
		held := r.extend.Ask(r.locker.clock)
		r.mu.Unlock()
		if held {
			n.Send(since, command, r, i)
		} else {
			r.Reply(i, node.Reply{Answer: quorum.Unsent, Err: errOver})
		}
	}
}

// Reply implements [node.Receiver].
func (r *extendRound) Reply(i int, reply node.Reply) {
	actions := r.step(func() quorum.Actions { return r.voteLocked(i, reply) })
	r.observe(i, reply)
	r.apply(actions)
}

// wait returns once the outcome is there. It stops the round when ctx ends, over is closed or the Locker is closed.
func (r *extendRound) wait(ctx context.Context, over <-chan struct{}) {
	select {
	case <-r.done:
		return
	case <-over:
	case <-ctx.Done():
	case <-r.locker.closing.Done():
	}
	r.apply(r.step(func() quorum.Actions { return r.extend.Stop(r.locker.clock) }))
	<-r.done
}

// step reports an event to the machine, and returns the actions to apply. The lease may have ended with it.
func (r *extendRound) step(event func() quorum.Actions) quorum.Actions {
	r.mu.Lock()
	defer r.mu.Unlock()
	actions := event()
	r.held.atLocked(r.held.now())
	r.endLocked(actions.Outcome, r.reasonLocked)
	return actions
}

func (r *extendRound) apply(actions quorum.Actions) {
	if actions.Outcome != quorum.Undecided {
		r.finish(r.validity(), slog.LevelWarn)
	}
}

// unlockRound releases a lock that was held.
type unlockRound struct {
	round
	own sync.Mutex // mu
}

// send sends the command to each node that may hold the lock: the machine waits for its vote. It reads that without
// the mutex, because nobody else touches the vote of a node that has not been asked.
func (r *unlockRound) send(command *node.Command) {
	since := time.Now()
	for i, n := range r.locker.nodes {
		if r.machine.Answer(i) == quorum.Pending {
			n.Send(since, command, r, i)
		}
	}
}

// Reply implements [node.Receiver].
func (r *unlockRound) Reply(i int, reply node.Reply) {
	r.mu.Lock()
	actions := r.voteLocked(i, reply)
	r.endLocked(actions.Outcome, r.reasonLocked)
	r.mu.Unlock()
	r.observe(i, reply)
	if actions.Outcome != quorum.Undecided {
		r.finish(0, slog.LevelWarn)
	}
}
