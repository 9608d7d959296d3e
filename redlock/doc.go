// Package redlock takes locks on N independent Redis servers at once (Redlock). A majority of them holds each lock, so
// locking goes on while a minority is down.
//
//	locker, err := redlock.Open(urls)
//	...
//	defer locker.Close()
//
//	err = locker.Do(ctx, "nightly-report", func(ctx context.Context, lock *redlock.Lock) error {
//		return writeReport(ctx) // ctx ends when the lock is lost
//	}, redlock.TTL(30*time.Second), redlock.RenewFor(time.Hour))
//
// [Locker.Do] waits for the lock, renews it while the function runs, and releases it. [Locker.Lock] returns a [Lock],
// which [Lock.Unlock] releases. [Locker.TryDo] and [Locker.TryLock] do not wait. [Locker.DoAll] and [Locker.LockAll]
// take several names. [Shared] is for readers (RWMutex), [Slots] for a semaphore. The [guide] shows them in use.
//
// # Terms
//
// A node is one Redis server. A round asks each node once. The node timeout limits the wait for an answer
// ([pool.WithTimeout], 300 ms by default), but the first connection of a node may take 5 s ([pool.WithDialTimeout]). A
// lock is a lease: it ends at its deadline. The deadline is the beginning of the last round that a majority confirmed,
// plus the TTL, less the drift ([WithDrift]) and the [Grace]. The validity is the time until the deadline.
//
// # Options
//
// Options named With... are for [Open] and [New]. The others are for a call, or for Open and New as the default of all
// calls. A call returns [ErrInvalid] for an option that it has no use for, and ignores such a default. 0 is zero:
// MaxWait(0) does not wait. [NoLimit] is for ever.
//
//	                        Lock, Do      TryLock, TryDo   Attach
//	TTL, RenewFor, Grace    yes           yes              yes
//	MaxWait, MaxOutage      yes           no               no
//	Metadata, TokenSource   one of them   one of them      no
//	Reentrant, Owner        yes           yes              no
//	Shared, Slots           one of them   one of them      no
//
// # Safety
//
// No two locks of one name are held at the same time, unless both are shared or both have slots. A lock is held while
// [Lock.Err] is nil. This assumes two things:
//
//   - The clocks of the nodes and of this machine run at the same rate, within the drift. No node's clock is stepped
//     forward.
//   - No node forgets a key before its TTL ends. [pool.WithRestartGuard] covers restarts and failovers, but not
//     evictions.
//
// Work that is paused past the deadline may still write. Only the resource can reject that, by the number of the lock:
// see [WithFencing] and package fence. [Locker.ForceUnlock], [WithHeal], two [Locker.Attach] with one token and a
// [TokenSource] that repeats can also give a lock to two holders. See [safety].
//
// # Compatibility
//
// The servers are independent masters of Redis 6.2, Valkey 7.2 or newer, not a Redis Cluster. [Operations] has their
// permissions. A lock excludes every client of the Redlock recipe on the same nodes and keys. [Protocol] has the keys
// and values.
//
// [guide]: https://github.com/quorumlock/quorumlock/blob/main/docs/guide.md
// [safety]: https://github.com/quorumlock/quorumlock/blob/main/docs/safety.md
// [Operations]: https://github.com/quorumlock/quorumlock/blob/main/docs/operations.md
// [Protocol]: https://github.com/quorumlock/quorumlock/blob/main/docs/protocol.md
package redlock

// The files of the package:
//   - locker.go, options.go, lockoptions.go, request.go: a Locker, its options, and the arguments of a call
//   - kind.go: the kinds of locks
//   - acquire.go, repeat.go: one attempt, and its further rounds; wait.go, waiter.go: a call that waits
//   - together.go, locks.go: several names at once; all.go, joint.go: how a call takes them, and one round for them
//   - lock.go, token.go, extend.go, unlock.go, attach.go, loss.go, dropped.go: a lock that is held, and how it ended
//   - do.go, reentry.go: functions under a lock, and a lock that the caller holds already
//   - inspect.go, state.go, watch.go, force.go: questions about a lock, and its end by an operator
//   - errors.go, refusal.go: the errors
//   - outage.go, hopeless.go: waits that end because servers are away, or refuse for good
//   - round.go, events.go, observer.go, log.go, waits.go: what happens becomes events and lines of the log
