package redlock

import (
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// queues are the queues of a Locker, by key. Idle ones are discarded when there are many. Nodes report to it what changes and
// what peers publish, which wakes the waiters.
type queues struct {
	locker    *Locker
	mu        sync.Mutex // taken before that of a queue
	byKey     map[string]*queue
	listening bool
	cleanUpAt int // number of queues at which idle ones are discarded
}

// find returns the queue of a key, nil if there is none.
func (s *queues) find(key string) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byKey[key]
}

// denied takes in the refusal of a call that does not wait.
func (s *queues) denied(key string, refusal *QuorumError) {
	if s.locker.pace.Heal > 0 && errors.Is(refusal, nodeerr.ErrNoExpiry) {
		s.do(key, func(q *queue, now time.Time) quorum.Actions { return q.machine.Denied(now) })
	}
}

// join puts a waiter into the queue of its key.
func (s *queues) join(w *waiter) *queue {
	return s.do(w.req.key, func(q *queue, now time.Time) quorum.Actions { return q.machine.Join(now, w) })
}

// do reports an event to the queue of a key, which is made if there is none, and returns it.
func (s *queues) do(key string, report func(q *queue, now time.Time) quorum.Actions) *queue {
	for {
		q := s.findOrAdd(key)
		if q.do(func(now time.Time) quorum.Actions { return report(q, now) }) {
			return q
		} // otherwise it was discarded meanwhile
	}
}

const (
	// leastCleanUp is how many queues there are at least before idle ones are discarded.
	leastCleanUp = 64
	// maxHealing is how many there are before those are discarded too that only remember since when a key has had no TTL.
	maxHealing = 4096
)

func (s *queues) findOrAdd(key string) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.byKey[key]; q != nil {
		return q
	}
	if n := len(s.byKey); n >= s.cleanUpAt {
		now := s.locker.clock.Now()
		s.discardLocked(func(q *queue) bool { return q.idleLocked(now) && (n >= maxHealing || !q.machine.Healing()) })
		s.cleanUpAt = max(leastCleanUp, 2*len(s.byKey))
	}
	l := s.locker
	q := &queue{locker: l, key: key, machine: quorum.NewQueue[*waiter](len(l.nodes), l.self, l.pace)}
	s.byKey[key] = q
	return q
}

// discardLocked removes some queues. The mutex of the queue that which is called for is held.
func (s *queues) discardLocked(which func(*queue) bool) {
	maps.DeleteFunc(s.byKey, func(_ string, q *queue) bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.gone = which(q)
		if q.gone && q.timer != nil {
			q.timer.Stop()
		}
		if q.gone && q.notice != nil {
			q.notice.Stop()
		}
		return q.gone
	})
}

// listen has the nodes report changes and messages, from the first wait on.
func (s *queues) listen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listening || s.locker.closing.Err() != nil {
		return
	}
	s.listening = true
	for i, n := range s.locker.nodes {
		n.Listen(s, i, channel(s.locker.self))
	}
}

// While a lock of this queue is held here, its waiters ask no node. So each end of it is reported to the queue, except for those
// that docs/adr/0006-waiting.md names.

// released gives the next waiter of this process its turn behind a release that has just been sent. held is false if the
// lease was over before: another may hold the lock.
func (s *queues) released(h *heldLock, held bool) {
	if q := s.find(h.first.req.key); q != nil {
		q.do(func(now time.Time) quorum.Actions {
			if q.holder == h {
				q.holder, q.held = nil, now
			} else if !held {
				return quorum.Actions{}
			}
			return q.machine.Unlocked(now)
		})
	}
}

// detached has the waiters of this process watch the nodes, which another process will release the lock on.
func (s *queues) detached(h *heldLock) {
	if q := s.find(h.first.req.key); q != nil {
		q.do(func(now time.Time) quorum.Actions {
			if q.holder != h { // they watch the nodes already
				return quorum.Actions{}
			}
			q.holder, q.held = nil, now
			return q.machine.Detached(now)
		})
	}
}

// linger lets other goroutines go first if a release now would pass the turn early. When a lock goes from waiter to waiter, the
// release of the one and the acquire of the next are answered together: the first may be about to join again.
func (s *queues) linger(key string) {
	q := s.find(key)
	if q == nil {
		return
	}
	q.mu.Lock()
	deserted := q.machine.Deserted()
	q.mu.Unlock()
	if deserted {
		runtime.Gosched()
	}
}

// each reports an event to every queue.
func (s *queues) each(report func(q *queue, now time.Time) quorum.Actions) {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.byKey))
	s.mu.Unlock()
	for _, q := range all {
		q.do(func(now time.Time) quorum.Actions { return report(q, now) })
	}
}

// close ends the listening. Nobody waits any more.
func (s *queues) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listening {
		for _, node := range s.locker.nodes {
			node.Unlisten(s)
		}
	}
	s.discardLocked(func(*queue) bool { return true })
}
