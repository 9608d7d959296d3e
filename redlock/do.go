package redlock

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Do runs fn while it holds the lock of a name. It waits like [Locker.Lock], renews the lock while fn runs
// ([AutoExtend]; [MaxHold] limits that, [MaxWait] and [MaxOutage] the wait), and releases it when fn returns or panics; a panic goes
// on afterwards. The release may take the node timeout.
//
// The context passed to fn is a child of ctx. It is cancelled when the lock is over, with [ErrLost], [ErrExpired] or, after an
// Unlock by fn, [ErrReleased] as its [context.Cause]: fn has to stop then. fn also has to stop when ctx ends; until it returns the
// lock is renewed.
//
// Do returns fn's error. If the lock was lost, it returns the loss too, because fn may have run beside another holder: ErrLost,
// ErrExpired, or [ErrNotHeld] alone if only the release found it. Do adds nothing if fn's error reports the loss of this lock
// already, nor ErrExpired if fn returned within the [Grace]. nil means that the lock was held until fn had returned, or had released
// or detached it, and that its release was sent unless it was detached.
//
// If fn has not run, the error is that of Lock and matches [ErrNotRun] too. The error of a Do that has run fn never matches
// ErrNotRun, not even if fn returned that of another Do. A nil fn is [ErrInvalid].
//
// If the release at the end is not confirmed ([ErrNoQuorum]), that is logged and no error: the lock was held until then, and
// the nodes send the release again when their servers are back. They do not if the servers have refused it, such as for want of a
// permission, or if they have been closed: pool.Node.Close, or [Locker.Close] of a Locker that [Open] made. If so many have that no
// majority is left, Do returns the ErrNoQuorum of the release, with the nodes' reasons, such as nodeerr.ErrClosed or a
// nodeerr.ServerError, and the lock stays until its TTL is over.
//
// [Locker.Close] ends the context of fn with [ErrClosed] as its cause, and does not wait for fn. The lock is renewed until fn has
// returned, as otherwise another fn might run beside it.
func (l *Locker) Do(ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error, opts ...LockOption) error {
	return l.do(ctx, name, fn, opts, false)
}

// TryDo is Do with [Locker.TryLock] instead of Lock: it does not wait for a holder.
func (l *Locker) TryDo(ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error, opts ...LockOption) error {
	return l.do(ctx, name, fn, opts, true)
}

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

// DoAll is [Locker.Do] for the locks of several names, which it takes like [Locker.LockAll]. The context of fn ends when the first of them is
// over, and DoAll returns the loss of each that was lost.
func (l *Locker) DoAll(ctx context.Context, names []string, fn func(ctx context.Context, locks *Locks) error, opts ...LockOption) error {
	return l.doAll(ctx, names, fn, opts, false)
}

// TryDoAll is DoAll with [Locker.TryLockAll] instead of LockAll: it does not wait for a holder.
func (l *Locker) TryDoAll(ctx context.Context, names []string, fn func(ctx context.Context, locks *Locks) error, opts ...LockOption) error {
	return l.doAll(ctx, names, fn, opts, true)
}

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

// run runs fn while it holds the locks that take takes.
func (l *Locker) run(
	ctx context.Context, name string, opts []LockOption, take func([]LockOption) (*Locks, error), fn func(context.Context, *Locks) error,
) (err error) {
	locks, err := l.takeFor(ctx, name, func() (*Locks, error) { return take(append([]LockOption{AutoExtend()}, opts...)) })
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

// functionKey is that of a value in the context of a function: an atomic.Bool that tells whether the function of the Locker has returned.
type functionKey struct{ locker *Locker }

// within reports whether a context is that of a function of the Locker that runs.
func (l *Locker) within(ctx context.Context) bool {
	returned, is := ctx.Value(functionKey{l}).(*atomic.Bool)
	return is && !returned.Load()
}

// endFunction releases a lock of a function that has returned an error, and returns the loss of the lock that this does not say.
func (l *Locker) endFunction(ctx context.Context, lock *Lock, err error) error {
	ending, exclusive := lock.held.Stands(&lock.hold)
	name, lost, unlocked := lock.Name(), endings[ending], lock.Unlock(context.WithoutCancel(ctx))
	switch {
	case exclusive && errors.Is(unlocked, ErrNotHeld) && !errors.Is(unlocked, ErrReleased):
		if !says(err, name, ErrNotHeld) || says(err, name, ErrReleased) {
			return unlocked
		}
	case exclusive, ending == quorum.Released: // then fn has released it
		if l.neverReleased(unlocked) {
			return unlocked
		}
	case !says(err, name, lost): // as the cause of its context does, for example
		return failed(opDo, name, l.end(lock.held, ending))
	}
	return nil
}

// takeFor takes locks for a function, which ends with engine.EndFunction of each.
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
		// The releases are sent; nobody has relied on the locks, and Close does not wait for nodes.
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

// neverReleased reports whether too many nodes do not send a release again for a majority to let go of the lock: they have refused it, or
// are closed, or will be now.
func (l *Locker) neverReleased(unlocked error) bool {
	var refusal *QuorumError
	return errors.Is(unlocked, ErrNoQuorum) && errors.As(unlocked, &refusal) &&
		(refusal.preventedBy(keepsKey) || l.engine.Own && l.engine.Closing().Err() != nil)
}
