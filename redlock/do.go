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
// that. If the release at the end is not confirmed ([ErrNoQuorum]), that is logged and no error: the lock was held until then.
func (l *Locker) Do(ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error, opts ...LockOption) error {
	return do(ctx, name, fn, opts, l.Lock)
}

// TryDo is Do with [Locker.TryLock] in the place of Lock: it does not wait for a holder. Errors of TryLock such as
// [ErrTaken] mean that fn has not run.
func (l *Locker) TryDo(ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error, opts ...LockOption) error {
	return do(ctx, name, fn, opts, l.TryLock)
}

func do(ctx context.Context, name string, fn func(context.Context, *Lock) error, opts []LockOption,
	acquire func(context.Context, string, ...LockOption) (*Lock, error),
) (err error) {
	if fn == nil {
		return errors.New("redlock: Do without a function")
	}
	lock, err := acquire(ctx, name, append([]LockOption{AutoExtend()}, opts...)...)
	if err != nil {
		return err
	}
	defer func() {
		lost := lock.Err()
		known := errors.Is(err, lost) // as the cause of its context, for example
		if unlocked := lock.Unlock(context.WithoutCancel(ctx)); lost == nil && errors.Is(unlocked, ErrNotHeld) {
			lost = unlocked
			known = errors.Is(err, ErrNotHeld) || errors.Is(err, ErrLost) || errors.Is(err, ErrExpired)
		}
		// fn may have released the lock itself.
		if lost != nil && !errors.Is(lost, ErrReleased) && (!known || isOfAnother(err, name)) {
			err = errors.Join(err, failed("do", name, lost))
		}
	}()
	ctx, cancel := lock.Context(ctx)
	defer cancel()
	return fn(ctx, lock)
}

// isOfAnother reports whether err names another lock.
func isOfAnother(err error, name string) bool {
	var failure *opError
	var refusal *QuorumError
	return errors.As(err, &failure) && failure.name != name || errors.As(err, &refusal) && refusal.Name != name
}
