// Package redlock takes locks that survive the loss of a Redis server. It takes each lock on N independent Redis nodes
// at once, and a majority of them holds it.
//
//	locker, err := redlock.Open([]string{"redis://a:6379", "redis://b:6379", "redis://c:6379"})
//	...
//	defer locker.Close()
//	err = locker.Do(ctx, "invoice-4711", func(ctx context.Context, lock *redlock.Lock) error {
//		return bill(ctx) // ctx is cancelled when the lock is found lost
//	})
//
// [Locker.Do] waits for the lock, renews it while the function runs, and releases it; [Locker.TryDo] does not wait.
// [Locker.Lock] waits and returns a [Lock], [Locker.TryLock] does not wait. [Lock.Unlock] ends a Lock. A Lock also ends
// at its deadline, which [Lock.Extend] and [RenewFor] move, or when its Locker finds that the nodes no longer hold
// it. [Lock.Done] and [Lock.Context] notify the protected work. [Locker.Inspect] shows a lock, [Locker.Watch] each
// change of its holder. [Locker.Attach] returns a handle on a lock of another process. [Locker.ForceUnlock] removes a
// lock.
//
// # Terms
//
// A node is one Redis server. A round asks every node once. The node timeout limits the wait for one answer of one node
// (pool.WithTimeout, 300 ms by default). If the nodes have different timeouts, the longest counts.
//
// The deadline of a lock is the beginning of the last round that a majority confirmed, plus the TTL. The allowance for
// drift ([WithDrift]) and the [Grace] are subtracted from that. The validity is the time until the deadline. From the
// deadline on the lock is over. The nodes keep its key until the TTL ends. A Lock is a handle on a lock: with
// [Reentrant] one lock has several.
//
// # Options
//
// Options named With... are for [Open] and [New], and options of package pool for Open. The others are for a call, or
// for Open and New as the default of all calls. If an option is given twice, the last one counts; [WithObserver] adds
// up. A call returns [ErrInvalid] for an option that it has no use for. It ignores a default that it has no use for.
//
// 0 is zero: MaxWait(0) does not wait, RenewFor(0) does not renew, Grace(0) is no grace, MaxOutage(0) waits through no
// outage, WithLocalHandoff(0) hands nothing off. [NoLimit] is for ever.
//
//	                        Lock, Do                    TryLock, TryDo   Attach
//	TTL, RenewFor, Grace    yes                         yes              yes
//	MaxWait, MaxOutage      yes                         no               no
//	Metadata, TokenSource   one of them                 one of them      no
//	Reentrant, Owner        yes                         yes              no
//	Shared, Slots           one of them                 one of them      no
//
// LockAll, TryLockAll, DoAll and TryDoAll take the same options as Lock, TryLock, Do and TryDo, except Reentrant,
// Shared and Slots.
//
// # Safety
//
// No two locks of one name are held at the same time, unless both are shared locks ([Shared]) or both have slots
// ([Slots]). At most as many locks with slots are held as the highest number of slots that was given. A lock is held if
// Err of its Lock returns nil. This holds under two assumptions:
//
//   - The clocks of the nodes and of this machine run at the same rate, within the allowance of [WithDrift].
//   - No node forgets a key before its TTL is over.
//
// The program itself can break that. [Locker.ForceUnlock] and [WithHeal] delete keys of others. [Locker.Attach] may
// return a handle on a lock that another handle still holds. A [TokenSource] may return one token twice.
//
// The lock guarantees nothing beyond that:
//
//   - Err asks no node. If the keys of a lock are deleted, Err returns nil until the Locker notices that.
//   - A lock is a lease. Work that is paused past the deadline, after it checked Err and before it writes, writes
//     without the lock. Only a check by the written resource prevents that. [WithFencing] gives each holder a number
//     above the numbers of the holders before, [Lock.Fence], and package fence rejects lower ones.
//   - A node that restarted without its data has forgotten its locks. A node that failed over to a replica may have
//     forgotten some. If only 3 of 5 nodes hold the lock, a restart of one lets another caller acquire it.
//     [pool.WithRestartGuard] keeps such a node from voting until all that it may have forgotten has expired. Nothing
//     keeps a node that evicts keys from voting.
//   - If the clock of a node is stepped forward, its locks end early: Redis counts TTLs on the wall clock.
//   - Nodes must be independent masters.
//
// docs/safety.md explains the basis of each assumption, and which settings fit which situation. docs/operations.md
// explains how to run the nodes.
//
// # Compatibility
//
// On the nodes a lock is one key, which consists of the prefix and the name. Its value is the token. SET NX PX sets it,
// or a script until a connection has granted a lock. Scripts that compare the value extend and delete it. So the lock
// excludes, and is excluded by, every client that uses the Redlock recipe on the same nodes and key.
//
// With fencing the value is the token, | and the number, and a script sets it. The number comes from a second key, the
// counter {key}:fence (for example {invoice-4711}:fence), which stays for the time of [WithFenceTTL].
//
// While shared locks are held, the value is |shared, and a sorted set, {key}:sharers, has their tokens. While slots are
// held, the value is |slots, and another sorted set, {key}:slots, has the slot of each token. The sorted set
// {key}:wanted has an entry of each process that waits for one of them to end. Names that would make such keys are
// refused.
//
// A token is opaque. It begins with a part that is the same for all locks of a Locker, and ends with the text of
// [Metadata].
//
// The server must be Redis 6.2 or newer, Valkey 7.2 or newer, or compatible. docs/operations.md lists the commands as
// ACL rules. It says for each what the Locker needs it for, and what happens if it is not permitted.
package redlock

// The files of the package:
//   - locker.go, options.go, lockoptions.go, request.go: a Locker, its options, and the arguments of a call
//   - kind.go: the kinds of locks
//   - acquire.go, repeat.go: one attempt, and its further rounds; wait.go, waiter.go: a call that waits
//   - together.go, locks.go: several names at once; all.go, joint.go: how a call takes them, and one round for them
//   - lock.go, token.go, extend.go, unlock.go, attach.go, loss.go: a lock that is held, and how it ended
//   - do.go, reentry.go: functions under a lock, and a lock that the caller holds already
//   - inspect.go, state.go, watch.go, force.go: questions about a lock, and its end by an operator
//   - errors.go, refusal.go: the errors
//   - outage.go, hopeless.go: waits that end because servers are away, or refuse for good
//   - round.go, events.go, observer.go, log.go, waits.go: what happens becomes events and lines of the log
