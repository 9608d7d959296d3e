package redlock

import (
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// acquireRound is a round that asks for a lock that nobody holds.
type acquireRound struct {
	round
	acquire lock.Acquire
}

// usualNodes is for how many nodes there is room on the stack.
const usualNodes = 7

// beginLocked asks for a lock under a token of its own.
func (e *entry) beginLocked(c *lock.Call, req *request) *acquireRound {
	value := ""
	if req.token != nil {
		value = *req.token
	} else {
		value = token.WithMetadata(token.Random(e.locker.self), req.Metadata)
	}
	r := &acquireRound{round: round{entry: e, op: event.OpAcquire, name: req.name, done: make(chan struct{})}}
	r.Round = &r.acquire.Round
	if req.call != nil {
		r.call = req.call
		req.call.round()
	}
	var room [usualNodes]lock.Act
	e.doLocked(e.name.Ask(room[:0], &r.acquire, c, value, &r.round))
	return r
}

// wonLocked makes the lock that a round has won for a request.
func (e *entry) wonLocked(c *lock.Call, r *acquireRound, req request) *Lock {
	h := &heldLock{entry: e, first: req.holder()}
	acts := e.name.Won(nil, c, &h.first.want, &r.acquire, &h.term, h)
	handle := h.takenLocked(&h.first, h.term.Hold())
	h.armLocked()
	e.doLocked(acts)
	return handle
}
