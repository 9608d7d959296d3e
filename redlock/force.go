package redlock

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// ForceUnlock deletes a lock from every node, whoever holds it. It is for an operator who knows that the holder is gone:
// a holder that is not gone works on beside the next one. The call is logged at level Warn. Data of another type under the
// name is left alone.
//
// ForceUnlock returns nil if a majority of the nodes does not hold the lock any more. [ErrNoQuorum] in a [*QuorumError] means that
// too few nodes answered, joined with ctx.Err() if ctx ended first. [ErrClosed] after Close.
func (l *Locker) ForceUnlock(ctx context.Context, name string) error {
	req, err := l.begin(name, nil)
	if err != nil {
		return err
	}
	defer l.calls.Done()
	replies := l.poll(ctx, node.Delete(req.key), nil)
	freed := count(replies, quorum.Yes)
	l.logger.Warn("redlock: lock released by force", "name", name, "nodes", freed)
	if freed+count(replies, quorum.No) >= quorum.Majority(len(l.nodes)) {
		return nil
	}
	return l.unanswered(ctx, OpForceUnlock, name, ErrNoQuorum, replies)
}
