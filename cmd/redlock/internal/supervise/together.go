//go:build darwin || freebsd || linux

package supervise

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// together is several locks that are held as one, as [redlock.Locks] are.
type together []*redlock.Lock

// Done returns a channel that is closed when the first of the locks is over.
func (t together) Done() <-chan struct{} {
	done := make(chan struct{})
	end := sync.OnceFunc(func() { close(done) })
	for _, lock := range t {
		go func() {
			<-lock.Done()
			end()
		}()
	}
	return done
}

// Err returns nil while all are held, and then the error of the first that is over.
func (t together) Err() error {
	for _, lock := range t {
		if err := lock.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Remaining returns the shortest validity.
func (t together) Remaining() time.Duration {
	least := redlock.NoLimit
	for _, lock := range t {
		least = min(least, lock.Remaining())
	}
	return least
}

// Extend extends all at once.
func (t together) Extend(ctx context.Context, ttl time.Duration) error {
	return t.each(func(lock *redlock.Lock) error { return lock.Extend(ctx, ttl) })
}

// Unlock releases all at once, and goes on if some fail.
func (t together) Unlock(ctx context.Context) error {
	return t.each(func(lock *redlock.Lock) error { return lock.Unlock(ctx) })
}

func (t together) each(do func(*redlock.Lock) error) error {
	errs := make([]error, len(t))
	var all sync.WaitGroup
	for i, lock := range t {
		all.Go(func() { errs[i] = do(lock) })
	}
	all.Wait()
	return first(errs)
}

// first returns the first error that is more than ErrReleased, or else the first.
func first(errs []error) (released error) {
	for _, err := range errs {
		switch {
		case err == nil:
		case !errors.Is(err, redlock.ErrReleased):
			return err
		case released == nil:
			released = err
		}
	}
	return released
}
