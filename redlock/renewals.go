package redlock

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// maxRenewing bounds the renewals of a Locker that are under way at a time: locks that were taken together are due
// together, and other calls wait for what a node was sent before. With nodes 20 ms away so many are 12,800 renewals a second.
const maxRenewing = 256

// renewals are the locks of a Locker that are to be renewed. When too many are due at a time, they are renewed in the order in which
// they are due.
type renewals struct {
	locker *Locker
	epoch  time.Time // when they began

	mu      sync.Mutex // taken after that of an entry
	locks   dueLocks
	under   map[*extendRound]struct{} // that are under way, maxRenewing at most
	busy    bool                      // somebody begins those that are due
	timer   clock.Timer               // for the first of the locks; nil before there was one
	firesAt time.Time                 // when timer fires; zero if it does not
}

// due is when a lock is to be renewed. It is under the mutex of renewals.
type due struct {
	at    time.Duration // since the renewals began
	place int           // 1 + its index in dueLocks; 0 if it is not there
}

// schedule has a lock renewed at an instant, and not when it was to be renewed before.
func (r *renewals) schedule(h *heldLock, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.due.at = at.Sub(r.epoch)
	if h.due.place > 0 {
		heap.Fix(&r.locks, h.due.place-1)
	} else {
		heap.Push(&r.locks, h)
	}
	r.armLocked()
}

// cancel undoes schedule.
func (r *renewals) cancel(h *heldLock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.due.place > 0 {
		heap.Remove(&r.locks, h.due.place-1)
		r.armLocked()
	}
}

// armLocked makes the timer fire when the first lock is due. If as many are under way as there may be, the end of one sees to it.
func (r *renewals) armLocked() {
	switch {
	case len(r.under) == maxRenewing:
	case len(r.locks) == 0:
		if r.timer != nil {
			r.timer.Stop()
		}
		r.firesAt = time.Time{}
	case !r.firesAt.Equal(r.first()):
		r.firesAt = r.first()
		wait := r.firesAt.Sub(r.locker.clock.Now())
		if r.timer == nil {
			r.timer = r.locker.clock.AfterFunc(wait, r.fire)
		} else {
			r.timer.Reset(wait)
		}
	}
}

// first returns when the first of the locks is due.
func (r *renewals) first() time.Time { return r.epoch.Add(r.locks[0].due.at) }

// fire begins the renewals that are due. It does not block, because package clocktest runs timers one after the other.
func (r *renewals) fire() {
	r.mu.Lock()
	r.firesAt = time.Time{}
	r.mu.Unlock()
	r.begin()
}

// begin begins the renewals that are due, unless another goroutine does.
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

// next takes the first lock if it is due, and as many are not under way as there may be. Otherwise nobody is busy from then on.
func (r *renewals) next() *heldLock {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.locks) > 0 && len(r.under) < maxRenewing && !r.first().After(r.locker.clock.Now()) {
		return heap.Pop(&r.locks).(*heldLock)
	}
	r.busy = false
	r.armLocked()
	return nil
}

// renew begins to renew a lock, unless its renewals end.
func (r *renewals) renew(h *heldLock) {
	l := r.locker
	if h.abandon() {
		return
	}
	l.names.listen()
	extend := h.newExtend(l.newCall(context.Background()))
	extend.renewal, extend.counted = extend, l.enter() == nil
	var room [usualNodes]lock.Act
	h.mu.Lock() // until it can be given up
	r.mu.Lock()
	if r.under == nil {
		r.under = map[*extendRound]struct{}{}
	}
	r.under[extend] = struct{}{}
	r.mu.Unlock()
	h.doLocked(h.term.Due(room[:0], &extend.extend, &extend.round))
	h.unlock()
}

// ended takes the end of a renewal.
func (r *renewals) ended(extend *extendRound) {
	if extend.call != nil && extend.Outcome() != quorum.Undecided {
		extend.held.renewed(extend)
	}
	r.mu.Lock()
	delete(r.under, extend)
	r.mu.Unlock()
	r.begin()
	if extend.counted {
		r.locker.calls.Done()
	}
}

// stop gives up the renewals that Close waits for.
func (r *renewals) stop() {
	for _, extend := range r.all(func(e *extendRound) bool { return e.counted }) {
		extend.stop()
	}
}

// await gives up the renewal of a lock that is over, and waits for its end.
func (r *renewals) await(h *heldLock) {
	for _, extend := range r.all(func(e *extendRound) bool { return e.held == h }) {
		extend.stop()
		<-extend.done
	}
}

func (r *renewals) all(is func(*extendRound) bool) (all []*extendRound) {
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
type dueLocks []*heldLock

func (d dueLocks) Len() int           { return len(d) }
func (d dueLocks) Less(i, j int) bool { return d[i].due.at < d[j].due.at }

func (d dueLocks) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].due.place, d[j].due.place = i+1, j+1
}

func (d *dueLocks) Push(h any) {
	*d = append(*d, h.(*heldLock))
	(*d)[len(*d)-1].due.place = len(*d)
}

func (d *dueLocks) Pop() any {
	last := len(*d) - 1
	h := (*d)[last]
	h.due.place = 0
	(*d)[last] = nil
	*d = (*d)[:last]
	return h
}
