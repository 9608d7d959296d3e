// Package hold is what adapters have in common: how they take, watch and release the lock that another library asks them for.
package hold

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/redlock"
)

// Renewed returns the options of a lock that is renewed until it is released, unless opts has a redlock.RenewFor.
func Renewed(opts []redlock.LockOption) []redlock.LockOption {
	return append([]redlock.LockOption{redlock.RenewFor(redlock.NoLimit)}, opts...)
}

// Take is a method of a Locker that takes a lock.
type Take func(*redlock.Locker, context.Context, string, ...redlock.LockOption) (*redlock.Lock, error)

// Check returns the error with redlock.ErrInvalid that a method has for a name and options. Options with which several may have the
// lock at a time are redlock.ErrInvalid too: redlock.Shared, redlock.Slots and redlock.Reentrant. It asks no server.
func Check(locker *redlock.Locker, take Take, name string, opts ...redlock.LockOption) error {
	ended, cancel := context.WithCancel(context.Background()) // then the arguments are checked, and no more
	cancel()
	if _, err := take(locker, ended, name, opts...); errors.Is(err, redlock.ErrInvalid) {
		return err
	}
	if _, err := locker.LockAll(ended, []string{name}, opts...); errors.Is(err, redlock.ErrInvalid) { // which refuses these three
		return fmt.Errorf("one caller at a time must have the lock: %w", err)
	}
	return nil
}

// OnLoss calls f, on another goroutine, if the lock ends otherwise than by a release.
func OnLoss(lock *redlock.Lock, f func(error)) {
	go func() {
		<-lock.Done()
		if err := lock.Err(); !errors.Is(err, redlock.ErrReleased) {
			f(err)
		}
	}()
}

// Release is Unlock, whose error means that the lock was lost before: it matches redlock.ErrLost, unless Unlock was called before.
// A release that too few servers confirmed is no error: the lock was held until then.
func Release(ctx context.Context, lock *redlock.Lock) error {
	over := lock.Err()
	err := lock.Unlock(ctx)
	switch {
	case err == nil || over == nil && errors.Is(err, redlock.ErrNoQuorum):
		return nil
	case errors.Is(err, redlock.ErrNotHeld):
		return err
	}
	return errors.Join(over, err)
}
