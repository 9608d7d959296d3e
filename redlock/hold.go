package redlock

import (
	"context"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// hold is a lock that is held, behind one or more handles.
type hold struct {
	locker  *Locker
	req     request
	token   string
	fence   uint64 // 0: without fencing
	acquire *round // that won it; nil if it was attached to
	first   Lock   // the handle that came with it

	// sending orders what is sent of the lock: nothing that could make its key follows its release.
	sending sync.Mutex

	mu        sync.Mutex // also that of the rounds that extend
	lease     *quorum.Lease
	turn      chan struct{} // held by the extension that is under way; made by the first
	unlocking bool          // an Unlock is under way, or done
	keeping   *keeping      // renews it; nil without AutoExtend
	// over ends with the lease. It and the timer for the deadline are made when
	// somebody asks for them.
	over  context.Context
	end   context.CancelFunc
	timer clock.Timer
}

// newHold takes up a lease.
func (l *Locker) newHold(req request, token string, fence uint64, acquire *round, lease *quorum.Lease) *Lock {
	h := &hold{locker: l, req: req, token: token, fence: fence, acquire: acquire, lease: lease}
	h.first.hold = h
	if req.autoExtend {
		l.watchdog.keep(h, req)
	}
	if req.owner != "" {
		l.owners.add(h)
	}
	return &h.first
}

func (h *hold) now() time.Time { return h.locker.clock.Now() }

// err returns nil while the lock is held.
func (h *hold) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return endingError(h.atLocked(h.now()))
}

// context returns over.
func (h *hold) context() context.Context {
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
func (h *hold) tick() {
	h.mu.Lock()
	now := h.now()
	if h.atLocked(now) == quorum.Held { // extended meanwhile
		h.timer.Reset(h.lease.Remaining(now))
	}
	h.mu.Unlock()
	h.sweep()
}

// atLocked returns how the lease stands, and ends over with it. The timer goes on
// where the deadline ended it: tick still has to sweep.
func (h *hold) atLocked(now time.Time) quorum.Ending {
	ending := h.lease.At(now)
	if ending != quorum.Held && h.over != nil {
		if ending != quorum.Expired {
			h.timer.Stop()
		}
		h.end()
	}
	return ending
}

// reached returns what says whether a node may hold the lock.
func (h *hold) reached() func(node int) bool {
	if h.extended() {
		return func(int) bool { return true }
	}
	return func(node int) bool {
		h.acquire.mu.Lock()
		defer h.acquire.mu.Unlock()
		return h.acquire.acquire.Reached(node)
	}
}

// extended says whether nodes may have been given the lock by an extension.
func (h *hold) extended() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease.Spread()
}

// sweep sends the release to wherever a lock that is over may still be, and waits
// for nobody.
func (h *hold) sweep() {
	h.mu.Lock()
	left, owed := h.lease.Leftovers(), h.lease.Longest()
	h.mu.Unlock()
	if !left {
		return
	}
	h.sending.Lock()
	release, since, reached := h.releasing(owed), time.Now(), h.reached()
	for i, node := range h.locker.nodes {
		if reached(i) {
			node.Send(since, release, nil, i)
		}
	}
	h.sending.Unlock()
	h.locker.queues.released(h, false)
}

// extend puts a longer TTL to the nodes. It returns nil if the lease is over. The caller
// has the turn.
func (h *hold) extend(grant quorum.Grant, ended func(*round)) *round {
	h.mu.Lock()
	if h.atLocked(grant.Start) != quorum.Held {
		h.mu.Unlock()
		return nil
	}
	machine := quorum.NewExtend(h.lease, grant)
	h.mu.Unlock()
	command := h.extending(grant.TTL)
	r := newRound(h.locker, opExtend, h.req, h.token, grant, machine, command)
	r.mu, r.extend, r.hold, r.ended = &h.mu, machine, h, ended
	h.sending.Lock()
	r.ask()
	h.sending.Unlock()
	return r
}

// release sends the release of a lock that is over. What is asked of the nodes for it
// has been asked by then, or will not be.
func (h *hold) release(now time.Time) *round {
	l := h.locker
	h.sending.Lock()
	defer h.sending.Unlock()
	h.mu.Lock()
	owed := h.lease.Longest()
	h.mu.Unlock()
	r := newRound(l, opUnlock, h.req, h.token, quorum.Grant{Start: now},
		quorum.NewRelease(len(l.nodes), h.reached()), h.releasing(owed))
	r.ask()
	return r
}

// turns returns turn.
func (h *hold) turns() chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.turn == nil {
		h.turn = make(chan struct{}, 1)
	}
	return h.turn
}
