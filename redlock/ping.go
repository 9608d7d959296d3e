package redlock

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Ping returns nil if a majority of the nodes would grant a lock now: it is for the readiness probe of a program that is of no
// use without locks. It asks each node what an acquire asks, without setting anything, so it notices a server that refuses to
// write (a replica, a full memory or disk, a missing permission) or may not vote ([pool.WithRestartGuard]). It returns as soon as
// a majority has said yes, and within the node timeout whatever the nodes do.
//
// On the wire it is SET with XX, PX and a key that begins with the key prefix and that nothing has, so that the server sets nothing.
// The user of the servers needs the permission for it: Ping fails without [WithKeyPrefix] if that permits some names only. With
// [WithFencing] an acquire is a script, whose permission Ping does not check.
//
// The errors are [ErrNoQuorum] in a [*QuorumError] with every node's reason, joined with ctx.Err() if ctx ended first; ctx.Err()
// alone if it had ended before; [ErrClosed] after Close.
func (l *Locker) Ping(ctx context.Context) error {
	if err := l.enter(); err != nil {
		return failed(opPing, "", err)
	}
	defer l.calls.Done()
	if ctx.Err() != nil {
		return failed(opPing, "", ended(ctx))
	}
	yes, need := 0, quorum.Majority(len(l.nodes))
	replies := l.poll(ctx, l.all(form.Probe(l.prefix, l.self)), func(_ int, reply *wire.Reply) bool {
		if reply.Answer == quorum.Yes {
			yes++
		}
		return yes >= need
	})
	if yes >= need {
		return nil
	}
	return l.unanswered(ctx, opPing, "", ErrNoQuorum, replies)
}
