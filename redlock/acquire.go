package redlock

import (
	"sync"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// acquireRound is a round that asks for a lock that nobody holds.
type acquireRound struct {
	round
	own     sync.Mutex // the mutex of the round
	acquire lock.Acquire
}

// beginAcquire asks for a lock under a token of its own. With fencing, the numbers that it is granted are above floor. It owns a
// block of them, of which its fencing token is the last.
func (l *Locker) beginAcquire(req request, floor uint64) *acquireRound {
	value := ""
	if req.token != nil {
		value = *req.token
	} else {
		value = token.WithMetadata(token.Random(l.self), req.Metadata)
	}
	r := &acquireRound{round: round{locker: l, op: event.OpAcquire, name: req.name, done: make(chan struct{})}}
	r.Round, r.mu = &r.acquire.Round, &r.own
	if req.call != nil {
		r.call = req.call
		req.call.round()
	}
	grant := quorum.Grant{Start: l.clock.Now(), TTL: req.TTL, Drift: l.drift, Grace: req.Grace}
	r.acquire.Ask = form.Ask{TTL: req.TTL, Block: req.block, Floor: floor}
	if n, ok := l.form.(form.Numbered); ok {
		n.Prepare(&r.acquire.Ask, grant.Start, l.wall)
	}
	var room [usualNodes]lock.Act
	r.mu.Lock()
	ends := r.askLocked(r.acquire.Begin(room[:0], l.form, form.Mark{Key: req.key, Token: value}, grant, len(l.nodes)))
	r.mu.Unlock()
	r.finish(ends)
	return r
}

// usualNodes is for how many nodes there is room on the stack.
const usualNodes = 7

// highest returns the highest number that a node has granted.
func (r *acquireRound) highest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acquire.Votes().Highest()
}

// Holds and Reached implement [quorum.Votes].
func (r *acquireRound) Holds(node int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acquire.Votes().Holds(node)
}

func (r *acquireRound) Reached(node int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acquire.Votes().Reached(node)
}
