package redlock

import (
	"container/heap"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// maxRenewing is how many renewals are under way at a time: locks that were taken together are due together,
// and nodes bound what is under way.
const maxRenewing = 1024

// watchdog renews the locks of a Locker that are held with AutoExtend. One goroutine
// does so for all of them, from the first until Close; what is due at the same time travels in
// the same batches.
type watchdog struct {
	locker *Locker

	mu      sync.Mutex
	locks   byDue
	under   int        // renewals under way
	ended   []*keeping // those of them that have ended, and that nothing has come of yet
	rouse   chan struct{}
	running bool
}

// keeping is one lock that is renewed.
type keeping struct {
	hold    *hold
	renewal *quorum.Renewal
	due     time.Time
	round   *round // the renewal that has ended
	index   int    // in the heap, -1: it is not there
	dropped bool
}

// keep begins to renew a lock as a request says. It returns false if it is renewed already.
func (w *watchdog) keep(h *hold, req request) bool {
	h.mu.Lock()
	if h.keeping != nil {
		h.mu.Unlock()
		return false
	}
	k := &keeping{hold: h, renewal: quorum.NewRenewal(h.lease, req.ttl, req.maxHold), index: -1}
	h.keeping = k
	h.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running {
		if w.locker.enter() != nil {
			return true // closed: nothing is renewed any more
		}
		w.running, w.rouse = true, make(chan struct{}, 1)
		go w.run()
	}
	w.pushLocked(k)
	if k.index == 0 {
		w.wake()
	}
	return true
}

// drop ends the renewals of a lock.
func (w *watchdog) drop(h *hold) {
	h.mu.Lock()
	k := h.keeping
	h.keeping = nil
	h.mu.Unlock()
	if k == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	k.dropped = true
	if k.index >= 0 {
		heap.Remove(&w.locks, k.index)
	}
}

func (w *watchdog) wake() {
	select {
	case w.rouse <- struct{}{}:
	default:
	}
}

// pushLocked has a lock renewed when it is due, if it ever is.
func (w *watchdog) pushLocked(k *keeping) {
	k.hold.mu.Lock()
	due, ok := k.renewal.Next(k.hold.now())
	k.hold.mu.Unlock()
	if ok && !k.dropped {
		k.due = due
		heap.Push(&w.locks, k)
	}
}

// run is the watchdog's goroutine.
func (w *watchdog) run() {
	l := w.locker
	defer l.calls.Done()
	for l.closing.Err() == nil {
		due, ended, next := w.work(l.clock.Now())
		for _, k := range ended {
			w.settle(k)
		}
		for _, k := range due {
			w.renew(k)
		}
		if len(due) == 0 && len(ended) == 0 {
			w.sleep(next)
		}
	}
}

// work takes what there is to do.
func (w *watchdog) work(now time.Time) (due, ended []*keeping, next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ended, w.ended = w.ended, nil
	for len(w.locks) > 0 && w.under < maxRenewing && !now.Before(w.locks[0].due) {
		due = append(due, heap.Pop(&w.locks).(*keeping))
		w.under++
	}
	if len(w.locks) > 0 && w.under < maxRenewing { // else the end of one comes first
		next = w.locks[0].due
	}
	return due, ended, next
}

// sleep waits until the next lock is due or something happens.
func (w *watchdog) sleep(next time.Time) {
	l := w.locker
	if !next.IsZero() {
		timer := l.clock.AfterFunc(next.Sub(l.clock.Now()), w.wake)
		defer timer.Stop()
	}
	select {
	case <-w.rouse:
	case <-l.closing.Done():
	}
}

// renew begins the renewal of a lock, unless another extension is under way.
func (w *watchdog) renew(k *keeping) {
	h := k.hold
	turn := h.turns()
	select {
	case turn <- struct{}{}:
	default:
		h.mu.Lock()
		k.renewal.Busy(h.now())
		h.mu.Unlock()
		w.again(k)
		return
	}
	h.mu.Lock()
	grant, ok := k.renewal.Grant(h.now())
	h.mu.Unlock()
	if ok && h.extend(grant, func(r *round) { w.end(k, r) }) != nil {
		return
	}
	<-turn
	h.sweep()
	w.again(k)
}

// end takes note of the end of a renewal, on the goroutine of a node.
func (w *watchdog) end(k *keeping, r *round) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k.round = r
	w.ended = append(w.ended, k)
	w.wake()
}

// settle does what comes of the end of a renewal.
func (w *watchdog) settle(k *keeping) {
	h := k.hold
	h.mu.Lock()
	k.renewal.Ended(h.now(), k.round.outcome)
	h.mu.Unlock()
	<-h.turn
	h.sweep()
	w.again(k)
}

// again has a lock renewed when it is due next, now that its renewal has ended or could not begin.
func (w *watchdog) again(k *keeping) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.under--
	w.pushLocked(k)
}

// byDue is a heap: the lock that is due first is the first.
type byDue []*keeping

func (b byDue) Len() int           { return len(b) }
func (b byDue) Less(i, j int) bool { return b[i].due.Before(b[j].due) }
func (b byDue) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].index, b[j].index = i, j
}

// Push implements [heap.Interface].
func (b *byDue) Push(x any) {
	k := x.(*keeping)
	k.index = len(*b)
	*b = append(*b, k)
}

// Pop implements [heap.Interface].
func (b *byDue) Pop() any {
	last := len(*b) - 1
	k := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	k.index = -1
	return k
}
