package redlock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// report is the part of a round that makes events and errors of it. It implements [engine.Caller].
type report struct {
	locker  *Locker
	call    *call         // of which its events are; nil if nobody wants its number
	held    *heldLock     // that is extended or released; nil for an acquire
	began   time.Duration // after the events began; 0 if nobody wants to know
	refusal *QuorumError  // unless it is Done
	unlocks bool          // held is released
	split   bool          // see event.Round
}

func (p *report) op() event.Op {
	switch {
	case p.held == nil:
		return event.OpAcquire
	case p.unlocks:
		return event.OpUnlock
	}
	return event.OpExtend
}

// acquireRound, extendRound and releaseRound are what the engine runs, with what is reported of it.
type (
	acquireRound struct {
		engine.Acquire
		report
	}
	extendRound struct {
		engine.Extend
		report
	}
	releaseRound struct {
		engine.Release
		report
	}
)

// beginLocked asks for a lock under a token of its own.
func (l *Locker) beginLocked(e *engine.Entry, c *engine.Call, req *request) *acquireRound {
	r := &acquireRound{report: report{locker: l, call: req.call}}
	r.begin()
	e.AskLocked(&r.Acquire, c, l.newToken(req), &r.report)
	return r
}

// newToken returns the token of the next round of a call: that which its source has made, or a random one.
func (l *Locker) newToken(req *request) string {
	if req.token != "" {
		return req.token
	}
	return token.WithMetadata(token.Random(l.engine.Self), req.metadata)
}

// wonLocked makes the lock that a round has won for a request.
func (l *Locker) wonLocked(e *engine.Entry, c *engine.Call, r *acquireRound, req *request) *Lock {
	h := l.newHeld(req)
	handle := h.takenLocked(e.WonLocked(&r.Acquire, c, h, &h.first.want))
	h.ArmLocked()
	return handle
}

// begin notes that the round begins, if its call is observed. The rounds of a call begin one after the other, before it returns; answers
// to one may come when the next has begun.
func (p *report) begin() {
	if c := p.call; c != nil {
		c.rounds++
		c.began = time.Now()
		p.began = c.began.Sub(p.locker.events.began)
	}
}

func (p *report) name(r *engine.Round) string { return p.locker.nameOf(r.ID().Key) }

// took returns how long the round has taken, and the time. It reads one clock, if it can: two for each vote can be seen at saturation.
func (p *report) took(r *engine.Round) (time.Duration, time.Time) {
	took := r.Took()
	if p.began == 0 {
		return took, time.Now() // read behind Took, so that At less Took is not before the round
	}
	return took, p.locker.events.began.Add(p.began + took)
}

func (p *report) Raising(r *engine.Round, node int, granted, number uint64) {
	if l := p.locker; l.events.wants(kindRounds) {
		l.events.emit(event.Raise{
			At: time.Now(), Call: p.call.number(), Name: p.name(r), Node: node, Addr: l.addr(node), Granted: granted, Fence: number,
		})
	}
}

func (p *report) Voted(r *engine.Round, node int, answer quorum.Answer, command string, err error) {
	if l := p.locker; l.events.wants(kindVotes) {
		took, at := p.took(r)
		l.events.emitVote(p.call, event.Vote{
			At: at, Op: p.op(), Name: p.name(r), Node: node, Addr: l.addr(node),
			Answer: event.Answer(answer), Command: command, Err: err, Took: took,
		})
	}
}

func (p *report) Settled(r *engine.Round) {
	l, outcome := p.locker, r.Outcome()
	if outcome != quorum.Done {
		p.refusal = l.refusal(p.op(), p.name(r), reasons[p.op()][outcome], r.Why)
	}
	if p.held == nil && outcome == quorum.Denied {
		for i := range r.Nodes() {
			p.split = p.split || r.Answer(i) == quorum.Yes
		}
	}
	if p.held == nil && !l.engine.Served() {
		l.faults.note(p.refusal, l.engine.Clock.Now(), l.settings.Pace.Most)
	}
	if p.held == nil && l.outages.some.Load() {
		l.outages.ended(r, p.name(r), p.refusal)
	}
}

func (p *report) Report(r *engine.Round) {
	e := &p.locker.events
	ended, reported := event.Round{Op: p.op(), Split: p.split}, e.wants(kindRounds)
	if p.refusal != nil {
		ended.Err = p.refusal
		level, _ := refusalLine(ended)
		reported = reported || e.logs(level)
	}
	if reported {
		ended.Name = p.name(r)
		ended.Took, ended.At = p.took(r)
		if grant := r.Grant(); p.refusal == nil && !p.unlocks {
			ended.Validity = grant.Deadline().Sub(grant.Start) - ended.Took
		}
		e.emitRound(p.call, ended)
	}
	if p.unlocks && (e.wants(kindEnds) || r.Outcome() == quorum.Denied) { // else nobody wants to know
		p.held.released(r.Outcome(), p.call)
	}
	if r.Renewal != nil && p.call != nil {
		p.held.extended(event.Extend{Renewal: true, Err: ended.Err}, nil, p.call, r.Renewal.Before())
	}
}
