package redlock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Locks are the locks of several names that were acquired together ([Locker.LockAll]). They are held while each of them is. They are safe
// for concurrent use.
type Locks struct {
	locks []*Lock // in the order of the names

	err   atomic.Pointer[error] // what Err returns; nil while they are held, as far as somebody has asked
	asked sync.Once             // for done
	done  chan struct{}         // closed with the first of them
}

func newLocks(locks []*Lock) *Locks { return &Locks{locks: locks} }

// at returns the i-th lock; nil if there are no locks.
func (l *Locks) at(i int) *Lock {
	if l == nil {
		return nil
	}
	return l.locks[i]
}

// Names returns the names of the locks in order, without the key prefix.
func (l *Locks) Names() []string {
	names := make([]string, len(l.locks))
	for i, lock := range l.locks {
		names[i] = lock.Name()
	}
	return names
}

// Lock returns the lock of a name, with its token and fencing token; nil if there is none of the name. Its Unlock, Detach or loss ends
// the Locks, and the others stay held until Unlock.
func (l *Locks) Lock(name string) *Lock {
	i := slices.IndexFunc(l.locks, func(lock *Lock) bool { return lock.Name() == name })
	if i < 0 {
		return nil
	}
	return l.locks[i]
}

// Err returns nil while all locks are held, and then the error of one that is over, with its name: see [Lock.Err]. Later calls return
// the same error.
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

// Remaining returns the validity: the least of those of the locks. 0 means that one of them is over.
func (l *Locks) Remaining() time.Duration {
	least := NoLimit
	for _, lock := range l.locks {
		least = min(least, lock.Remaining())
	}
	return least
}

// Done returns a channel that is closed when the first of the locks is over: see [Lock.Done].
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

// Context returns a child of parent that is cancelled when Done is closed, with Err as its cause. A call with this context
// holds all of the names ([Reentrant]). The CancelFunc frees the resources of the context; it does not release the locks.
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

// Extend is [Lock.Extend] of each lock, at the same time. It returns the first error by name. If there is one, some of the locks may have
// been extended.
func (l *Locks) Extend(ctx context.Context, ttl time.Duration) error {
	return first(l.each(func(lock *Lock) error { return lock.Extend(ctx, ttl) }))
}

// Unlock is [Lock.Unlock] of each lock, at the same time, whatever the others come to. It returns the first error by name; [ErrReleased],
// which is no loss, only if there is no other.
func (l *Locks) Unlock(ctx context.Context) error {
	return first(l.each(func(lock *Lock) error { return lock.Unlock(ctx) }))
}

// each calls what with all locks at the same time.
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

// first returns the first error that is there, and is more than that somebody has released the lock.
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
