// Package redlock takes locks that survive the loss of a Redis server: each lock is
// taken on N independent Redis nodes at once and held by a majority of them.
//
//	nodes, err := pool.Open([]string{"redis://a", "redis://b", "redis://c"})
//	...
//	locker, err := redlock.New(nodes)
//	...
//	err = locker.Do(ctx, "invoice-4711", func(ctx context.Context, lock *redlock.Lock) error {
//		return bill(ctx) // ctx ends at once if the lock is lost
//	})
//
// [Locker.Do] waits for the lock, renews it while the function runs, and releases it. [Locker.Lock] waits and returns a
// [Lock], [Locker.TryLock] asks once. A Lock ends with [Lock.Unlock], at its deadline unless [Lock.Extend] or
// [AutoExtend] moved that, or when it turns out that the nodes do not hold it any more; [Lock.Done] and
// [Lock.Context] tell the work that it protects. [Locker.Inspect] looks, [Locker.Attach] takes up what another process
// holds, [Locker.ForceUnlock] frees it.
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
//     helps against that: [WithFencing] gives each holder a number above those of the holders before, [Lock.Fence], and
//     package fence refuses lower ones.
//   - A node that restarted without its data has forgotten its locks. Where a lock sits on
//     a bare majority, one such restart makes a second holder possible. [pool.WithRestartGuard] keeps such a node from
//     voting until what it may have forgotten is over. A node that forgets without a restart (eviction, FLUSHALL) it does not see.
//   - A clock of a node that is stepped forward ends its locks early: Redis counts TTLs on the wall clock.
//   - Nodes must be independent masters. A failover to a replica is a node that forgets.
//   - It is fair among those who wait in one Locker, which get it in their order. Processes take turns as far as the servers let them
//     tell each other (pub/sub) and of changes (CLIENT TRACKING); beside other clients, any may be next.
//
// docs/safety.md says what each assumption rests on and which settings fit which situation, docs/operations.md how to run the nodes.
//
// # Compatibility
//
// On the nodes a lock is one key, prefix and name, whose value is the token. It is set
// with SET NX PX, deleted and prolonged by scripts that compare the value. So it
// excludes, and is excluded by, every client that uses the Redlock recipe on the same
// nodes and key. With fencing the value is the token, | and the number, and is set by a script. The number is from a second
// key, the counter {key}:fence ({invoice-4711}:fence, say), which stays for as long as [WithFenceTTL] says.
//
// A token is opaque. It begins with a part that is the same for all locks of a Locker, and ends with the text of [Metadata].
//
// The server must be Redis 5 or newer, or speak like it. The commands used are SET,
// EVALSHA, EVAL (with GET, SET, DEL, PTTL and PEXPIRE inside, with fencing also INCR, INCRBY, DECR and TIME), PING, and, where permitted,
// INFO, CLIENT ID and CLIENT KILL; AUTH, SELECT and CLIENT SETNAME where a URL or an option asks for them. Those who wait
// use, where permitted, CLIENT TRACKING and CLIENT CACHING (Redis 6), SUBSCRIBE to __redis__:invalidate and to a channel
// whose name begins with quorumlock:, UNSUBSCRIBE, and PUBLISH to such channels. docs/operations.md has the ACL rules for all that.
package redlock
