// Package fence checks fencing tokens at the resource that a lock protects. It rejects the late write of a
// holder that has lost its lock without noticing.
//
// # What a fence is for
//
// A lock that expires is a lease. Its holder can be paused (garbage collection, swapping, a suspended machine) between
// checking the lock and writing, for longer than the lease lasts. Another holder then takes the lock and writes, and
// the first one overwrites that when its pause ends. No lock can prevent this, but the resource can: each lock has a
// fencing token, a number above that of every earlier holder. The holder sends its number with each write. The resource
// rejects a number below the highest one that it has accepted (Martin Kleppmann, How to do distributed locking,
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html).
//
// This package calls that number the fence. Lock.Fence of package redlock returns it if the Locker has
// WithFencing. It is from 1 to 2^53-1. 0 is the fence of a lock without fencing, and is [ErrInvalid] here.
// Lock.Token is something else: random text without order, which identifies a lock on the nodes.
//
// # The check
//
// The check is the same everywhere. If the fence is at least the highest one accepted for the resource, it is
// stored as the highest, and the write runs. Otherwise the call returns an error that matches [ErrStale], and
// nothing is written. One holder may write any number of times, since the same fence passes again.
//
// The check and the write must be one step, so the highest fence is stored where the write goes:
//
//   - Redis: [Run] for a list of commands, a [Script] for Lua of your own, [Transact] for WATCH, MULTI and
//     EXEC.
//   - PostgreSQL, MySQL, MariaDB, SQLite: [Table.Check] in the transaction of the writes. Or [CheckUpdated] for a
//     single UPDATE of a row that has a column for the fence, or a version.
//   - Memory of this process: a [Gate].
//
// Other storage needs a conditional write, such as If-Match. Call [Valid] before it, and return a [StaleError] if the
// write is rejected.
//
// Three rules make the check worth something:
//
//   - All fences for one resource come from one lock.
//   - Every write goes through the check. A write without it overwrites as before.
//   - A read that a later write depends on goes through the check too. Otherwise an earlier holder can
//     still write between this holder's read and its write.
//
// The check does not make work atomic and does not exclude anybody. Two writes with the same fence pass, and so does a
// higher fence in the middle of the work of a lower one. The earlier writes of a holder stay when the next holder
// comes. So the next holder must be able to continue from work that is half done.
//
// # Redis
//
// The highest fence is stored as a decimal number in a guard key, one for each resource, on the master that
// executes the writes.
//
//   - Its name must not be that of another key. A name like "{name}:fence" is [ErrInvalid]: package redlock
//     keeps the counter of a lock there, with a TTL. The examples use "account-7:guard".
//   - It has no TTL. Without the key the fence of any earlier holder would pass, and nobody knows how long that holder
//     is paused. So a guard key that has a TTL is [ErrGuard], until somebody has looked at it: PERSIST keeps it, with
//     the fence that it holds.
//   - It holds a fence. Another string is [ErrGuard] too; data of another type is the server's WRONGTYPE.
//   - It must not be evicted. The maxmemory policies noeviction and volatile-* keep keys without a TTL;
//     allkeys-* do not.
//   - On Redis Cluster it must be in the slot of the keys that are written, so it shares their hash tag:
//     "{account-7}:guard" beside "{account-7}:balance".
//   - A failover or a restart that loses the latest writes also loses their fences. Then an earlier holder
//     may write again. WAIT, or appendfsync always, make that less likely.
//
// Redis has no rollback. If a command fails, the commands before it stay done, and the fence stays stored. With
// [Transact] the commands after it are done too. If a reply is lost, all may have been done or nothing.
//
// # SQL
//
// The highest fence is a row of a guard table, or a column of the row that is written. That row is locked from the
// check to the end of the transaction, at every isolation level. A higher fence waits for the commit of a lower one and
// then passes; a lower fence waits and is rejected. At REPEATABLE READ and above, PostgreSQL rejects the transaction
// that waited with a serialization failure (SQLSTATE 40001): try that transaction again. A holder that is paused within
// its transaction makes all others wait, whatever its TTL. Let the database end such a transaction
// (idle_in_transaction_session_timeout of PostgreSQL).
//
// A rollback takes back the fence together with the writes. If the reply to a commit is lost, both were
// done or neither.
package fence
