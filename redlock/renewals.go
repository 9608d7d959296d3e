package redlock

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// maxRenewing bounds the renewals of a Locker that are under way at a time: locks that were taken together are due
// together, and other calls wait for what a node was sent before. With nodes 20 ms away so many are 12,800 renewals a second.
const maxRenewing = 256

// renewals are the locks of a Locker that are to be renewed. When too many are due at a time, they are renewed in the order in which
// they are due.
type renewals struct {
	locker *Locker

	mu      sync.Mutex // taken after that of a lock
	locks   dueLocks
	workers int         // goroutines that renew
	timer   clock.Timer // for the first of the locks; nil before there was one
	firesAt time.Time   // when timer fires; zero if it does not
}

// due is when a lock is to be renewed. It is under the mutex of renewals.
type due struct {
	at    time.Time
	place int // 1 + its index in dueLocks; 0 if it is not there
}

// schedule has a lock renewed at an instant, and not when it was to be renewed before.
func (r *renewals) schedule(h *heldLock, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.due.at = at
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

// armLocked makes the timer fire when the first lock is due. If there are as many workers as there may be, they will see to it.
func (r *renewals) armLocked() {
	switch {
	case r.workers == maxRenewing:
	case len(r.locks) == 0:
		if r.timer != nil {
			r.timer.Stop()
		}
		r.firesAt = time.Time{}
	case !r.firesAt.Equal(r.locks[0].due.at):
		r.firesAt = r.locks[0].due.at
		wait := r.firesAt.Sub(r.locker.clock.Now())
		if r.timer == nil {
			r.timer = r.locker.clock.AfterFunc(wait, r.fire)
		} else {
			r.timer.Reset(wait)
		}
	}
}

// fire begins the renewals that are due. It does not block, because package clocktest runs timers one after the other.
func (r *renewals) fire() {
	r.mu.Lock()
	r.firesAt = time.Time{}
	r.mu.Unlock()
	for h := r.next(false); h != nil; h = r.next(false) {
		if h.abandon() {
			r.leave()
			continue
		}
		counted := r.locker.enter() == nil // otherwise the function that holds the lock waits for it
		go func() {
			if counted {
				defer r.locker.calls.Done()
			}
			r.work(h, counted)
		}()
	}
}

// work renews a lock, and then what else is due. Close does not wait for what is due after it.
func (r *renewals) work(h *heldLock, counted bool) {
	ctx := context.Background() // the renewals that a function of Do needs go on
	if counted {
		ctx = r.locker.closing
	}
	for h != nil {
		h.extendAgain(ctx)
		if counted && r.locker.closing.Err() != nil {
			r.leave()
			return
		}
		h = r.next(true)
	}
}

// leave ends a worker.
func (r *renewals) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers--
	r.armLocked()
}

// next takes the first lock if it is due, for a worker: one that has nothing else to do, or a new one.
func (r *renewals) next(worker bool) *heldLock {
	r.mu.Lock()
	defer r.mu.Unlock()
	if worker {
		r.workers--
	}
	if len(r.locks) > 0 && r.workers < maxRenewing && !r.locks[0].due.at.After(r.locker.clock.Now()) {
		r.workers++
		return heap.Pop(&r.locks).(*heldLock)
	}
	r.armLocked()
	return nil
}

// dueLocks implements [heap.Interface]: the lock that is due first comes first.
type dueLocks []*heldLock

func (d dueLocks) Len() int           { return len(d) }
func (d dueLocks) Less(i, j int) bool { return d[i].due.at.Before(d[j].due.at) }

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
