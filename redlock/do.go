package redlock

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Do runs fn while it holds the lock of a name. It waits like [Locker.Lock], renews the lock while fn runs, and
// releases it when fn returns or panics. [RenewFor] limits the renewals.
//
// The context of fn ends with ctx, and with the lock. [context.Cause] is then the loss ([ErrLost]), [ErrReleased] after
// an Unlock by fn, or [ErrClosed] after [Locker.Close]. fn has to stop; until it returns the lock is renewed.
//
// Do returns the error of fn. If the lock was lost, it also matches ErrLost: fn may have run beside another holder. nil
// means the lock was held until fn returned or released it. If fn did not run, the error is that of Lock, and
// [ErrNotRun].
//
// A release that is not confirmed is sent again. If too many servers refused it, or nodes were closed, the error is
// [ErrNoQuorum] without ErrNotRun, and the key stays until its TTL.
func (l *Locker) Do(
	ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error, opts ...LockOption,
) error {
	return l.do(ctx, name, fn, opts, false)
}

// TryDo runs fn like [Locker.Do], but takes the lock like [Locker.TryLock], without a wait.
func (l *Locker) TryDo(
	ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error, opts ...LockOption,
) error {
	return l.do(ctx, name, fn, opts, true)
}

// do runs fn while it holds the lock of one name. try means that the call does not wait for a holder.
func (l *Locker) do(
	ctx context.Context, name string, fn func(context.Context, *Lock) error, opts []LockOption, try bool,
) error {
	if fn == nil {
		return &notRun{disguise{failed(opDo, name, invalid("no function"))}}
	}
	return l.run(ctx, name, opts, func(opts []LockOption) (*Locks, error) {
		lock, err := l.take(ctx, name, opts, try)
		if err != nil {
			return nil, err
		}
		return newLocks([]*Lock{lock}), nil
	}, func(ctx context.Context, locks *Locks) error { return fn(ctx, locks.locks[0]) })
}

// DoAll runs fn like [Locker.Do], with the locks of several names, as [Locker.LockAll] takes them. The context of fn
// ends with the first of them. The error has the loss of each lock.
func (l *Locker) DoAll(
	ctx context.Context, names []string, fn func(ctx context.Context, locks *Locks) error, opts ...LockOption,
) error {
	return l.doAll(ctx, names, fn, opts, false)
}

// TryDoAll runs fn like [Locker.DoAll], but takes the locks like [Locker.TryLockAll], without a wait.
func (l *Locker) TryDoAll(
	ctx context.Context, names []string, fn func(ctx context.Context, locks *Locks) error, opts ...LockOption,
) error {
	return l.doAll(ctx, names, fn, opts, true)
}

// doAll runs fn while it holds the locks of several names. try means that the call does not wait for a holder.
func (l *Locker) doAll(
	ctx context.Context, names []string, fn func(context.Context, *Locks) error, opts []LockOption, try bool,
) error {
	name := ""
	if len(names) > 0 {
		name = slices.Min(names)
	}
	if fn == nil {
		return &notRun{disguise{failed(opDo, name, invalid("no function"))}}
	}
	return l.run(ctx, name, opts, func(opts []LockOption) (*Locks, error) { return l.takeAll(ctx, names, opts, try) }, fn)
}

// renewed is the default of the calls with a function: RenewFor without a limit, unless the Locker has another one.
var renewed = lockOption(func(r *request) {
	r.function = true
	if !r.renewSet {
		r.renewFor = NoLimit
	}
})

// run calls take, and runs fn while it holds the locks that take returned.
func (l *Locker) run(
	ctx context.Context, name string, opts []LockOption, take func([]LockOption) (*Locks, error),
	fn func(context.Context, *Locks) error,
) (err error) {
	locks, err := l.takeFor(ctx, name, func() (*Locks, error) { return take(append([]LockOption{renewed}, opts...)) })
	if err != nil {
		return &notRun{disguise{err}}
	}
	defer func() {
		returned := err
		losses := locks.each(func(lock *Lock) (loss error) {
			l.engine.EndFunction(lock.held, func() { loss = l.endFunction(ctx, lock, returned) })
			return loss
		})
		if first(losses) != nil {
			err = errors.Join(append([]error{err}, losses...)...)
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	defer context.AfterFunc(l.engine.Closing(), func() { cancel(ErrClosed) })()
	ctx, end := locks.Context(ctx)
	defer end()
	var returned atomic.Bool
	defer returned.Store(true)
	ctx = context.WithValue(ctx, functionKey{l}, &returned)
	if err = fn(ctx, locks); errors.Is(err, ErrNotRun) {
		err = &ran{disguise{err}}
	}
	return err
}

// functionKey is the key of a value in the context of a function of Do. The value is an atomic.Bool, which is true when
// the function has returned.
type functionKey struct{ locker *Locker }

// within reports whether a context is that of a function of this Locker that still runs, or a child of it.
func (l *Locker) within(ctx context.Context) bool {
	returned, is := ctx.Value(functionKey{l}).(*atomic.Bool)
	return is && !returned.Load()
}

// endFunction releases a lock whose function has returned err. It returns the loss of the lock, unless err already
// reports it, or the error of a release that too many nodes never send again.
func (l *Locker) endFunction(ctx context.Context, lock *Lock, err error) error {
	ending, exclusive := lock.held.Stands(&lock.hold)
	name, lost, unlocked := lock.Name(), endings[ending], lock.Unlock(context.WithoutCancel(ctx))
	switch {
	case exclusive && errors.Is(unlocked, ErrNotHeld) && !errors.Is(unlocked, ErrReleased):
		if !says(err, name, ErrNotHeld) || says(err, name, ErrReleased) {
			return unlocked
		}
	case exclusive, ending == quorum.Released: // if it is Released, fn has released the lock
		if l.neverReleased(unlocked) {
			return unlocked
		}
	case !says(err, name, lost): // err says it, for example, if fn has returned the cause of its context
		return failed(opDo, name, l.end(lock.held, ending))
	}
	return nil
}

// takeFor takes the locks for a function. The caller calls engine.EndFunction for each of them when the function has
// returned.
func (l *Locker) takeFor(ctx context.Context, name string, take func() (*Locks, error)) (*Locks, error) {
	if !l.engine.Begin() { // Close waits until it is certain whether the function runs
		return nil, failed(opDo, name, ErrClosed)
	}
	defer l.engine.End()
	locks, err := take()
	if err != nil {
		return nil, err
	}
	for i, lock := range locks.locks {
		if l.engine.BeginFunction(lock.held) {
			continue
		}
		over, cancel := context.WithCancel(ctx)
		cancel()
		// The releases are sent without a wait: nobody has relied on the locks, and Close does not wait for nodes.
		for j, lock := range locks.locks {
			if unlock := func() { _ = lock.Unlock(over) }; j < i {
				l.engine.EndFunction(lock.held, unlock)
			} else {
				unlock()
			}
		}
		return nil, failed(opDo, name, ErrClosed)
	}
	return locks, nil
}

// neverReleased reports whether too many nodes for a majority never send the release again. They have refused it, are
// closed, or are about to be closed.
func (l *Locker) neverReleased(unlocked error) bool {
	var refusal *QuorumError
	return errors.Is(unlocked, ErrNoQuorum) && errors.As(unlocked, &refusal) &&
		(refusal.preventedBy(keepsKey) || l.engine.Own && l.engine.Closing().Err() != nil)
}
