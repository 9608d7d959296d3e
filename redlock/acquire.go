package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// acquireRound asks for a lock that nobody holds, under a token of its own.
type acquireRound struct {
	round
	acquire *quorum.Acquire // the machine
	command *node.Command
	own     sync.Mutex     // mu
	timer   clock.Timer    // ends the wait for the clean-up
	sending sync.WaitGroup // the rollback is being sent
}

// newAcquire makes a round. With fencing, the numbers that it is granted are above floor.
func (l *Locker) newAcquire(req request, floor uint64) (*acquireRound, error) {
	token, err := l.newToken(req.metadata)
	if err != nil {
		return nil, err
	}
	r := &acquireRound{round: round{
		locker: l, op: OpAcquire, req: req, token: token, done: make(chan struct{}),
		grant: quorum.Grant{Start: l.clock.Now(), TTL: req.ttl, Drift: l.drift},
	}}
	r.mu = &r.own
	if l.fencing {
		r.acquire = quorum.NewFencedAcquire(len(l.nodes), r.grant)
		r.command = node.AcquireFenced(req.key, token, req.ttl, l.counter(r.grant.Start, req.ttl, floor))
	} else {
		r.acquire = quorum.NewAcquire(len(l.nodes), r.grant)
		r.command = node.Acquire(req.key, token, req.ttl)
	}
	r.machine = r.acquire
	return r, nil
}

// send sends the command to every node.
func (r *acquireRound) send() {
	since := time.Now()
	for i, n := range r.locker.nodes {
		n.Send(since, r.command, r, i)
	}
	r.asked()
}

// skip ends the round without asking a node.
func (r *acquireRound) skip(why error) {
	for i := range r.locker.nodes {
		r.Reply(i, node.Reply{Answer: quorum.Unsent, Err: fmt.Errorf("not asked: %w", why)})
	}
	r.asked()
}

// asked reports to the machine that the command has gone out.
func (r *acquireRound) asked() {
	r.apply(r.step(func() quorum.Actions { return r.acquire.Asked(r.locker.clock) }))
}

// wait returns the outcome. It stops the round when ctx ends or the Locker is closed.
func (r *acquireRound) wait(ctx context.Context) quorum.Outcome {
	select {
	case <-r.done:
	case <-ctx.Done():
		r.stop()
	case <-r.locker.closing.Done():
		r.stop()
	}
	<-r.done
	// Another goroutine may have lost the round, and may not have sent the rollback yet.
	r.sending.Wait()
	return r.outcome
}

// stop has the outcome reported now.
func (r *acquireRound) stop() {
	r.apply(r.step(func() quorum.Actions { return r.acquire.Stop(r.locker.clock) }))
}

// step reports an event to the machine, and returns the actions to apply.
func (r *acquireRound) step(event func() quorum.Actions) quorum.Actions {
	r.mu.Lock()
	actions := event()
	if len(actions.Release) > 0 {
		r.sending.Add(1)
	}
	r.endLocked(actions.Outcome, r.reasonLocked)
	if actions.Outcome != quorum.Undecided && r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	return actions
}

// Reply implements [node.Receiver] for the acquire.
func (r *acquireRound) Reply(i int, reply node.Reply) {
	actions := r.step(func() quorum.Actions {
		if reply.Number > 0 {
			return r.acquire.Granted(r.locker.clock, i, reply.Number, reply.Server)
		}
		return r.voteLocked(i, reply)
	})
	r.observe(i, reply)
	r.apply(actions)
}

// raise receives the answers to raised fencing tokens.
type raise struct{ *acquireRound }

// Reply implements [node.Receiver].
func (r raise) Reply(i int, reply node.Reply) {
	r.apply(r.step(func() quorum.Actions {
		r.noteLocked(i, reply.Err)
		return r.acquire.Raised(r.locker.clock, i, reply.Answer)
	}))
}

// rollback receives the answers to the release that follows a lost acquire.
type rollback struct{ *acquireRound }

// Reply implements [node.Receiver].
func (r rollback) Reply(i int, reply node.Reply) {
	r.apply(r.step(func() quorum.Actions {
		if reply.Answer == quorum.Refused && r.machine.Answer(i) == quorum.No {
			r.noteLocked(i, reply.Err) // the key holds something else than a lock
		}
		return r.acquire.Released(i)
	}))
}

// reasonLocked is that of round for nodes whose yes counts.
func (r *acquireRound) reasonLocked(i int) error {
	err := r.round.reasonLocked(i)
	if r.machine.Answer(i) != quorum.Yes {
		return err
	}
	agrees, open := r.acquire.Agrees(i)
	switch {
	case r.errs != nil && r.errs[i] != nil: // the raise failed
		return r.errs[i]
	case open:
		return ErrPending
	case !agrees:
		return errAhead
	}
	return err
}

// apply carries out the actions of the machine. The context of the caller has no part in it.
func (r *acquireRound) apply(actions quorum.Actions) {
	nodes := r.locker.nodes
	if len(actions.Release) > 0 {
		since, command := time.Now(), release(r.req.key, r.token, r.locker.fencing, 0, r.req.ttl)
		for _, i := range actions.Release {
			nodes[i].Send(since, command, rollback{r}, i)
		}
		r.sending.Done()
	}
	for _, due := range actions.Raise {
		nodes[due.Node].Send(time.Now(), node.Raise(r.req.key, r.token, due.Granted, due.Token), raise{r}, due.Node)
	}
	if actions.AwaitCleanUp {
		r.awaitCleanUp()
	}
	if actions.Outcome != quorum.Undecided {
		r.finish(r.validity(), slog.LevelDebug)
	}
}

// awaitCleanUp has the loss reported when the node timeout is over, if not before.
func (r *acquireRound) awaitCleanUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outcome == quorum.Undecided {
		r.timer = r.locker.clock.AfterFunc(r.locker.timeout-r.took(), r.stop)
	}
}

// highest returns the highest number that a node has granted.
func (r *acquireRound) highest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acquire.Highest()
}

// reached reports whether the acquire may have arrived at a node.
func (r *acquireRound) reached(node int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acquire.Reached(node)
}
