package clocktest

import (
	"slices"
	"sort"
	"time"
)

// timer is a clock.Timer. It is pending while it is in fake.pending.
type timer struct {
	fake *Fake
	run  func()
	due  time.Duration // since epoch; guarded by fake.mu
}

func (t *timer) Stop() bool {
	f := t.fake
	f.mu.Lock()
	defer f.mu.Unlock()
	return t.stopLocked()
}

func (t *timer) Reset(d time.Duration) bool {
	f := t.fake
	f.mu.Lock()
	defer f.mu.Unlock()
	wasPending := t.stopLocked()
	t.due = add(f.now, max(d, 0))
	after := sort.Search(len(f.pending), func(i int) bool { return f.pending[i].due > t.due })
	f.pending = slices.Insert(f.pending, after, t)
	close(f.set)
	f.set = make(chan struct{})
	return wasPending
}

func (t *timer) stopLocked() bool {
	f := t.fake
	i := slices.Index(f.pending, t)
	if i < 0 {
		return false
	}
	f.pending = slices.Delete(f.pending, i, i+1)
	return true
}
