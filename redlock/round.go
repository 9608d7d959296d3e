package redlock

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// wonLocked returns the lock that a round has won for a request.
func (l *Locker) wonLocked(e *engine.Entry, c *engine.Call, r *engine.Acquire, req *request) *Lock {
	g := l.newGranted(req)
	return l.handleOf(g, e.WonLocked(r, c, &g.Held))
}

// begin records that a round of a call begins, if the events need the call. The rounds of a call begin one after the
// other, before the call returns. Answers to one may come when the next has begun.
func (e *events) begin(r *engine.Round) {
	if c := callOf(r.Of); c != nil {
		c.rounds++
		c.began = time.Now()
		r.Began = c.began.Sub(e.began)
	}
}

// Began records that a round begins: of a call, or a renewal. A renewal gets an observedCall of its own.
func (p program) Began(r *engine.Round) {
	if r.Renewal() != nil {
		r.Of = p.newCall(context.Background())
		return
	}
	p.events.begin(r)
}

// callOf returns the call that a round or a holder belongs to. It is nil if no observer wants its number.
func callOf(of any) *observedCall {
	c, _ := of.(*observedCall)
	return c
}

// opOf returns the operation of a round: acquire, extend or unlock.
func opOf(r *engine.Round) event.Op {
	switch {
	case r.Held() == nil:
		return event.OpAcquire
	case r.Releases():
		return event.OpUnlock
	}
	return event.OpExtend
}

func (l *Locker) nameOfRound(r *engine.Round) string { return l.nameOf(r.ID().Key) }

// refusalOf returns the error of a round that has an outcome other than Done.
func (l *Locker) refusalOf(r *engine.Round) *QuorumError {
	op := opOf(r)
	reason := reasons[op][r.Outcome()]
	if r.Overtaken() {
		reason = errUnanswered
	}
	return l.refusal(op, l.nameOfRound(r), reason, r.Why)
}

// took returns how long a round took, and the present time. It reads only one clock if it can: two readings for each
// vote cost noticeable time at saturation.
func (e *events) took(r *engine.Round) (time.Duration, time.Time) {
	took := r.Took()
	if r.Began == 0 {
		return took, time.Now() // read after Took, so that At less Took is not before the round
	}
	return took, e.began.Add(r.Began + took)
}

// Raising emits a protocol.Raise, if an observer wants it.
func (p program) Raising(r *engine.Round, node int, granted, number uint64) {
	if p.events.wants(groupRounds) {
		p.events.emit(protocol.Raise{
			At: time.Now(), Call: callOf(r.Of).callID(), Name: p.nameOfRound(r), Node: node, Addr: p.addr(node),
			Granted: granted, Fence: number,
		})
	}
}

// Voted emits a protocol.Vote, if an observer wants it.
func (p program) Voted(r *engine.Round, node int, answer quorum.Answer, command string, err error) {
	if p.events.wants(groupVotes) {
		took, at := p.events.took(r)
		p.events.emitVote(callOf(r.Of), protocol.Vote{
			At: at, Op: opOf(r), Name: p.nameOfRound(r), Node: node, Addr: p.addr(node),
			Answer: protocol.Answer(answer), Command: command, Err: err, Took: took,
		})
	}
}

// Settled passes the outcome of an acquire to the records of faults and outages, which may end waits.
func (p program) Settled(r *engine.Round) {
	served, limited := p.engine.Served(), p.outages.some.Load()
	if served && !limited {
		return
	}
	var refusal *QuorumError
	if r.Outcome() != quorum.Done {
		refusal = p.refusalOf(r)
	}
	if !served {
		p.faults.note(refusal, p.engine.Clock.Now(), p.settings.Pace.Most)
	}
	if limited {
		p.outages.ended(r, p.nameOfRound(r), refusal)
	}
}

// Ended reports the outcome of a round to the observers and the log. It also reports the end of a lock that was
// released, and the end of a renewal.
func (p program) Ended(r *engine.Round) {
	e, c := &p.events, callOf(r.Of)
	ended, reported := protocol.Round{Op: opOf(r), Split: r.Split()}, e.wants(groupRounds)
	if r.Outcome() != quorum.Done {
		ended.Err = p.refusalOf(r)
		level, _ := refusalLine(ended)
		reported = reported || e.logs(level)
	}
	if reported {
		ended.Name = p.nameOfRound(r)
		ended.Took, ended.At = e.took(r)
		if grant := r.Grant(); ended.Err == nil && !r.Releases() {
			ended.Validity = grant.Deadline().Sub(grant.Start) - ended.Took
		}
		e.emitRound(c, ended)
	}
	// Without an observer of ends, only the log needs the end of the lock, and it reports only losses.
	if r.Releases() && (e.wants(groupEnds) || r.Outcome() == quorum.Denied) {
		p.released(r.Held(), r.Outcome(), c)
	}
	if renewal := r.Renewal(); renewal != nil && c != nil {
		p.extended(r.Held(), event.Extend{Renewal: true, Err: ended.Err}, nil, c, renewal.Before())
	}
}
