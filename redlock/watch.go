package redlock

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// watched are the locks that are renewed, by key. The nodes track their keys from the first renewal on, so that a lock that is
// deleted there is noticed before the next renewal.
type watched struct {
	mu    sync.Mutex // taken after that of a lock
	locks map[string]*heldLock
	// sweeps[i] is how many times all keys of node i were to be observed since a sweep over them began; 0 if none is under way.
	sweeps []atomic.Int32
}

// watchLocked has changes of the lock's key looked into. first reports that they were not before.
func (h *heldLock) watchLocked() (first bool) {
	if first = !h.watches; first {
		h.watches = true
		w := &h.locker.watched
		w.mu.Lock()
		defer w.mu.Unlock()
		w.locks[h.first.req.key] = h
	}
	return first
}

func (h *heldLock) unwatchLocked() {
	if h.watches {
		h.watches = false
		w := &h.locker.watched
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.locks[h.first.req.key] == h {
			delete(w.locks, h.first.req.key)
		}
	}
}

// invalidated records that a key may have changed on a node.
func (w *watched) invalidated(i int, key string) {
	w.mu.Lock()
	h := w.locks[key]
	w.mu.Unlock()
	if h != nil {
		h.observe(i, nil)
	}
}

// trackingLost records that a connection has ended.
func (w *watched) trackingLost(i int) {
	for _, h := range w.all() {
		h.mu.Lock()
		h.lease.TrackingLost(i)
		h.mu.Unlock()
	}
}

func (w *watched) all() []*heldLock {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.locks))
}

// maxObserving bounds the observations of one node that follow the loss of all that was known of it.
const maxObserving = 512

// observeAll observes every key on a node, some at a time, as any of them may have changed. If that is under way, it is done
// once more afterwards.
func (l *Locker) observeAll(i int) {
	wanted := &l.watched.sweeps[i]
	if wanted.Add(1) > 1 || l.enter() != nil {
		return
	}
	go func() {
		defer l.calls.Done()
		observing := make(chan struct{}, maxObserving)
		for more := true; more; {
			before := wanted.Load()
			for _, h := range l.watched.all() {
				select {
				case observing <- struct{}{}:
					h.observe(i, observing)
				case <-l.closing.Done():
					return
				}
			}
			more = !wanted.CompareAndSwap(before, 0)
		}
	}()
}

// observe finds out whether a node still holds the lock, unless an answer that will show it is under way. done is received from
// then.
func (h *heldLock) observe(i int, done <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lease.Invalidated(h.locker.clock, i) {
		h.sendObservationLocked(i, done)
	} else if done != nil {
		<-done
	}
}

func (h *heldLock) sendObservationLocked(i int, done <-chan struct{}) {
	cmd := form.Observe(h.first.req.key)
	cmd.WantsLate = true
	w := &watch{held: h, done: done}
	if err := h.locker.nodes[i].Send(time.Now(), cmd, w, wire.Tag{Node: uint16(i)}); err != nil {
		w.takeLocked(i, wire.Reply{Answer: quorum.Unsent, Err: err}) // which shows nothing
	}
}

// watch receives what a node holds under the key of a lock.
type watch struct {
	held  *heldLock
	done  <-chan struct{}
	ended bool // the lease has taken the answer, or that there was none in time; under the mutex of held
}

// Reply implements [wire.Receiver].
func (w *watch) Reply(tag wire.Tag, reply wire.Reply) {
	w.held.mu.Lock()
	ending := w.takeLocked(int(tag.Node), reply)
	w.held.mu.Unlock()
	if ending != quorum.Held {
		w.held.cleanUp()
	}
}

// takeLocked takes the answer of a node, and returns how the lease stands.
func (w *watch) takeLocked(i int, reply wire.Reply) quorum.Ending {
	h, again := w.held, false
	answer := h.locker.form.Seen(reply).Holds(h.token)
	switch {
	case !w.ended:
		h.lease.Observed(h.locker.clock, i, answer)
		w.ended = true
	case reply.Late:
		again = h.lease.Late(h.locker.clock, i, answer)
	}
	if again {
		h.sendObservationLocked(i, nil)
	}
	if w.done != nil && !reply.Late {
		<-w.done
	}
	return h.answeredLocked()
}
