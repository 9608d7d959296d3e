// Package contest takes locks for commands that do not wait.
package contest

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/client"
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
	return try(ctx, locker, []string{name}, func() (*redlock.Lock, error) { return locker.TryLock(ctx, name, opts...) })
}

// TryLockAll is TryLock for [redlock.Locker.TryLockAll].
func TryLockAll(ctx context.Context, locker *redlock.Locker, names []string, opts ...redlock.LockOption) (*redlock.Locks, error) {
	return try(ctx, locker, names, func() (*redlock.Locks, error) { return locker.TryLockAll(ctx, names, opts...) })
}

func try[L any](ctx context.Context, locker *redlock.Locker, names []string, once func() (L, error)) (none L, _ error) {
	for round := 1; ; round++ {
		lock, err := once()
		if err == nil || round == rounds || !isSplit(ctx, locker, names, err) {
			return lock, err
		}
		select {
		case <-time.After(rand.N(firstPause << (round - 1))):
		case <-ctx.Done():
			return none, err
		}
	}
}

// isSplit reports whether the error of a TryLock may come from a vote that nobody won.
func isSplit(ctx context.Context, locker *redlock.Locker, names []string, err error) bool {
	if !errors.Is(err, redlock.ErrTaken) || errors.Is(err, nodeerr.ErrNoExpiry) || errors.Is(err, nodeerr.ErrForeign) {
		return false
	}
	for _, name := range names {
		if state, err := client.Look(ctx, locker, name); err != nil || state.Verdict == redlock.VerdictHeld || state.Verdict == redlock.VerdictForeign {
			return false
		}
	}
	return true
}
