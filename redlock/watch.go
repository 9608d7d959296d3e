package redlock

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

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
	if first = !h.term.Tracked; first {
		h.term.Tracked = true
		w := &h.locker.watched
		w.mu.Lock()
		defer w.mu.Unlock()
		w.locks[h.first.req.key] = h
	}
	return first
}

func (h *heldLock) unwatchLocked() {
	if h.term.Tracked {
		h.term.Tracked = false
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
		h.term.TrackingLost(i)
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
	acts, to := h.term.Changed(nil, h.locker.clock, i), wire.Receiver(h)
	if done != nil {
		to = &swept{h, done}
	}
	if h.sendLocked(acts, to) == 0 && done != nil {
		<-done
	}
}

// Reply implements [wire.Receiver] for observations.
func (h *heldLock) Reply(tag wire.Tag, reply wire.Reply) {
	h.mu.Lock()
	h.sendLocked(h.term.Answered(nil, h.locker.clock, tag, reply), h)
	ending := h.answeredLocked()
	h.mu.Unlock()
	if ending != quorum.Held {
		h.cleanUp()
	}
}

// swept receives an observation that is one of many.
type swept struct {
	*heldLock
	done <-chan struct{}
}

// Reply implements [wire.Receiver].
func (s *swept) Reply(tag wire.Tag, reply wire.Reply) {
	s.heldLock.Reply(tag, reply)
	if !reply.Late {
		<-s.done
	}
}
