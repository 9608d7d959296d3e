// Package redlock takes locks that survive the loss of a Redis server: each lock is taken on N independent Redis nodes at
// once and held by a majority of them.
//
//	locker, err := redlock.Open([]string{"redis://a:6379", "redis://b:6379", "redis://c:6379"})
//	...
//	defer locker.Close()
//	err = locker.Do(ctx, "invoice-4711", func(ctx context.Context, lock *redlock.Lock) error {
//		return bill(ctx) // ctx is cancelled when the lock is found lost
//	})
//
// [Locker.Do] waits for the lock, renews it while the function runs, and releases it; [Locker.TryDo] does not wait.
// [Locker.Lock] waits and returns a [Lock], [Locker.TryLock] asks once. A Lock ends with [Lock.Unlock]; at its deadline,
// unless [Lock.Extend] or [AutoExtend] moved that; or when it is found that the nodes no longer hold it.
// [Lock.Done] and [Lock.Context] notify the protected work. [Locker.Inspect] shows a lock, [Locker.Watch] each change of its holder.
// [Locker.Attach] takes up a lock of another process, [Locker.ForceUnlock] removes a lock.
//
// # Terms
//
// A node is one Redis server. A round asks every node once. The node timeout bounds the wait for one answer of one node
// (pool.WithTimeout, 300 ms by default; of different ones the longest counts).
//
// The deadline of a lock is the beginning of the last round that a majority confirmed, plus the TTL, less the allowance for drift
// ([WithDrift]), less the [Grace]. The validity is the time until then, and a lock is over from then on. The nodes keep its key
// until the TTL ends. A Lock is a handle on a lock: with [Reentrant] there are several on one.
//
// # Options
//
// [Open] and [New] take options named With..., and as defaults of their locks those of type [DefaultOption]. Of an option that is
// given twice the last one counts; [WithObserver] and [WithPoolOptions] add up. An option that a call has no use for is
// [ErrInvalid]; a default that it has no use for is ignored.
//
//	                        Lock, Do                    TryLock, TryDo   Attach
//	TTL, Grace              yes                         yes              yes
//	MaxHold                 with AutoExtend, or in Do   likewise         with AutoExtend
//	MaxWait, MaxOutage      yes                         no               no
//	Metadata, TokenSource   one of them                 one of them      no
//	AutoExtend              yes; Do implies it          likewise         yes
//	Reentrant, Owner        yes                         yes              no
//	Shared, Slots           one of them                 one of them      no
//
// LockAll, TryLockAll, DoAll and TryDoAll are as Lock, TryLock, Do and TryDo, without Reentrant, Shared and Slots.
//
// # Safety
//
// While the clocks of the nodes and of this machine run at the same rate within the allowance of [WithDrift], and no node
// forgets a key before its TTL is over, no two Locks of one name are held at the same time, unless both are shared
// locks ([Shared]) or both have slots ([Slots]). Of these at most as many are held as the highest number of slots that was given. A
// Lock is held if Err returns nil.
//
// The program itself can break that: with [Locker.ForceUnlock] and [WithHeal], which delete keys of others, with [Locker.Attach] to a
// lock that another handle still holds, and with a [TokenSource] that returns one token twice.
//
// The lock does not guarantee more than that:
//
//   - Err asks no node. If the keys of a lock are deleted, it is nil until that is noticed.
//   - It is a lease. Work that is paused past the deadline, after it looked at Err and before it writes, writes without
//     the lock. Only a check by the written resource prevents that: [WithFencing] gives each holder a number above
//     those of the holders before, [Lock.Fence], and package fence rejects lower ones.
//   - A node that restarted without its data has forgotten its locks, and so may one that failed over to a replica. If only 3
//     of 5 nodes hold the lock, restarting one lets someone else acquire it. [pool.WithRestartGuard] keeps such a node from
//     voting until all that it may have forgotten has expired. Nothing keeps a node from voting that evicts keys.
//   - A clock of a node that is stepped forward ends its locks early: Redis counts TTLs on the wall clock.
//   - Nodes must be independent masters.
//
// docs/safety.md explains what each assumption rests on and which settings fit which situation, docs/operations.md how to run
// the nodes.
//
// # Compatibility
//
// On the nodes a lock is one key, prefix and name, whose value is the token. It is set with SET NX PX, by a script until a
// connection has granted a lock, and deleted and extended by scripts that compare the value. So it excludes, and is excluded by, every client that uses the Redlock recipe on
// the same nodes and key. With fencing the value is the token, | and the number, and is set by a script. The number comes from
// a second key, the counter {key}:fence (for example {invoice-4711}:fence), which stays for the time of [WithFenceTTL]. While shared
// locks are held, the value is |shared, and their tokens are in a sorted set, {key}:sharers. With slots the value is |slots, and another
// sorted set, {key}:slots, has the slot of each token. A writer that waits for either sets {key}:wanted. Names that would make such
// keys are refused.
//
// A token is opaque. It begins with a part that is the same for all locks of a Locker, and ends with the text of [Metadata].
//
// The server must be Redis 6.2 or newer, Valkey 7.2 or newer, or compatible. docs/operations.md has the commands that are used, as ACL
// rules, with what each is for and what happens if it is not permitted.
package redlock
