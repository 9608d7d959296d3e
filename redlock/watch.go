package redlock

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// watched are the locks that are renewed, by key. The nodes track their keys from the first renewal on, so that a lock that is
// deleted there is noticed before the next renewal.
type watched struct {
	locks sync.Map // key to *heldLock
	// sweeps[i] is how many times all keys of node i were to be observed since a sweep over them began; 0 if none is under way.
	sweeps []atomic.Int32
}

// watchLocked has changes of the lock's key looked into. first reports that they were not before.
func (h *heldLock) watchLocked() (first bool) {
	if first = !h.watches; first {
		h.watches = true
		h.locker.watched.locks.Store(h.req.key, h)
	}
	return first
}

func (h *heldLock) unwatchLocked() {
	if h.watches {
		h.watches = false
		h.locker.watched.locks.CompareAndDelete(h.req.key, h)
	}
}

// invalidated takes in that a key may have changed on a node.
func (w *watched) invalidated(i int, key string) {
	if h, ok := w.locks.Load(key); ok {
		h.(*heldLock).observe(i, nil)
	}
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
			l.watched.locks.Range(func(_, h any) bool {
				select {
				case observing <- struct{}{}:
					h.(*heldLock).observe(i, observing)
					return true
				case <-l.closing.Done():
					return false
				}
			})
			more = !wanted.CompareAndSwap(before, 0)
		}
	}()
}

// observe finds out whether a node still holds the lock, unless an answer that will show it is under way. done is received from
// then.
func (h *heldLock) observe(i int, done <-chan struct{}) {
	h.mu.Lock()
	ask := h.lease.Invalidated(h.locker.clock, i)
	h.mu.Unlock()
	if ask {
		h.locker.nodes[i].Send(time.Now(), node.Observe(h.req.key), watch{h, done}, i)
	} else if done != nil {
		<-done
	}
}

// watch receives what a node holds under the key of a lock.
type watch struct {
	held *heldLock
	done <-chan struct{}
}

// Reply implements [node.Receiver].
func (w watch) Reply(i int, reply node.Reply) {
	h := w.held
	answer, _ := h.locker.holds(reply, h.token)
	h.mu.Lock()
	now := h.now()
	before := h.atLocked(now)
	h.lease.Observed(h.locker.clock, i, answer)
	lost := h.atLocked(now) == quorum.Lost && before == quorum.Held
	h.mu.Unlock()
	if lost {
		h.locker.logger.Warn("redlock: a lock is lost: its key was deleted on too many nodes", "name", h.req.name)
	}
	h.cleanUp()
	if w.done != nil {
		<-w.done
	}
}
