package redlock

import (
	"context"
	"fmt"
)

// Close makes the calls that wait return with [ErrClosed], and every later call of the Locker and of Lock.Extend. It ends renewals,
// and returns when nothing of the Locker runs any more, releases included, except for functions of Do and TryDo. That takes the node
// timeout at most, and a second more for an Observer that blocks. The error is always nil. Closing twice is fine, and a function of
// Do may call Close.
//
// The contexts of these functions end, with ErrClosed as their cause. Close does not wait for functions that run. Until one returns
// its lock is renewed, so that nobody else holds it, and then it is released. [Locker.Shutdown] is Close for a program that waits for
// these functions.
//
// Other locks stay held until their deadline, or until their Unlock: call Unlock before Close. Nodes given to [New] stay open, so
// that Unlock still works; close them when Do has returned. Nodes made by [Open] are closed, when the last function has returned:
// Unlock returns [ErrNoQuorum] then, and the key stays for its TTL.
func (l *Locker) Close() error {
	l.engine.Close()
	l.events.drain(context.Background())
	return nil
}

// Shutdown is Close, and waits until the last function of Do and TryDo has returned, its lock has been released, and nodes that
// [Open] made are closed; but not for longer than ctx. Then the error is ctx.Err(), and functions that still run go on.
// Locks that were taken without Do stay held, as after Close. A function of Do that calls Shutdown waits for itself.
func (l *Locker) Shutdown(ctx context.Context) error {
	closed := make(chan struct{})
	go func() {
		_ = l.Close() // always nil
		close(closed)
	}()
	for _, step := range []<-chan struct{}{closed, l.engine.Ended()} {
		select {
		case <-step:
		case <-ctx.Done():
			return fmt.Errorf("redlock: shutdown: %w", ended(ctx))
		}
	}
	l.events.drain(ctx)
	return nil
}
