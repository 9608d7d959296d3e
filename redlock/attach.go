package redlock

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool"
)

// Attach takes up a lock that is known by its token, from another process or an earlier call: to
// extend it, release it, or keep it with [AutoExtend]. Of the options only [TTL], AutoExtend and [MaxHold]
// apply; TTL is what AutoExtend asks for.
//
// It asks the nodes and changes nothing. A fencing token is recovered where a majority holds it. The Lock has the validity that a majority of them has left; Unlock releases
// it for everybody who knows the token. But only one of them may extend it: whoever held it before must be
// gone, or have called [Lock.Detach]. An extension of his that fails is taken back on the nodes, and with it what
// the new Lock was granted: a third could hold the lock then.
//
// A node that has restarted with an older copy of its data shows locks that were released since, and this takes them up. So attach
// only with the token of a lock that nobody has released.
//
// The errors: [ErrNotHeld] in a [*QuorumError] where no majority can hold that token with validity left, ErrNoQuorum
// where too few answered, or a majority holds the token with different fencing tokens, joined with ctx.Err() where that is why; [ErrClosed].
func (l *Locker) Attach(ctx context.Context, name, token string, opts ...LockOption) (*Lock, error) {
	req, err := l.request(name, opts)
	if err != nil {
		return nil, err
	}
	switch {
	case token == "":
		return nil, fmt.Errorf("redlock: attach %q: the token is empty", name)
	case req.metadata != "" || req.owner != "" || req.reentrant:
		return nil, fmt.Errorf("redlock: attach %q: Metadata, WithOwner and Reentrant are for acquires", name)
	}
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.calls.Done()

	machine := quorum.NewAttach(len(l.nodes), l.clock.Now(), l.drift)
	outcome := quorum.Undecided
	p := l.poll(pool.Look(req.key), func(node int, reply *pool.Reply) (enough bool) {
		vote := votes[reply.Answer]
		held, fence := l.split(reply.Value)
		if vote == quorum.Yes && held != token {
			vote, reply.Answer, reply.Err = quorum.No, pool.No, pool.ErrHeld
		}
		ttl := reply.TTL
		if ttl == NoTTL {
			ttl = l.maxTTL
		}
		if o := machine.Saw(l.clock, node, vote, fence, ttl, reply.Server).Outcome; o != quorum.Undecided {
			outcome = o
		}
		return outcome != quorum.Undecided
	})
	err = p.wait(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch outcome {
	case quorum.Done:
		return l.newHold(req, token, machine.Fence(), nil, machine.Lease(l.maxTTL)), nil
	case quorum.Undecided:
		outcome = quorum.NoQuorum
	}
	reason := reasons[opAttach][outcome]
	if outcome == quorum.NoQuorum && p.countLocked(pool.Yes) >= quorum.Majority(len(l.nodes)) {
		reason = errFences
	}
	return nil, p.refusedLocked(ctx, err, opAttach, name, reason)
}

// Detach lets go of the lock without giving it back: it stays on the nodes for as long as it is valid, for whoever
// takes it up with [Locker.Attach] by the token that is returned. Nothing more is sent for it from here. For this
// Lock it is over, as if it had been released. An extension that is under way is waited for.
//
// The errors; the lock stays as it is:
//   - [ErrRestoring]: a failed extension may still be taken back on a node, which would harm the next holder; Unlock, or try again later;
//   - [ErrReleased], [ErrLost], [ErrExpired]: it was over before;
//   - [ErrReentered]: other handles hold the lock too;
//   - ctx.Err(): ctx ended first.
func (k *Lock) Detach(ctx context.Context) (token string, err error) {
	h := k.hold
	turn := h.turns()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-k.Done():
	case <-ctx.Done():
		return "", fmt.Errorf("redlock: detach %q: %w", k.Name(), ctx.Err())
	}
	if err := k.detach(); err != nil {
		return "", fmt.Errorf("redlock: detach %q: %w", k.Name(), err)
	}
	h.locker.forget(h)
	return h.token, nil
}

func (k *Lock) detach() error {
	h := k.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	switch ending := h.atLocked(now); {
	case k.left:
		return endingError(k.how)
	case ending != quorum.Held:
		return endingError(ending)
	case h.lease.Holds() > 1:
		return ErrReentered
	case !h.lease.Detach(now):
		return ErrRestoring
	}
	h.lease.Leave()
	k.left, k.how, h.unlocking = true, quorum.Released, true
	h.atLocked(now)
	return nil
}
