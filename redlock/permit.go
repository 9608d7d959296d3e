package redlock

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/engine"
)

// Acquire takes one of limit permits of a name, as package golang.org/x/sync/semaphore does in one process. It waits like [Locker.Lock]
// until one is free; limit is from 1 to 1024. A permit is a lock as any other: with a token and a TTL of its own, it is extended, renewed,
// lost, detached and unlocked by itself, and is free again when its TTL ends. But it has no fencing token, [Lock.Fence] is 0, and is not
// passed on ([WithLocalHandoff]). The errors are those of Lock; a node that has no permit to give has [nodeerr.ErrFull].
//
// The limit is that of the call, and is not kept on the nodes: if callers have different limits, at most as many have a permit as the
// highest of them. A [Locker.Lock] of the name waits until all permits are given back, and keeps everybody out meanwhile, as with
// [Locker.RLock]. Readers and permits of one name exclude each other and have no turns, so a name is for one of them.
//
// A caller who has a permit of the name gets [ErrDeadlock], or with [Reentrant] another handle on that permit. A caller who holds another
// lock of the name gets ErrDeadlock, also with Reentrant.
func (l *Locker) Acquire(ctx context.Context, name string, limit int, opts ...LockOption) (*Lock, error) {
	return l.take(ctx, name, permit(limit, opts), false)
}

// TryAcquire is [Locker.Acquire] for a caller who does not wait, like [Locker.TryLock], whose errors it has. Callers that try at the same
// instant may get permits of which no majority has the same one. Then it tries again, up to four times in all, before it returns
// [ErrTaken].
func (l *Locker) TryAcquire(ctx context.Context, name string, limit int, opts ...LockOption) (*Lock, error) {
	return l.take(ctx, name, permit(limit, opts), true)
}

// DoLimited is [Locker.Do] with [Locker.Acquire] in the place of Lock: at most limit functions run at a time, in all processes together.
func (l *Locker) DoLimited(
	ctx context.Context, name string, limit int, fn func(ctx context.Context, lock *Lock) error, opts ...LockOption,
) error {
	return l.do(ctx, name, fn, permit(limit, opts), false)
}

// permit returns the options of a call with its limit.
func permit(limit int, opts []LockOption) []LockOption {
	return append(of(engine.KindSlot, opts), lockOption(func(r *request) { r.limit = limit }))
}
