package redlock

import "github.com/quorumlock/quorumlock/internal/wire"

// maxObserving bounds the observations of one node that follow the loss of all that was known of it.
const maxObserving = 512

// observeAll observes every key on a node, some at a time, as any of them may have changed. If that is under way, it is done
// once more afterwards.
func (l *Locker) observeAll(i int) {
	wanted := &l.sweeps[i]
	if wanted.Add(1) > 1 || l.enter() != nil {
		return
	}
	go func() {
		defer l.calls.Done()
		observing := make(chan struct{}, maxObserving)
		for more := true; more; {
			before := wanted.Load()
			var all []*heldLock
			l.names.each(func(e *entry) {
				for t := range e.name.Terms {
					if t.Tracked {
						all = append(all, t.To().(*heldLock))
					}
				}
			})
			for _, h := range all {
				select {
				case observing <- struct{}{}:
					h.sweep(i, observing)
				case <-l.closing.Done():
					return
				}
			}
			more = !wanted.CompareAndSwap(before, 0)
		}
	}()
}

// sweep finds out whether a node still holds the lock, unless an answer that will show it is under way. done is received from then.
func (h *heldLock) sweep(i int, done <-chan struct{}) {
	h.mu.Lock()
	acts := h.term.Changed(nil, i)
	if len(acts) == 0 {
		<-done
	}
	for i := range acts {
		acts[i].To = &swept{h, done}
	}
	h.doLocked(acts)
	h.unlock()
}

// Reply implements [wire.Receiver] for observations.
func (h *heldLock) Reply(tag wire.Tag, reply wire.Reply) {
	h.mu.Lock()
	h.doLocked(h.term.Answered(nil, tag, reply))
	h.unlock()
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
