package redlock

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// Attach returns a handle on a lock whose token is known, for example a lock of another process. The handle can extend
// the lock, release it, or renew it with [RenewFor]. The lock may be of any kind: [Lock.Kind] returns it. The options
// are [TTL], for which renewals ask, RenewFor and [Grace]. Any other option is [ErrInvalid].
//
// Attach asks the nodes and changes nothing. It asks a node that has shared locks or slots a second time, whether the
// token is among them. It waits for the node timeout at most each time. A lock with a slot counts only on nodes where
// it has one, and keeps it. A replica counts as a node that did not answer, and so does a server that still loads its
// data.
//
// The Lock has the validity that a majority of the nodes has left, less the Grace. So a lock that is attached only to
// be released may need Grace(0). If the key has no TTL, the validity is that of the longest TTL ([WithMaxTTL]). The
// Lock has a fencing token if a majority holds the same one.
//
// Call [Lock.Detach] on the previous handle first, unless its process is gone. Otherwise there are two handles on one
// lock, and Err of both is nil. If one of them is unlocked, the other does not notice that before its deadline or its
// next extension. Each may extend a lock that the other has released. Attach cannot prevent that, not even in one
// process.
//
// A node that has restarted with an older copy of its data shows locks that were released since, and Attach would
// accept them. So attach only with the token of a lock that nobody has released.
//
// The errors in a [*QuorumError], joined with ctx.Err() if ctx ended first:
//   - [ErrNotHeld]: no majority can hold the token, also because data of another program is there; or no validity is
//     left;
//   - [ErrNoQuorum]: too few nodes answered, or a majority holds the token with different fencing tokens or slots.
//
// The errors in a [*LockError]:
//   - [ErrInvalid]: the name or an option is out of range, Attach has no use for an option, or the token is empty;
//   - ctx.Err() alone: ctx had ended before the call;
//   - [ErrClosed]: the Locker has been closed.
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
	return l.handleOf(g, e.AdoptLocked(&g.Held, id, lease)), nil
}

// Detach ends the lock for this process without releasing it, and returns its token. The key stays on the nodes until
// its TTL is over. Another process can get the lock with [Locker.Attach] and the token. For this handle the lock is
// over, as if it had been released. This Locker no longer extends or releases it.
//
// Detach waits for the outcome of an extension that is under way. It also waits for the nodes that have not answered
// the acquire, for the node timeout at most. Attach would not find the keys that they set later. If ctx has ended
// before the call, Detach ignores that. Calls of this Locker that wait for the lock wake at its release, like calls of
// other processes.
//
// If the last extension or renewal has failed with [ErrNoQuorum], a majority of the nodes may still set or keep the key
// later. They keep it for the TTL of that extension. Then nobody holds the lock, but others wait. To prevent that, call
// [Lock.Extend] before Detach until it returns nil (docs/recipes.md).
//
// The errors, after which the lock is unchanged:
//   - [ErrReleased], [ErrLost]: the lock was over before;
//   - [ErrInvalid]: other handles hold the lock too ([Reentrant]), so that it cannot be detached;
//   - ctx.Err(): ctx ended during the call.
func (l *Lock) Detach(ctx context.Context) (token Token, err error) {
	over, ctx := l.Done(), living(ctx)
	for {
		under, err := l.detach()
		switch {
		case err != nil:
			return "", failed(opDetach, l.Name(), err)
		case under == nil:
			return Token(l.held.Lease.ID().Token), nil
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
