package redlock_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

// watched is a context that says when somebody begins to wait for its end. Lock does so once it stands in the queue.
type watched struct {
	context.Context
	once    sync.Once
	waiting chan struct{}
}

func (w *watched) Done() <-chan struct{} {
	w.once.Do(func() { close(w.waiting) })
	return w.Context.Done()
}

// queue has a call of Lock wait, and returns when it stands in the queue.
func queue(tb testing.TB, ctx context.Context, locker *redlock.Locker, name string, opts ...redlock.LockOption) <-chan held { //nolint:revive // tb comes first in all helpers
	tb.Helper()
	w := &watched{Context: ctx, waiting: make(chan struct{})}
	result := lockBeside(w, locker, name, opts...)
	receive(tb, w.waiting, "its place in the queue")
	return result
}

// line is a number of calls of Lock that wait one behind the other, and what became of them.
type line struct {
	tb   testing.TB
	all  sync.WaitGroup
	mu   sync.Mutex
	came []string // who has had the lock
}

// join lets somebody wait behind all others, who gives the lock back at once.
func (l *line) join(locker *redlock.Locker, who string) {
	l.tb.Helper()
	waiter := queue(l.tb, l.tb.Context(), locker, "name")
	l.all.Go(func() {
		h := <-waiter
		if h.err != nil {
			l.tb.Errorf("%s: %v", who, h.err)
			return
		}
		l.mu.Lock()
		l.came = append(l.came, who)
		l.mu.Unlock()
		if err := h.lock.Unlock(l.tb.Context()); err != nil {
			l.tb.Errorf("%s: %v", who, err)
		}
	})
}

// end waits until all have had the lock, and returns who came when.
func (l *line) end() []string {
	l.tb.Helper()
	ended := make(chan struct{})
	go func() {
		l.all.Wait()
		close(ended)
	}()
	receive(l.tb, ended, "the end of the line")
	return l.came
}

// waits takes the lock of a name by Lock.
func waits(tb testing.TB, locker *redlock.Locker, name string, opts ...redlock.LockOption) *redlock.Lock {
	tb.Helper()
	lock, err := locker.Lock(tb.Context(), name, opts...)
	require.NoError(tb, err)
	return lock
}
