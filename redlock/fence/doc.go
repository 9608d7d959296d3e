// Package fence checks fencing tokens at the resource that a lock protects. It rejects the late write of a holder that
// has lost its lock without noticing.
//
//	_, err := fence.Run(ctx, do, "account-7:guard", lock.Fence(), fence.Command{"SET", fence.Key("account-7"), 100})
//
// # What a fence is for
//
// A holder can be paused between its last look at the lock and its write, for longer than the lock lasts. Another
// holder then writes, and the first one overwrites that. No lock can prevent this, but the resource can (Martin
// Kleppmann, How to do distributed locking,
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html). Each lock has a number above the number
// of every earlier holder, its fence, which goes with each write. The resource rejects a number below the highest one
// that it has accepted.
//
// A fence is from 1 to 2^53-1: Lock.Fence of package redlock, if the Locker has WithFencing. 0 is [ErrInvalid].
//
// # The check
//
// A fence passes if it is at least the highest one accepted for the resource, and is then the highest. Otherwise the
// error matches [ErrStale], and nothing is written. The check and the write are one step:
//
//   - Redis: [Run] for commands, a [Script] for your own Lua, [Transact] for WATCH and MULTI.
//   - PostgreSQL, MySQL, MariaDB, SQLite: [Table.Check] in the transaction, or [CheckUpdated] for one UPDATE.
//   - Memory of this process: a [Gate].
//   - Other storage: [Valid], a conditional write such as If-Match, and a [StaleError] if it is rejected.
//
// All fences for one resource come from one lock. Every write goes through the check, and every read that a later write
// depends on. Earlier writes of a holder stay: the next one must be able to continue from work that is half done.
//
// # Redis
//
// A guard key holds the highest fence, one for each resource, on the master that executes the writes. It has a name of
// its own, not "{name}:fence", and on Redis Cluster the hash tag of the data. It has no TTL and is not evicted, because
// without the key any earlier fence would pass. A guard key with a TTL is [ErrGuard]. A failover or a restart that
// loses writes loses their fences too.
//
// If a command fails, the commands before it stay done, and the fence stays stored. If a reply is lost, all may have
// been done or nothing.
//
// # SQL
//
// A row holds the highest fence, and is locked until the transaction ends. A rollback takes back the fence too. A
// holder that is paused in its transaction makes the others wait: let the database end it.
//
// https://github.com/quorumlock/quorumlock/blob/main/docs/fencing.md has more.
package fence
