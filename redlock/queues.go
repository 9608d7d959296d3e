package redlock

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// queues are those of a Locker, by key. One is kept for as long as it has something to
// remember, and until there are so many that it pays to look for others.
type queues struct {
	size atomic.Int32 // of byKey, for who has no queue to find

	mu        sync.Mutex // taken before that of a queue
	byKey     map[string]*queue
	listening bool
	closed    bool
	sweepAt   int // number of queues at which idle ones are looked for
}

// find returns the queue of a key, nil if there is none.
func (s *queues) find(key string) *queue {
	if s.size.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byKey[key]
}

// join puts a waiter into the queue of its key.
func (s *queues) join(l *Locker, w *waiter) *queue {
	q := s.lockOrAdd(l, w.req.key)
	q.doLocked(func(now time.Time) quorum.Moves { return q.machine.Join(now, w) })
	return q
}

// lockOrAdd returns the queue of a key, locked. Nobody is kept from other queues while this one is locked.
func (s *queues) lockOrAdd(l *Locker, key string) *queue {
	for {
		s.mu.Lock()
		q := s.byKey[key]
		if q == nil {
			q = s.addLocked(l, key, l.clock.Now())
		}
		s.mu.Unlock()
		q.mu.Lock()
		if !q.gone {
			return q
		}
		q.mu.Unlock()
	}
}

// leastSweep is the least number of things that is worth looking for some that nobody needs.
const leastSweep = 64

func (s *queues) addLocked(l *Locker, key string, now time.Time) *queue {
	if s.byKey == nil {
		s.byKey, s.sweepAt = map[string]*queue{}, leastSweep
	}
	if len(s.byKey) >= s.sweepAt {
		for _, q := range s.byKey {
			s.sweepLocked(q, now)
		}
		s.sweepAt = max(leastSweep, 2*len(s.byKey))
	}
	pace := quorum.Pace{First: l.minBackoff, Most: l.maxBackoff, Heal: l.healAfter, Random: atRandom}
	q := &queue{locker: l, key: key, machine: quorum.NewQueue[*waiter](len(l.nodes), l.self, pace)}
	s.byKey[key] = q
	s.size.Store(int32(len(s.byKey)))
	return q
}

// sweepLocked removes a queue that is idle.
func (s *queues) sweepLocked(q *queue, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.idleLocked(now) {
		s.removeLocked(q)
	}
}

func (s *queues) removeLocked(q *queue) {
	q.gone = true
	if q.timer != nil {
		q.timer.Stop()
	}
	delete(s.byKey, q.key)
	s.size.Store(int32(len(s.byKey)))
}

// listen has the nodes tell what changes, from the first time that somebody has to wait.
func (s *queues) listen(l *Locker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listening || s.closed {
		return
	}
	s.listening = true
	for i, node := range l.nodes {
		node.Listen((*ears)(l), i, channel(l.self))
	}
}

// released lets the next waiter of this process go behind a release that has just been sent. held: the
// lock was held until then; else another may have it.
func (s *queues) released(h *hold, held bool) {
	if q := s.find(h.req.key); q != nil {
		q.do(func(now time.Time) quorum.Moves {
			if q.holder == h {
				q.holder = nil
			} else if !held {
				return quorum.Moves{}
			}
			return q.machine.Unlocked(now)
		})
	}
}

// linger lets other goroutines go first where the turn of this process would end too early. When a lock has gone from
// hand to hand, the release of the one and the acquire of the other are answered together: the one may be about to
// come back.
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

// each tells every queue of an event.
func (s *queues) each(event func(q *queue, now time.Time) quorum.Moves) {
	s.mu.Lock()
	all := make([]*queue, 0, len(s.byKey))
	for _, q := range s.byKey {
		all = append(all, q)
	}
	s.mu.Unlock()
	for _, q := range all {
		q.do(func(now time.Time) quorum.Moves { return event(q, now) })
	}
}

// close ends the listening, once nobody waits any more.
func (s *queues) close(l *Locker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.listening {
		for _, node := range l.nodes {
			node.Unlisten((*ears)(l))
		}
	}
	for _, q := range s.byKey {
		q.mu.Lock()
		s.removeLocked(q)
		q.mu.Unlock()
	}
}
