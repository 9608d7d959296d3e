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
	Asked(now time.Time) quorum.Effects
	Vote(now time.Time, node int, vote quorum.Vote, server string) quorum.Effects
	Stop(now time.Time) quorum.Effects
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
	lock    *Lock         // what an extend is for
	done    chan struct{} // closed once outcome is there

	own     sync.Mutex
	mu      *sync.Mutex // own, or that of the lock
	machine machine
	acquire *quorum.Acquire // the machine, if that is what it is
	extend  *quorum.Extend  // likewise
	errs    []error         // errs[i] is why node i did not say yes
	outcome quorum.Outcome
	timer   clock.Timer // ends the settling
}

func newRound(l *Locker, op string, req request, token string, grant quorum.Grant, m machine, cmd *pool.Command) *round {
	r := &round{
		locker: l, op: op, req: req, token: token, grant: grant, machine: m, command: cmd,
		done: make(chan struct{}),
		errs: make([]error, len(l.nodes)),
	}
	r.mu = &r.own
	return r
}

// ask sends the command to each node whose vote the machine waits for.
func (r *round) ask() {
	for _, i := range r.targets() {
		r.locker.nodes[i].Send(r.command, r, i)
	}
	r.asked()
}

// skip ends the round without asking anybody.
func (r *round) skip(why error) {
	for _, i := range r.targets() {
		r.Reply(i, r.command, pool.Reply{Answer: pool.Unsent, Err: fmt.Errorf("not asked: %w", why)})
	}
	r.asked()
}

// targets returns the nodes to ask.
func (r *round) targets() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	targets := make([]int, 0, len(r.errs))
	for i := range r.errs {
		if r.machine.Said(i) == quorum.Pending {
			targets = append(targets, i)
		} else {
			r.errs[i] = errNeverAcquired
		}
	}
	return targets
}

// asked tells the machine that the command has gone out.
func (r *round) asked() {
	now := r.locker.clock.Now()
	r.mu.Lock()
	effects := r.machine.Asked(now)
	r.heedLocked(now)
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
	return r.outcome
}

// giveUp stops the machine: whoever waits is told now.
func (r *round) giveUp() {
	now := r.locker.clock.Now()
	r.mu.Lock()
	effects := r.machine.Stop(now)
	r.heedLocked(now)
	r.mu.Unlock()
	r.carry(effects)
}

// heedLocked takes note that an extend has ended its lock.
func (r *round) heedLocked(now time.Time) {
	if r.lock != nil {
		r.lock.atLocked(now)
	}
}

// Reply implements [pool.Receiver].
func (r *round) Reply(node int, cmd *pool.Command, reply pool.Reply) {
	now := r.locker.clock.Now()
	vote := votes[reply.Answer]
	r.mu.Lock()
	var effects quorum.Effects
	switch {
	case cmd == r.command:
		r.errs[node] = reply.Err
		effects = r.machine.Vote(now, node, vote, reply.Server)
		r.heedLocked(now)
	case r.extend != nil: // the old TTL that follows a failed extend
		r.extend.Restored(node, vote)
	default: // the release that follows a lost acquire
		if vote == quorum.Refused && r.machine.Said(node) == quorum.No {
			r.errs[node] = reply.Err // what stands in the way is not a lock
		}
		effects = r.acquire.Released(node)
	}
	r.mu.Unlock()
	if o := r.locker.observer; o != nil && cmd == r.command {
		o.Vote(Vote{
			Op: r.op, Name: r.req.name, Node: node, Addr: r.locker.nodes[node].Addr(),
			Answer: reply.Answer, Err: reply.Err, Took: now.Sub(r.grant.Start),
		})
	}
	r.carry(effects)
}

var votes = map[pool.Answer]quorum.Vote{
	pool.Yes: quorum.Yes, pool.No: quorum.No, pool.Maybe: quorum.Lost,
	pool.Refused: quorum.Refused, pool.Unsent: quorum.Unsent,
}

// carry does what the machine asks for. The context of the caller has no part in it.
func (r *round) carry(effects quorum.Effects) {
	if len(effects.Release) > 0 {
		release := pool.Release(r.req.key, r.token, r.owed)
		for _, i := range effects.Release {
			r.locker.nodes[i].Send(release, r, i)
		}
	}
	if len(effects.Restore) > 0 {
		restore := pool.Restore(r.req.key, r.token, effects.TTL)
		for _, i := range effects.Restore {
			r.locker.nodes[i].Send(restore, r, i)
		}
	}
	if effects.Settling {
		r.settle()
	}
	if effects.Outcome != quorum.Undecided {
		r.finish(effects.Outcome)
	}
}

// settle has a lost round told when the node timeout is over, if not before.
func (r *round) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outcome == quorum.Undecided {
		left := r.locker.timeout - r.locker.clock.Now().Sub(r.grant.Start)
		r.timer = r.locker.clock.AfterFunc(left, r.giveUp)
	}
}

// finish tells the outcome.
func (r *round) finish(outcome quorum.Outcome) {
	r.mu.Lock()
	r.outcome = outcome
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	r.report(outcome)
	close(r.done)
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
	now := l.clock.Now()
	verdict := Verdict{Op: r.op, Name: r.req.name, Took: now.Sub(r.grant.Start)}
	if outcome != quorum.Done {
		verdict.Err = r.failure()
	} else if r.op != opUnlock {
		verdict.Validity = r.grant.Deadline().Sub(now)
	}
	if l.observer != nil {
		l.observer.Verdict(verdict)
	}
	if log {
		l.logger.Log(context.Background(), level, "redlock: refused", "op", r.op, "name", r.req.name, "took", verdict.Took, "error", verdict.Err)
	}
}

// failure puts together what every node said, once there is an outcome.
func (r *round) failure() *QuorumError {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := &QuorumError{
		Op: r.op, Name: r.req.name,
		Need:   quorum.Majority(len(r.errs)),
		Reason: reasons[r.op][r.outcome],
		Nodes:  make([]NodeError, len(r.errs)),
	}
	for i, err := range r.errs {
		if twin, ok := r.machine.Twin(i); ok {
			err = fmt.Errorf("%w %s", ErrSameServer, r.locker.nodes[twin].Addr())
		} else if said := r.machine.Said(i); said == quorum.Pending {
			err = ErrPending
		} else if err == nil && said != quorum.Yes {
			err = ErrRestoring
		}
		e.Nodes[i] = NodeError{Addr: r.locker.nodes[i].Addr(), Err: err}
	}
	return e
}
