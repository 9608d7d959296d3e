package redlock

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// call is a call of the program, or a renewal, that is observed.
type call struct {
	ctx    context.Context
	id     uint64
	start  time.Time
	rounds int       // of an acquire
	began  time.Time // the last of them
	over   bool      // its end was reported; under the mutex of the events
}

// newCall returns nil if nobody wants events with the number of the call.
func (l *Locker) newCall(ctx context.Context) *call {
	if !l.events.wants(numbered) {
		return nil
	}
	return &call{ctx: ctx, id: l.calling.Add(1), start: time.Now()}
}

// number returns the number that the events of the call share.
func (c *call) number() uint64 {
	if c == nil {
		return 0
	}
	return c.id
}

// late reports whether the end of the call was reported. The caller holds the mutex of the events.
func (c *call) late() bool { return c != nil && c.over }

// round notes that a round begins. The rounds of a call begin one after the other, before it returns.
func (c *call) round() {
	c.rounds++
	c.began = time.Now()
}

// acquired reports the end of a call that took a lock, or did not.
func (l *Locker) acquired(op event.Op, try bool, req request, lock *Lock, err error) {
	reentered := lock != nil && lock.holder.call != req.call
	if l.events.wants(kindCalls) {
		l.emitAcquired(event.Acquire{Op: op, Try: try, Reentered: reentered}, req, lock, err)
	} else {
		l.events.endCall(req.call)
	}
	if lock != nil && !reentered && l.events.wants(kindEnds) {
		h := lock.held
		h.mu.Lock()
		lock.holder.since = time.Now()
		if h.term.Renewal == nil {
			h.contextLocked() // its end is noticed though nobody asks
		}
		h.armLocked()
		h.atLocked(h.now())
		h.mu.Unlock()
	}
}

func (l *Locker) emitAcquired(e event.Acquire, req request, lock *Lock, err error) {
	c := req.call
	e.Context, e.Call, e.Name, e.Start, e.Took, e.Rounds, e.Err = c.ctx, c.id, req.name, c.start, time.Since(c.start), c.rounds, err
	if c.rounds > 0 {
		e.Wait = c.began.Sub(c.start)
	}
	switch {
	case lock != nil:
		e.Validity, e.Fence = lock.Remaining(), lock.Fence()
		if e.Handoff = !e.Reentered && lock.holder != &lock.held.first; e.Handoff {
			e.Wait = e.Took
		}
	case err == nil:
		e.Err = failed(event.OpAcquire, req.name, errNoToken)
	}
	l.events.emitEnd(c, e)
}

// renewed is extended for a renewal.
func (h *heldLock) renewed(r *extendRound) {
	e := event.Extend{Renewal: true}
	if r.refusal != nil {
		e.Err = r.refusal
	}
	h.extended(e, nil, r.call, r.extend.Before)
}

// extended reports the end of an extension of a lock that had a deadline before it; zero if no node was asked. by is the holder who
// called Extend; nil is the present one.
func (h *heldLock) extended(e event.Extend, by *holder, c *call, deadline time.Time) {
	if !h.locker.events.wants(kindCalls) {
		h.locker.events.endCall(c)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock() // so that the end of a lock that has validity is not reported before
	now := h.now()
	if h.atLocked(now) == quorum.Held && (by == nil || by == h.holder) {
		e.Validity = h.term.Remaining(now)
	}
	if e.Left = e.Validity; !deadline.IsZero() {
		e.Left = max(0, deadline.Sub(now))
	}
	e.Lock = cmp.Or(by, h.holder).call.number()
	e.Context, e.Call, e.Name, e.Start, e.Took = c.ctx, c.id, h.called(), c.start, time.Since(c.start)
	h.locker.events.emitEnd(c, e)
}

// unlocked reports the end of a call of Unlock.
func (l *Lock) unlocked(e event.Unlock, c *call) {
	if events := &l.held.locker.events; !events.wants(kindCalls) {
		events.endCall(c)
		return
	}
	e.Context, e.Call, e.Lock, e.Name = c.ctx, c.id, l.holder.call.number(), l.held.called()
	e.Start, e.Took = c.start, time.Since(c.start)
	l.held.locker.events.emitEnd(c, e)
}

// released reports what the release of a lock came to: it may find that the nodes did not hold the lock any more.
func (h *heldLock) released(outcome quorum.Outcome, unlock *call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := event.End{Err: ErrReleased}
	if outcome == quorum.Denied {
		e.Err = ErrLost
	}
	if unlock != nil {
		e.Held = unlock.start.Sub(h.holder.since)
	}
	h.endedLocked(e)
}

// endedLocked reports the end of the lock for the present holder, once, and after its event.Acquire. The log is only about a loss.
func (h *heldLock) endedLocked(e event.End) {
	by := h.holder
	if by.ended || by.since.IsZero() {
		return
	}
	by.ended = true
	e.Name, e.Start = h.called(), by.since
	if e.Held == 0 {
		e.Held = time.Since(by.since)
	}
	if c := by.call; c != nil {
		e.Context, e.Call = c.ctx, c.id
	}
	h.locker.events.emit(e)
}

// nameOf returns the name of a lock with a key.
func (l *Locker) nameOf(key string) string { return strings.TrimPrefix(key, l.prefix) }
