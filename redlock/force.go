package redlock

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool"
)

// ForceUnlock deletes a lock from every node, whoever holds it. It is for an operator who knows
// that the holder is gone: one who is not goes on working beside the next. It is logged at level Warn. Data
// of another type under the name is left alone.
//
// nil: a majority of the nodes does not hold it any more. [ErrNoQuorum] in a [*QuorumError]: unknown, too few
// nodes answered, joined with ctx.Err() where that is why; [ErrClosed].
func (l *Locker) ForceUnlock(ctx context.Context, name string) error {
	req, err := l.request(name, nil)
	if err != nil {
		return err
	}
	if err := l.enter(); err != nil {
		return err
	}
	defer l.calls.Done()
	p := l.poll(pool.Force(req.key), nil)
	err = p.wait(ctx)
	freed := p.count(pool.Yes)
	l.logger.Warn("redlock: lock released by force", "name", name, "nodes", freed)
	if freed+p.count(pool.No) >= quorum.Majority(len(l.nodes)) {
		return nil
	}
	return p.refused(ctx, err, opForce, name, ErrNoQuorum)
}
