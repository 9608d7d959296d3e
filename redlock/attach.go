package redlock

import (
	"context"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// Attach returns a handle on a lock of any kind by its token, for example from [Lock.Detach] in another process. It
// changes nothing on the nodes. The validity is what a majority has left, less the [Grace]. The options are [TTL] for
// renewals, [RenewFor] and Grace.
//
// Attach in one process at a time, and only to a lock that nobody has released. Otherwise two may hold it, which Attach
// cannot notice (https://github.com/quorumlock/quorumlock/blob/main/docs/recipes.md).
//
// The errors, in a [*QuorumError]:
//   - [ErrNotHeld]: no majority can hold the token, or no validity is left;
//   - [ErrNoQuorum]: too few nodes answered, or they have different fencing tokens or slots.
func (l *Locker) Attach(ctx context.Context, name string, token Token, opts ...LockOption) (lock *Lock, err error) {
	var req request
	if err := l.begin(&req, event.OpAttach, name, opts); err != nil {
		return nil, err
	}
	defer l.engine.End()
	switch {
	case token == "":
		return nil, failed(event.OpAttach, name, invalid("the token is empty"))
	case req.reentrant || req.given&^givenGrace != 0:
		return nil, failed(event.OpAttach, name, invalid("only TTL, RenewFor and Grace are options of Attach"))
	}
	if req.call = l.newCall(ctx); req.call != nil {
		defer func() { l.acquired(event.OpAttach, false, &req, lock, err) }()
	}

	if ctx.Err() != nil {
		return nil, failed(event.OpAttach, name, ended(ctx))
	}
	grant := quorum.Grant{Start: l.engine.Clock.Now(), Drift: l.engine.Drift, Grace: req.Grace}
	attach, outcome, answers := l.engine.Attach(ctx, req.key, string(token), grant, l.maxTTL)
	if outcome != quorum.Done {
		reason := reasons[event.OpAttach][outcome]
		if yes, _, _ := tally(answers); outcome == quorum.NoQuorum && yes >= quorum.Majority(len(answers)) {
			reason = errFences
		}
		return nil, l.unanswered(ctx, event.OpAttach, name, reason, answers)
	}
	id, kind, lease := attach.Lock()
	req.Kind = kind
	e := l.engine.Enter(req.key)
	defer e.Exit()
	g := l.newGranted(&req)
	return l.watched(l.handleOf(g, e.AdoptLocked(&g.Held, id, lease)), &req), nil
}

// Detach ends the lock for this process without a release, and returns the token for [Locker.Attach]. The key stays
// until its TTL ends. This handle is over, as after an Unlock.
//
// Detach waits for an extension that is under way, and for answers to the acquire, for the node timeout at most, or
// twice as long while a node connects for the first time. A ctx that has ended is ignored. After an error the lock is
// as before:
//   - [ErrReleased], [ErrLost]: the lock was over;
//   - [ErrInvalid]: other handles hold it too ([Reentrant]);
//   - ctx.Err(): ctx ended.
//
// After a failed renewal call Extend first: otherwise nodes may set the key again later, for one TTL.
func (l *Lock) Detach(ctx context.Context) (token Token, err error) {
	over, ctx := l.Done(), living(ctx)
	var withdrawal clock.Timer
	for {
		under, err := l.detach()
		switch {
		case err != nil:
			return "", failed(opDetach, l.Name(), err)
		case under == nil:
			return Token(l.held.Lease.ID().Token), nil
		case withdrawal == nil:
			withdrawal = l.locker.engine.Clock.AfterFunc(l.locker.engine.Timeout, l.held.WithdrawAcquire)
			defer withdrawal.Stop()
		}
		select {
		case <-under:
		case <-over:
		case <-ctx.Done():
			if l.Err() == nil {
				return "", failed(opDetach, l.Name(), ended(ctx))
			}
		}
	}
}

// detach ends the hold of the only handle on a lock that is held. If an extension is under way, or a node has not
// answered the acquire, it changes nothing, and under is closed when that has ended.
func (l *Lock) detach() (under <-chan struct{}, err error) {
	h := l.held
	h.Enter()
	defer h.Exit()
	now := h.Now()
	if ending := h.StandsLocked(&l.hold, now); ending != quorum.NotEnded {
		return nil, l.locker.endLocked(h, ending)
	}
	if h.Lease.Holds() > 1 {
		return nil, invalid("other handles hold the lock too")
	}
	if under = h.UnderWayLocked(); under != nil {
		return under, nil
	}
	l.locker.endedLocked(h, event.End{Err: ErrReleased, Detached: true}, nil)
	h.DetachLocked(&l.hold, now)
	return nil, nil
}
