package redlock

import (
	"context"
	"errors"
)

// Do runs fn while it holds the lock of a name. It waits like [Locker.Lock], renews the lock while fn runs
// ([AutoExtend]; [MaxHold] limits that, [MaxWait] the wait), and releases it when fn returns or panics. The context
// passed to fn is cancelled when the lock is found lost, with [ErrLost] or [ErrExpired] as its cause: fn has to stop then.
//
// Do returns fn's error. If the lock was lost, it returns the loss too, because fn may have run beside another holder: ErrLost,
// ErrExpired, or [ErrNotHeld] if only the release found it. It does not, if fn's error says so already. If the lock was not
// acquired, fn has not run and the error is that of Lock; an fn that returns errors of other locks should make them differ from
// that. If the release at the end is not confirmed ([ErrNoQuorum]), that is logged and no error: the lock was held until then, and
// the nodes send the release again when their servers are back. They do not if they have been closed: pool.Node.Close of so many
// that no majority is left, or [Locker.Close] of a Locker that [Open] made. Then Do returns the ErrNoQuorum of the release, with the
// nodes' reasons, such as pool.ErrClosed, and the lock stays until its TTL is over. So nil means that the lock was held
// until fn had returned, and that its release was sent.
//
// [Locker.Close] ends the context of fn with [ErrClosed] as its cause, and does not wait for fn. The lock is renewed until fn has
// returned, as otherwise another fn might run beside it. An ErrClosed of Do's own means that fn has not run.
func (l *Locker) Do(ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error, opts ...LockOption) error {
	return l.do(ctx, name, fn, opts, l.Lock)
}

// TryDo is Do with [Locker.TryLock] in the place of Lock: it does not wait for a holder. Errors of TryLock such as
// [ErrTaken] mean that fn has not run.
func (l *Locker) TryDo(ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error, opts ...LockOption) error {
	return l.do(ctx, name, fn, opts, l.TryLock)
}

func (l *Locker) do(ctx context.Context, name string, fn func(context.Context, *Lock) error, opts []LockOption,
	acquire func(context.Context, string, ...LockOption) (*Lock, error),
) (err error) {
	if fn == nil {
		return errors.New("redlock: Do without a function")
	}
	lock, err := l.acquireFor(ctx, name, opts, acquire)
	if err != nil {
		return err
	}
	defer l.endFunction(lock.held, func() {
		lost := lock.Err()
		known := errors.Is(err, lost) // as the cause of its context, for example
		unlocked := lock.Unlock(context.WithoutCancel(ctx))
		switch over := lost != nil && !errors.Is(lost, ErrReleased); { // fn may have released the lock itself
		case lost == nil && errors.Is(unlocked, ErrNotHeld):
			lost = unlocked
			known = errors.Is(err, ErrNotHeld) || errors.Is(err, ErrLost) || errors.Is(err, ErrExpired)
		case !over && l.neverReleased(unlocked):
			err = errors.Join(err, unlocked)
		}
		if lost != nil && !errors.Is(lost, ErrReleased) && (!known || isOfAnother(err, name)) {
			err = errors.Join(err, failed("do", name, lost))
		}
	})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	defer context.AfterFunc(l.closing, func() { cancel(ErrClosed) })()
	ctx, end := lock.Context(ctx)
	defer end()
	return fn(ctx, lock)
}

// acquireFor takes the lock for a function, which ends with endFunction.
func (l *Locker) acquireFor(ctx context.Context, name string, opts []LockOption,
	acquire func(context.Context, string, ...LockOption) (*Lock, error),
) (*Lock, error) {
	if err := l.enter(); err != nil { // Close waits until it is certain whether the function runs
		return nil, err
	}
	defer l.calls.Done()
	lock, err := acquire(ctx, name, append([]LockOption{AutoExtend()}, opts...)...)
	if err != nil {
		return nil, err
	}
	if !l.beginFunction(lock.held) {
		over, cancel := context.WithCancel(ctx)
		cancel()
		_ = lock.Unlock(over) // the release is sent; nobody has relied on the lock, and Close does not wait for nodes
		return nil, ErrClosed
	}
	return lock, nil
}

// neverReleased reports whether a release has failed on nodes that are closed, or will be now: they do not send it again.
func (l *Locker) neverReleased(unlocked error) bool {
	var refusal *QuorumError
	return errors.Is(unlocked, ErrNoQuorum) && errors.As(unlocked, &refusal) && (refusal.closed() || l.own && l.closing.Err() != nil)
}

// isOfAnother reports whether err names another lock.
func isOfAnother(err error, name string) bool {
	var failure *opError
	var refusal *QuorumError
	return errors.As(err, &failure) && failure.name != name || errors.As(err, &refusal) && refusal.Name != name
}
