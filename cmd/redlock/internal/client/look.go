package client

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// Look is [redlock.Locker.Inspect] for who waits for the answer: a node that hangs when it is connected to has a second.
func Look(ctx context.Context, locker *redlock.Locker, name string) (*redlock.LockState, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return locker.Inspect(ctx, name)
}
