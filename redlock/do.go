package redlock

import (
	"context"
	"errors"
	"fmt"
)

// Do runs fn while it holds the lock of a name. It waits like [Locker.Lock], keeps the lock for as long
// as fn runs ([AutoExtend], so think of [MaxHold]), and releases it when fn returns or
// panics. The context that fn is given ends when the lock is lost, with [ErrLost] or [ErrExpired] as
// its cause: fn has to stop then.
//
// The error is fn's, joined with the loss if there was one: fn may then have run beside
// another holder. If the lock was not acquired, fn has not run and the error is that of Lock. That the
// release at the end could not be confirmed ([ErrNoQuorum]) is logged and no error: the lock was held until then.
func (l *Locker) Do(ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error, opts ...LockOption) (err error) {
	if fn == nil {
		return errors.New("redlock: Do without a function")
	}
	lock, err := l.Lock(ctx, name, append([]LockOption{AutoExtend()}, opts...)...)
	if err != nil {
		return err
	}
	defer func() {
		lost := lock.Err()
		if unlocked := lock.Unlock(ctx); lost == nil && errors.Is(unlocked, ErrNotHeld) {
			lost = unlocked
		}
		if lost != nil && !errors.Is(lost, ErrReleased) { // by fn itself
			err = errors.Join(err, fmt.Errorf("redlock: do %q: %w", name, lost))
		}
	}()
	ctx, cancel := lock.Context(ctx)
	defer cancel()
	return fn(ctx, lock)
}
