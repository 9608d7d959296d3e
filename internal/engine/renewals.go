package engine

import (
	"container/heap"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// maxRenewing bounds the renewals of an Engine that are under way at a time. Locks that were taken together are due
// together, and later commands of other calls wait behind the renewals on each node. With nodes 20 ms away, this bound
// allows 12,800 renewals a second.
const maxRenewing = 256

// renewals is the locks of an Engine that are to be renewed, and the locks whose end is to be noticed. When too many
// locks are due at a time, each waits for its turn. The lock that was due first comes first.
type renewals struct {
	engine *Engine
	epoch  time.Time // Held.due counts from then

	mu      sync.Mutex // taken after the mutex of an entry
	locks   dueLocks
	under   map[*Extend]struct{} // the renewals under way, maxRenewing at most
	busy    bool                 // a goroutine begins the renewals that are due
	timer   clock.Timer          // for the first of the locks; nil until there was one
	firesAt time.Time            // when timer fires; zero if it does not
}

// schedule makes a lock due at an instant, and no longer when it was due before.
func (r *renewals) schedule(h *Held, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.due = at.Sub(r.epoch)
	if h.place > 0 {
		heap.Fix(&r.locks, int(h.place)-1)
	} else {
		heap.Push(&r.locks, h)
	}
	r.armLocked()
}

// cancel undoes schedule.
func (r *renewals) cancel(h *Held) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.place > 0 {
		heap.Remove(&r.locks, int(h.place)-1)
		r.armLocked()
	}
}

// armLocked makes the timer fire when the first lock is due, or earlier. If the timer fires too early, it is set again.
// That costs less than setting it whenever the first lock is released. While maxRenewing renewals are under way,
// armLocked leaves the timer alone: the end of one begins the next.
func (r *renewals) armLocked() {
	switch {
	case len(r.under) == maxRenewing:
	case len(r.locks) == 0:
		if r.timer != nil {
			r.timer.Stop()
		}
		r.firesAt = time.Time{}
	case r.firesAt.IsZero() || r.first().Before(r.firesAt):
		r.firesAt = r.first()
		wait := r.firesAt.Sub(r.engine.Clock.Now())
		if r.timer == nil {
			r.timer = r.engine.Clock.AfterFunc(wait, r.fire)
		} else {
			r.timer.Reset(wait)
		}
	}
}

// first returns when the first of the locks is due.
func (r *renewals) first() time.Time { return r.epoch.Add(r.locks[0].due) }

// fire begins the renewals that are due. It does not block, because package clocktest runs timers one after the other.
func (r *renewals) fire() {
	r.mu.Lock()
	r.firesAt = time.Time{}
	r.mu.Unlock()
	r.begin()
}

// begin begins the renewals that are due, unless another goroutine does so.
func (r *renewals) begin() {
	r.mu.Lock()
	busy := r.busy
	r.busy = true
	r.mu.Unlock()
	for !busy {
		h := r.next()
		if h == nil {
			return
		}
		r.renew(h)
	}
}

// next removes the first lock and returns it, if it is due and fewer than maxRenewing renewals are under way. Otherwise
// it returns nil, and busy is false from then on.
func (r *renewals) next() *Held {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.locks) > 0 && len(r.under) < maxRenewing && !r.first().After(r.engine.Clock.Now()) {
		return heap.Pop(&r.locks).(*Held)
	}
	r.busy = false
	r.armLocked()
	return nil
}

// renew begins to renew a lock that is due, unless the lock is no longer to be renewed.
func (r *renewals) renew(h *Held) {
	if !h.goesOn() {
		return
	}
	g := r.engine
	g.listen()
	extend := h.NewExtend(nil)
	extend.renewal, extend.counted = extend, g.Begin()
	g.Events.Began(&extend.Round)
	var room [usualNodes]lock.Act
	h.Enter() // until the round has begun, so that it can be given up
	r.mu.Lock()
	if r.under == nil {
		r.under = map[*Extend]struct{}{}
	}
	r.under[extend] = struct{}{}
	r.mu.Unlock()
	h.doLocked(h.Lease.Due(room[:0], &extend.extend, &extend.Round))
	h.Exit()
}

