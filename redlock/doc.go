// Package redlock takes locks that survive the loss of a Redis server: each lock is
// taken on N independent Redis nodes at once and held by a majority of them.
//
//	nodes, err := pool.Open([]string{"redis://a", "redis://b", "redis://c"})
//	...
//	locker, err := redlock.New(nodes)
//	...
//	lock, err := locker.Lock(ctx, "invoice-4711")
//	if err != nil {
//		return err
//	}
//	defer lock.Unlock(ctx)
//
// [Locker.TryLock] asks once, [Locker.Lock] until it holds the lock or its context
// ends. A [Lock] ends with [Lock.Unlock], at its deadline unless [Lock.Extend] moved
// that, or when it turns out that the nodes do not hold it any more; [Lock.Done] and
// [Lock.Context] tell the work that it protects.
//
// # Safety
//
// While the clocks of the nodes and of this machine run at the same rate within the
// allowance of [WithDrift], and no node forgets a key before its TTL is over, no two
// Locks of one name are held at the same time: held means that Err is nil.
//
// The lock does not guarantee more than that:
//
//   - It is a lease. Work that was paused past the deadline, between looking at Err and
//     writing, writes without the lock. Only a check on the side of what is written
//     helps against that.
//   - A node that restarted without its data has forgotten its locks. Where a lock sits on
//     a bare majority, one such restart makes a second holder possible.
//   - Nodes must be independent masters. A failover to a replica is a node that forgets.
//   - It is not fair: of several that wait, any may be next.
//
// # Compatibility
//
// On the nodes a lock is one key, prefix and name, whose value is the token. It is set
// with SET NX PX, deleted and prolonged by scripts that compare the value. So it
// excludes, and is excluded by, every client that uses the Redlock recipe on the same
// nodes and key.
//
// The server must be Redis 5 or newer, or speak like it. The commands used are SET,
// EVALSHA, EVAL (with GET, DEL, PTTL and PEXPIRE inside), PING, and, where permitted,
// INFO, CLIENT ID and CLIENT KILL.
package redlock
