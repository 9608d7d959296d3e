// Package fence is the resource's side of fencing tokens: it refuses the late write of a holder that has lost its lock without noticing.
//
// # What a fencing token is for
//
// A lock from a lock service is a lease. Its holder may be paused (garbage collection, swapping, a suspended machine)
// between looking at the lock and writing, for longer than the lease lasts. Meanwhile another one gets the lock and writes,
// and the first goes on where it was: its write comes too late, and the lock cannot prevent that. What it wrote to can. Each
// holder has a fencing token, a number higher than that of every holder before it, and sends it along with each write. The
// resource keeps the highest token that it has seen, and refuses every write with a lower one (Martin Kleppmann, How to do
// distributed locking, https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html).
//
// A token is a number from 1 to 2^53-1. 0 stands for a lock that was taken without fencing; every function refuses it. The same token
// passes any number of times: it is the same holder.
//
// Tokens of one resource must all come from one lock. And every write to the resource must go through the fence: one without
// it overwrites as ever.
//
// # Which form to take
//
// The check and the write must be one step, so the highest token is kept where the write goes:
//
//   - Redis: [Run] for a list of commands, a [Script] for Lua of your own, [Transact] around WATCH, MULTI and EXEC.
//   - PostgreSQL, MySQL, MariaDB, SQLite: [Table.Pass] within the transaction of the writes, whatever they are; [Updated]
//     for a single UPDATE of a row that has a column for the token, or a version.
//   - Memory of this process: a [Gate].
//
// Every form returns [ErrStale] to a holder whose token is too low, and has written nothing then. Other storage needs a
// conditional write of its own, such as If-Match; [CheckToken] and [StaleError] are for it too.
//
// A fence does not make a write atomic, and does not exclude: two writes with the same token, or one with a higher token in
// the middle of the work of a lower one, pass. What a holder had written before the next one came stays. So the next holder
// must be able to go on from work that is half done.
//
// # Redis
//
// The highest token is a decimal number in a guard key, one per resource. The key is written and read by the master that
// executes the writes.
//
//   - It has no TTL: once it was gone, the token of any earlier holder would pass. Nobody knows how long the pause of such a holder lasts.
//   - It must not be evicted either. Of the server's maxmemory policies, noeviction and the volatile ones leave keys without
//     a TTL alone; the allkeys ones do not.
//   - On Redis Cluster it must be in the slot of the keys that are written, so it shares their hash tag: "{account-7}:fence"
//     beside "{account-7}:balance".
//   - A failover or a restart that loses the latest writes loses the tokens that came with them, too. Then what the newer
//     holder wrote is gone, and an earlier holder may write again. WAIT, or appendfsync always, make that less likely.
//
// Redis takes nothing back. A command that fails leaves those before it done (in [Transact], those behind it too), and the token raised.
// A reply that is lost leaves open whether anything was done.
//
// # SQL
//
// The highest token is a row of a guard table, or a column of what is written. Either is locked from the check to the end of
// the transaction, at every isolation level: who comes with a higher token waits for the commit of the lower one, and who
// comes with a lower token waits and is refused. At REPEATABLE READ and above PostgreSQL refuses the one who waited with a
// serialization failure (SQLSTATE 40001), whose transaction may be tried again.
//
// A rollback takes back the raised token together with what was written. A commit whose reply is lost leaves open whether both were done.
package fence
