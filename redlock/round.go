package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool"
)

// machine is what a round needs of quorum.Acquire, Extend and Release.
type machine interface {
	Asked(clock quorum.Clock) quorum.Effects
	Vote(clock quorum.Clock, node int, vote quorum.Vote, server string) quorum.Effects
	Stop(clock quorum.Clock) quorum.Effects
	Said(node int) quorum.Vote
	Twin(node int) (twin int, ok bool)
}

// round carries one machine: it puts a command to the nodes, hands their answers
// to the machine, and does what the machine asks for. It decides nothing.
type round struct {
	locker  *Locker
	op      string
	req     request
	token   string
	grant   quorum.Grant  // what is asked for; its Start is the round's
	command *pool.Command // what is put to the nodes
	owed    time.Duration // how long a release is owed
	hold    *hold         // what an extend is for
	ended   func(*round)  // called when the outcome is there; may be nil
	done    chan struct{} // closed once outcome is there

	own     sync.Mutex
	mu      *sync.Mutex // own, or that of the hold
	machine machine
	acquire *quorum.Acquire // the machine, if that is what it is
	extend  *quorum.Extend  // likewise
	raises  []*pool.Command // what was sent to raise counters, by node; nil: nothing
	errs    []error         // errs[i] is why node i did not say yes; nil while there is no reason
	outcome quorum.Outcome
	refusal *QuorumError   // unless the outcome is Done
	timer   clock.Timer    // ends the settling
	sending sync.WaitGroup // releases that are being handed to the nodes
}

func newRound(l *Locker, op string, req request, token string, grant quorum.Grant, m machine, cmd *pool.Command) *round {
	r := &round{
		locker: l, op: op, req: req, token: token, grant: grant, machine: m, command: cmd,
		done: make(chan struct{}),
	}
	r.mu = &r.own
	return r
}

// ask sends the command to each node whose vote the machine waits for.
func (r *round) ask() {
	since := time.Now()
	for i, node := range r.locker.nodes {
		switch {
		case !r.asks(i):
		case r.extend != nil && !r.mayExtend():
			r.Reply(i, r.command, pool.Reply{Answer: pool.Unsent, Err: errOver})
		default:
			node.Send(since, r.command, r, i)
		}
	}
	r.asked()
}

func (r *round) mayExtend() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.extend.Ask(r.locker.clock)
}

// skip ends the round without asking anybody.
func (r *round) skip(why error) {
	for i := range r.locker.nodes {
		if r.asks(i) {
			r.Reply(i, r.command, pool.Reply{Answer: pool.Unsent, Err: fmt.Errorf("not asked: %w", why)})
		}
	}
	r.asked()
}

// asks says whether node i is to be asked: the machine waits for its vote. It needs no
// mutex, since nobody else touches the vote of a node that has not been asked.
func (r *round) asks(i int) bool { return r.machine.Said(i) == quorum.Pending }

// asked tells the machine that the command has gone out.
func (r *round) asked() {
	r.mu.Lock()
	effects := r.machine.Asked(r.locker.clock)
	r.noteLocked(effects)
	r.mu.Unlock()
	r.carry(effects)
}

// wait returns the outcome. The round is stopped when ctx ends or the Locker is closed.
func (r *round) wait(ctx context.Context) quorum.Outcome {
	select {
	case <-r.done:
	case <-ctx.Done():
		r.giveUp()
	case <-r.locker.closing.Done():
		r.giveUp()
	}
	<-r.done
	// Another goroutine may have lost the round, and not have come to what it has to send.
	r.sending.Wait()
	return r.outcome
}

// giveUp stops the machine: whoever waits is told now.
func (r *round) giveUp() {
	r.mu.Lock()
	effects := r.machine.Stop(r.locker.clock)
	r.noteLocked(effects)
	r.mu.Unlock()
	r.carry(effects)
}

// Reply implements [pool.Receiver].
func (r *round) Reply(node int, cmd *pool.Command, reply pool.Reply) {
	vote := votes[reply.Answer]
	r.mu.Lock()
	var effects quorum.Effects
	switch {
	case cmd == r.command && reply.Number > 0:
		effects = r.acquire.Granted(r.locker.clock, node, reply.Number, reply.Server)
	case cmd == r.command:
		r.noteErrLocked(node, reply.Err)
		effects = r.machine.Vote(r.locker.clock, node, vote, reply.Server)
	case r.raises != nil && cmd == r.raises[node]:
		r.noteErrLocked(node, reply.Err)
		effects = r.acquire.Raised(r.locker.clock, node, vote)
	case r.extend != nil: // the old TTL that follows a failed extend
		r.extend.Restored(node, vote)
	default: // the release that follows a lost acquire
		if vote == quorum.Refused && r.machine.Said(node) == quorum.No {
			r.noteErrLocked(node, reply.Err) // what stands in the way is not a lock
		}
		effects = r.acquire.Released(node)
	}
	r.noteLocked(effects)
	r.mu.Unlock()
	if o := r.locker.observer; o != nil && cmd == r.command {
		o.Vote(Vote{
			Op: r.op, Name: r.req.name, Node: node, Addr: r.locker.nodes[node].Addr(),
			Answer: reply.Answer, Err: reply.Err, Took: r.took(),
		})
	}
	r.carry(effects)
}

