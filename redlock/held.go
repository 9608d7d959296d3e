package redlock

import (
	"context"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// heldLock is a lock that is held, behind one or more handles.
type heldLock struct {
	locker  *Locker
	req     request
	token   string
	fence   uint64 // 0 without fencing
	acquire *round // that won it; nil if the lock was attached
	first   Lock   // the handle that came with it

	// sending orders what is sent for the lock: no command that can create its key is sent after its release.
	sending sync.Mutex

	mu        sync.Mutex // also that of the rounds that extend or release
	lease     *quorum.Lease
	turn      chan struct{}   // held by the extension that is under way; made by the first
	unlocking bool            // an Unlock is under way, or done
	renewal   *quorum.Renewal // nil without AutoExtend
	watchdog  clock.Timer     // for the next renewal; nil if there never was one to come
	watches   bool            // it is in Locker.watched
	// over ends with the lease. It and the timer for the deadline are made when somebody asks for them.
	over  context.Context
	end   context.CancelFunc
	timer clock.Timer
}

// newHeld takes up a lease.
func (l *Locker) newHeld(req request, token string, fence uint64, acquire *round, lease *quorum.Lease) *Lock {
	h := &heldLock{locker: l, req: req, token: token, fence: fence, acquire: acquire, lease: lease}
	h.first.held = h
	if req.autoExtend {
		h.renew(req)
	}
	if req.owner != "" {
		owned := ownedLock{req.owner, req.key}
		l.owners.Store(owned, h)
		context.AfterFunc(h.context(), func() { l.owners.CompareAndDelete(owned, h) })
	}
	return &h.first
}

func (h *heldLock) now() time.Time { return h.locker.clock.Now() }

// err returns nil while the lock is held.
func (h *heldLock) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return endings[h.atLocked(h.now())]
}

// context returns over.
func (h *heldLock) context() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over == nil {
		h.over, h.end = context.WithCancel(context.Background())
		now := h.now()
		h.timer = h.locker.clock.AfterFunc(h.lease.Remaining(now), h.tick)
		h.atLocked(now)
	}
	return h.over
}

// tick runs at what was the deadline when the timer was set.
func (h *heldLock) tick() {
	h.mu.Lock()
	now := h.now()
	if h.atLocked(now) == quorum.Held { // extended meanwhile
		h.timer.Reset(h.lease.Remaining(now))
	}
	h.mu.Unlock()
	h.cleanUp()
}

// atLocked returns how the lease stands, and ends over with it. If the deadline ended the lease, the timer goes on,
// because tick still has to clean up.
func (h *heldLock) atLocked(now time.Time) quorum.Ending {
	ending := h.lease.At(now)
	if ending != quorum.Held && h.over != nil {
		if ending != quorum.Expired {
			h.timer.Stop()
		}
		h.end()
	}
	return ending
}

// cleanUp sends the release to every node if the lock is over and may have left keys there, and waits for no answer.
func (h *heldLock) cleanUp() {
	h.mu.Lock()
	left, longest := h.lease.Leftovers(), h.lease.Longest()
	h.mu.Unlock()
	if !left {
		return
	}
	h.sending.Lock()
	command, since := release(h.req.key, h.token, h.fence > 0, h.fence, longest), time.Now()
	for i, n := range h.locker.nodes {
		n.Send(since, command, nil, i)
	}
	h.sending.Unlock()
	h.locker.queues.released(h, false)
}

// extend asks the nodes for a longer TTL and waits for the outcome, see round.wait. It returns nil if the lease is over. The
// caller has the turn.
func (h *heldLock) extend(ctx context.Context, over <-chan struct{}, grant quorum.Grant) *round {
	h.mu.Lock()
	if h.atLocked(grant.Start) != quorum.Held {
		h.mu.Unlock()
		return nil
	}
	machine, tracked := quorum.NewExtend(h.lease, grant), h.watches
	h.mu.Unlock()
	r := h.newRound(OpExtend, grant, machine)
	r.extend = machine
	r.command = node.Extend(h.req.key, h.token, grant.TTL)
	if h.fence > 0 {
		r.command = node.ExtendFenced(h.req.key, h.token, h.fence, grant.TTL, h.locker.keepFence)
	}
	if tracked {
		r.command.Tracked()
	}
	h.sending.Lock()
	r.send()
	h.sending.Unlock()
	r.wait(ctx, over)
	return r
}

// release sends the release of a lock that is over to each node that may hold it. An extension has been sent to all nodes by
// then, or will not be sent.
func (h *heldLock) release(now time.Time) *round {
	h.sending.Lock()
	defer h.sending.Unlock()
	h.mu.Lock()
	extended, longest := h.lease.Everywhere(), h.lease.Longest()
	h.mu.Unlock()
	r := h.newRound(OpUnlock, quorum.Grant{Start: now}, quorum.NewRelease(len(h.locker.nodes), func(node int) bool {
		return extended || h.acquire.reached(node)
	}))
	r.command = release(h.req.key, h.token, h.fence > 0, h.fence, longest)
	r.send()
	return r
}

func (h *heldLock) newRound(op Op, grant quorum.Grant, machine machine) *round {
	return &round{
		locker: h.locker, op: op, req: h.req, token: h.token, grant: grant,
		held: h, done: make(chan struct{}), mu: &h.mu, machine: machine,
	}
}

// turns returns turn.
func (h *heldLock) turns() chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.turn == nil {
		h.turn = make(chan struct{}, 1)
	}
	return h.turn
}
