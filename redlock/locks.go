package redlock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/redlock/event"
)

// Locks are the locks of several names that were acquired together ([Locker.LockAll]). They are held while each of them
// is. They are safe for concurrent use.
type Locks struct {
	locks []*Lock // in the order of the names

	err   atomic.Pointer[error] // the error that Err returns, or nil until it has found one
	asked sync.Once             // makes done when somebody asks for it
	done  chan struct{}         // closed when the first of the locks is over
}

func newLocks(locks []*Lock) *Locks { return &Locks{locks: locks} }

// at returns the i-th lock, or nil if there are no locks.
func (l *Locks) at(i int) *Lock {
	if l == nil {
		return nil
	}
	return l.locks[i]
}

// Names returns the names, sorted and without the prefix.
func (l *Locks) Names() []string {
	names := make([]string, len(l.locks))
	for i, lock := range l.locks {
		names[i] = lock.Name()
	}
	return names
}

// Get returns the lock of a name, or nil. If one lock ends, the Locks are over, and the others stay held until Unlock.
func (l *Locks) Get(name string) *Lock {
	i := slices.IndexFunc(l.locks, func(lock *Lock) bool { return lock.Name() == name })
	if i < 0 {
		return nil
	}
	return l.locks[i]
}

// Err returns nil while all locks are held, and then the [Lock.Err] of one that is over.
func (l *Locks) Err() error {
	for i := 0; i < len(l.locks) && l.err.Load() == nil; i++ {
		if err := l.locks[i].Err(); err != nil {
			l.err.CompareAndSwap(nil, &err)
		}
	}
	if err := l.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Remaining returns the shortest validity. 0 means that a lock is over.
func (l *Locks) Remaining() time.Duration {
	least := NoLimit
	for _, lock := range l.locks {
		least = min(least, lock.Remaining())
	}
	return least
}

// Done returns a channel that is closed when the first of the locks is over.
func (l *Locks) Done() <-chan struct{} {
	l.asked.Do(func() {
		l.done = make(chan struct{})
		end := sync.OnceFunc(func() { close(l.done) })
		for _, lock := range l.locks {
			context.AfterFunc(lock.held.Context(&lock.hold), end)
		}
	})
	return l.done
}

// Context is [Lock.Context] for all of the names.
func (l *Locks) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancels := parent, make([]context.CancelFunc, len(l.locks))
	for i, lock := range l.locks {
		ctx, cancels[i] = lock.Context(ctx)
	}
	return ctx, func() {
		for _, cancel := range slices.Backward(cancels) {
			cancel()
		}
	}
}

// Extend calls [Lock.Extend] on all locks at once. It returns the first error in the order of the names, ErrReleased
// last. After an error some may have been extended.
func (l *Locks) Extend(ctx context.Context, ttl time.Duration) error {
	return first(l.each(func(lock *Lock) error { return lock.Extend(ctx, ttl) }))
}

// Unlock calls [Lock.Unlock] on all locks at once, and goes on if some fail. It returns the first error in the order of
// the names, ErrReleased last. Unlock of nil Locks is [ErrInvalid].
func (l *Locks) Unlock(ctx context.Context) error {
	if l == nil {
		return failed(event.OpUnlock, "", noLock)
	}
	return first(l.each(func(lock *Lock) error { return lock.Unlock(ctx) }))
}

// each calls what with all locks at the same time, and returns the errors in the order of the locks.
func (l *Locks) each(what func(*Lock) error) []error {
	errs := make([]error, len(l.locks))
	if len(l.locks) == 1 {
		errs[0] = what(l.locks[0])
		return errs
	}
	var calls sync.WaitGroup
	for i, lock := range l.locks {
		calls.Go(func() { errs[i] = what(lock) })
	}
	calls.Wait()
	return errs
}

// first returns the first error that is not ErrReleased. If there is none, it returns the first ErrReleased, or nil.
func first(errs []error) (released error) {
	for _, err := range errs {
		switch {
		case err == nil:
		case !errors.Is(err, ErrReleased):
			return err
		case released == nil:
			released = err
		}
	}
	return released
}
