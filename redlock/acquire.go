package redlock

import (
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// newAcquire makes a round that asks for a lock that nobody holds, under a token of its own. With fencing, the numbers that
// it is granted are above floor. It owns a block of them, of which its fencing token is the last.
func (l *Locker) newAcquire(req request, floor uint64) *round {
	value := ""
	if req.token != nil {
		value = *req.token
	} else {
		value = token.WithMetadata(token.Random(l.self), req.metadata)
	}
	grant := quorum.Grant{Start: l.clock.Now(), TTL: req.ttl, Drift: l.drift, Grace: req.grace}
	r := &round{
		locker: l, op: event.OpAcquire, name: req.name, mark: form.Mark{Key: req.key, Token: value}, grant: grant, done: make(chan struct{}),
		ask: form.Ask{TTL: req.ttl, Block: req.block, Floor: floor}, command: new(wire.Command),
	}
	r.mu = &r.own
	if req.call != nil {
		r.call = req.call
		req.call.round()
	}
	r.acquire = quorum.NewAcquire(len(l.nodes), grant)
	r.machine = r.acquire
	if n, ok := l.form.(form.Numbered); ok {
		n.Prepare(&r.ask, grant.Start, l.wall)
	}
	l.form.Acquire(r.command, r.mark, r.ask)
	return r
}

// highest returns the highest number that a node has granted.
func (r *round) highest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acquire.Highest()
}

// Holds and Reached implement [quorum.Votes].
func (r *round) Holds(node int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acquire.Holds(node)
}

func (r *round) Reached(node int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acquire.Reached(node)
}