var votes = [...]quorum.Vote{
	pool.Yes: quorum.Yes, pool.No: quorum.No, pool.Planted: quorum.Planted, pool.Maybe: quorum.Lost,
	pool.Refused: quorum.Refused, pool.Unsent: quorum.Unsent,
}

// noteErrLocked takes note of why a node did not say yes; nil: it did.
func (r *round) noteErrLocked(node int, err error) {
	if err == nil {
		return
	}
	if r.errs == nil {
		r.errs = make([]error, len(r.locker.nodes))
	}
	r.errs[node] = err
}

// noteLocked takes note of an outcome, and of a lease that has ended under an extend.
func (r *round) noteLocked(effects quorum.Effects) {
	if r.hold != nil {
		r.hold.atLocked(r.hold.now())
	}
	if len(effects.Release) > 0 {
		r.sending.Add(1)
	}
	if len(effects.Raise) > 0 && r.raises == nil {
		r.raises = make([]*pool.Command, len(r.locker.nodes))
	}
	for _, i := range effects.Raise {
		r.raises[i] = pool.Raise(r.req.key, r.token, r.acquire.Number(i), r.acquire.Fence())
	}
	if effects.Outcome == quorum.Undecided {
		return
	}
	r.outcome = effects.Outcome
	if r.outcome != quorum.Done {
		r.refusal = r.refusalLocked()
	}
	if r.timer != nil {
		r.timer.Stop()
	}
}

// took returns the time since the round began.
func (r *round) took() time.Duration { return r.locker.clock.Now().Sub(r.grant.Start) }

// carry does what the machine asks for. The context of the caller has no part in it.
func (r *round) carry(effects quorum.Effects) {
	if len(effects.Release) > 0 {
		r.send(r.rollback(), effects.Release)
		r.sending.Done()
	}
	if len(effects.Restore) > 0 {
		r.send(r.hold.restoring(effects.TTL), effects.Restore)
	}
	if len(effects.Raise) > 0 {
		since := time.Now()
		for _, i := range effects.Raise {
			r.locker.nodes[i].Send(since, r.raises[i], r, i)
		}
	}
	if effects.Settling {
		r.settle()
	}
	if effects.Outcome != quorum.Undecided {
		r.report(effects.Outcome)
		close(r.done)
		if r.ended != nil {
			r.ended(r)
		}
	}
}

// send puts a command to some nodes.
func (r *round) send(cmd *pool.Command, nodes []int) {
	since := time.Now()
	for _, i := range nodes {
		r.locker.nodes[i].Send(since, cmd, r, i)
	}
}

// settle has a lost round told when the node timeout is over, if not before.
func (r *round) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outcome == quorum.Undecided {
		r.timer = r.locker.clock.AfterFunc(r.locker.timeout-r.took(), r.giveUp)
	}
}

// report tells the observer and the log.
func (r *round) report(outcome quorum.Outcome) {
	l, level := r.locker, slog.LevelWarn
	if r.op == opAcquire {
		level = slog.LevelDebug
	}
	log := outcome != quorum.Done && l.logger.Enabled(context.Background(), level)
	if l.observer == nil && !log {
		return
	}
	verdict := Verdict{Op: r.op, Name: r.req.name, Took: r.took()}
	if outcome != quorum.Done {
		verdict.Err = r.refusal
	} else if r.op != opUnlock {
		verdict.Validity = r.grant.Deadline().Sub(r.grant.Start) - verdict.Took
	}
	if l.observer != nil {
		l.observer.Verdict(verdict)
	}
	if log {
		l.logger.Log(context.Background(), level, "redlock: refused", "op", r.op, "name", r.req.name, "took", verdict.Took, "error", verdict.Err)
	}
}

// refusalLocked puts together what every node has said when the outcome falls.
func (r *round) refusalLocked() *QuorumError {
	nodes := r.locker.nodes
	e := &QuorumError{
		Op: r.op, Name: r.req.name,
		Need:   quorum.Majority(len(nodes)),
		Reason: reasons[r.op][r.outcome],
		Nodes:  make([]NodeError, len(nodes)),
	}
	for i, node := range nodes {
		e.Nodes[i] = NodeError{Addr: node.Addr(), Err: r.reasonLocked(i)}
	}
	return e
}

// reasonLocked says why node i did not say yes.
func (r *round) reasonLocked(i int) error {
	twin, isTwin := r.machine.Twin(i)
	said := r.machine.Said(i)
	switch {
	case isTwin:
		return fmt.Errorf("%w %s", ErrSameServer, r.locker.nodes[twin].Addr())
	case said == quorum.Pending:
		return ErrPending
	case r.errs != nil && r.errs[i] != nil:
		return r.errs[i]
	case said == quorum.Yes && r.acquire != nil:
		switch agrees, open := r.acquire.Agrees(i); {
		case open:
			return ErrPending
		case !agrees:
			return errAhead
		}
		return nil
	case said == quorum.Yes:
		return nil
	case said == quorum.No: // without having been asked
		return errNeverAcquired
	default: // its yes does not count
		return ErrRestoring
	}
}