// ended records the end of a renewal, and begins the renewals that are due.
func (r *renewals) ended(extend *Extend) {
	r.mu.Lock()
	delete(r.under, extend)
	r.mu.Unlock()
	r.begin()
	if extend.counted {
		r.engine.End()
	}
}

// stop gives up the renewals that Close waits for.
func (r *renewals) stop() {
	for _, extend := range r.all(func(e *Extend) bool { return e.counted }) {
		extend.stop()
	}
}

// await gives up the renewal of a lock that is over, and waits for its end.
func (r *renewals) await(h *Held) {
	for _, extend := range r.all(func(e *Extend) bool { return e.held == h }) {
		extend.stop()
		<-extend.done
	}
}

// all returns the renewals under way for which the function is returns true.
func (r *renewals) all(is func(*Extend) bool) (all []*Extend) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for extend := range r.under {
		if is(extend) {
			all = append(all, extend)
		}
	}
	return all
}

// dueLocks implements [heap.Interface]: the lock that is due first comes first.
type dueLocks []*Held

func (d dueLocks) Len() int { return len(d) }

func (d dueLocks) Less(i, j int) bool { return d[i].due < d[j].due }

// Swap swaps two locks, and their places with them.
func (d dueLocks) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = int32(i+1), int32(j+1)
}

// Push adds a lock behind the others. Package heap then moves it.
func (d *dueLocks) Push(h any) {
	*d = append(*d, h.(*Held))
	(*d)[len(*d)-1].place = int32(len(*d))
}

// Pop removes the last lock, and returns it.
func (d *dueLocks) Pop() any {
	last := len(*d) - 1
	h := (*d)[last]
	h.place = 0
	(*d)[last] = nil
	*d = (*d)[:last]
	return h
}

// Renewals returns how many locks are due at some time: to be renewed, or for a check whether they have ended. Renewals
// that are under way do not count.
func (g *Engine) Renewals() int {
	g.renewals.mu.Lock()
	defer g.renewals.mu.Unlock()
	return len(g.renewals.locks)
}

// RenewLocked begins to renew the lock as a holder wants. It returns false if the lock is already renewed.
func (h *Held) RenewLocked(w *Want) bool {
	if h.Lease.Renewal != nil {
		return false
	}
	h.Lease.Renew(h.Lease.Start(), w)
	h.ArmLocked()
	return true
}

// stopRenewingLocked ends the renewals of the lock, if there are any.
func (h *Held) stopRenewingLocked() {
	renewed := h.Lease.Renewal != nil
	h.Lease.Renewal = nil
	h.Lease.Tracked = false
	if renewed && h.Holder.awaited() && h.Lease.At(h.Now()) == quorum.NotEnded {
		h.engine.renewals.schedule(h, h.Lease.Deadline()) // no renewal will notice its end
	} else {
		h.engine.renewals.cancel(h)
	}
}

// ArmLocked schedules the next renewal, if there is to be one. If a renewal is under way, its end schedules the next
// one.
func (h *Held) ArmLocked() {
	if h.Lease.Renewal == nil || h.Lease.Renewing() {
		return
	}
	now := h.Now()
	due, ok := h.Lease.Renewal.Next(&h.Lease.Lease, now)
	if !ok {
		switch {
		case h.AtLocked(now) != quorum.NotEnded:
			h.Lease.Tracked = false
			return
		case !h.Lease.Tracked && !h.Holder.awaited():
			return
		}
		due = now.Add(h.Lease.Remaining(now)) // MaxHold allows no further renewal, but the end is awaited
	}
	h.engine.renewals.schedule(h, due)
}

// goesOn reports whether a lock that is due is to be renewed. It is not if it was due only for a check of its end. It
// is not either if the Engine has been closed and no function holds the lock: then its renewals end.
func (h *Held) goesOn() bool {
	h.Enter()
	defer h.Exit()
	switch {
	case h.Lease.Renewal == nil:
		if again := h.noticeLocked(); !again.IsZero() {
			h.engine.renewals.schedule(h, again)
		}
		return false
	case h.engine.closing.Err() != nil && h.functions == 0:
		h.AtLocked(h.Now())
		h.stopRenewingLocked()
		return false
	}
	return true
}
