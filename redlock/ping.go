package redlock

import "context"

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
	if !l.engine.Begin() {
		return failed(opPing, "", ErrClosed)
	}
	defer l.engine.End()
	if ctx.Err() != nil {
		return failed(opPing, "", ended(ctx))
	}
	if would, answers := l.engine.Probe(ctx, l.prefix); !would {
		return l.unanswered(ctx, opPing, "", ErrNoQuorum, answers)
	}
	return nil
}
