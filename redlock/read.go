package redlock

import (
	"context"
	"slices"

	"github.com/quorumlock/quorumlock/internal/engine"
)

// Kind is what a lock keeps out.
type Kind string

// The kinds of locks.
const (
	KindLock   Kind = "lock"   // of Lock: it keeps out everybody else
	KindRead   Kind = "read"   // of RLock: it keeps out every other kind
	KindPermit Kind = "permit" // of Acquire: it keeps out every other kind, and more than so many of its own
)

// Shared reports whether several may have a lock of this kind at a time.
func (k Kind) Shared() bool { return k == KindRead || k == KindPermit }

// of returns the options of a call with its kind.
func of(kind engine.Kind, opts []LockOption) []LockOption {
	return slices.Concat(opts, []LockOption{lockOption(func(r *request) { r.Kind = kind })})
}

// Kind returns what the lock keeps out.
func (l *Lock) Kind() Kind { return l.held.kind() }

// RLock takes a read lock, which any number may have at a time, while nobody has the [Locker.Lock] of the name: that is the lock of a writer.
// It waits like Lock, behind the writers that were there before: while one waits, no reader gets the lock who does not have it. If none
// waits, readers do not wait for each other. The errors are those of Lock.
//
// What holds of a lock holds of it too: it has a token and a TTL of its own, and is extended, renewed, lost, detached and unlocked by
// itself. But it has no fencing token, [Lock.Fence] is 0: a resource that checks fences refuses a reader's write. It is not passed on
// ([WithLocalHandoff]).
//
// A caller who holds the lock of the name, for reading or writing, gets [ErrDeadlock]. With [Reentrant] it gets another handle on that
// lock, which is still one for writing if it was. A caller who holds a read lock gets ErrDeadlock from Lock, also with Reentrant: two that
// wait for each other's read lock to end would wait for ever.
//
// Readers of this name and clients of other libraries exclude each other, as the nodes hold a string under its key, and so do earlier
// versions of this library. Their writers do not say that they wait, so that readers that overlap without a pause may keep them waiting.
func (l *Locker) RLock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return l.take(ctx, name, of(engine.KindShared, opts), false)
}

// TryRLock is [Locker.RLock] for a caller who does not wait: it tries once, like [Locker.TryLock], whose errors it has. It returns
// [ErrTaken] also if a writer waits ([nodeerr.ErrWanted]).
func (l *Locker) TryRLock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return l.take(ctx, name, of(engine.KindShared, opts), true)
}

// DoRead is [Locker.Do] with [Locker.RLock] in the place of Lock: functions that read run side by side.
func (l *Locker) DoRead(ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error, opts ...LockOption) error {
	return l.do(ctx, name, fn, of(engine.KindShared, opts), false)
}
