// Package contest takes locks for commands that do not wait.
package contest

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	rounds = 8
	// The longest pause before another round. It doubles from one to the next.
	firstPause = 20 * time.Millisecond
)

// TryLock takes a lock as [redlock.Locker.TryLock] does, and never waits for a holder. But machines that try at the same
// instant, as those of cron do, may take the nodes from each other so that none has the lock. While no majority of the nodes
// is seen to hold the lock for anybody, TryLock tries again after a random pause, some times.
func TryLock(ctx context.Context, locker *redlock.Locker, name string, opts ...redlock.LockOption) (*redlock.Lock, error) {
	for round := 1; ; round++ {
		lock, err := locker.TryLock(ctx, name, opts...)
		if err == nil || round == rounds || !isSplit(ctx, locker, name, err) {
			return lock, err
		}
		select {
		case <-time.After(rand.N(firstPause << (round - 1))):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// isSplit reports whether the error of a TryLock may come from a vote that nobody won.
func isSplit(ctx context.Context, locker *redlock.Locker, name string, err error) bool {
	if !errors.Is(err, redlock.ErrTaken) || errors.Is(err, nodeerr.ErrNoExpiry) || errors.Is(err, nodeerr.ErrForeign) {
		return false
	}
	state, err := locker.Inspect(ctx, name)
	return err == nil && state.Verdict != redlock.VerdictHeld
}
