// Package redlocktest makes Lockers for the unit tests of programs that use package redlock. Their nodes are in memory.
// A test can stop nodes and take locks away, and in a bubble of testing/synctest it can move time.
//
//	func TestBiller_StopsWhenTheLockIsLost(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			cluster := redlocktest.New(t)
//			biller := Biller{cluster.Locker(), sendForTenMinutes}
//			billed := make(chan error, 1)
//			go func() { billed <- biller.Bill(t.Context(), "2026-01") }()
//
//			cluster.Advance(time.Minute)      // the lock is renewed
//			cluster.Steal("bill-2026-01")     // by another process
//			cluster.Advance(10 * time.Second) // a renewal finds that
//			if err := <-billed; !errors.Is(err, redlock.ErrLost) {
//				t.Fatal(err)
//			}
//		})
//	}
//
// The rest of this program and more tests of it are in program_test.go.
//
// A [Cluster] is three Redis servers (miniredis) and everything that tests do to them. [Cluster.Locker] makes a real
// Locker: each stands for one process. Everything ends with the test. All connections are in memory.
//
// These Lockers write no log. To see it in the output of the test, pass
// redlock.WithLogger(slog.New(slog.NewTextHandler(t.Output(), nil))).
//
// # Time
//
// A Cluster that is made in a bubble has the time of the bubble, like the timers and contexts of the program. It uses
// that time for leases, the TTLs of keys, renewals and the servers' clocks. [Cluster.Advance] moves it. A lock with
// RenewFor is held after any Advance, and a lock without it has ended after its TTL. That is so on every machine and
// under any load.
//
// Outside a bubble a Cluster lives in real time, and Advance ends the test. Everything else works, so a test that moves
// no time needs no bubble. A Cluster and its Lockers cannot be used across the border of a bubble: a call of a Locker
// that was made outside hangs. Make both where they are used. A program that still runs at the end of a bubble makes
// synctest panic: end its context, and wait for it.
//
// # Waiting
//
// These servers do not announce changes. So a Lock that waits polls, with pauses of up to 200 ms by default. Longer
// pauses speed up a test that waits for minutes: redlock.WithBackoff(10*time.Second, 30*time.Second). If
// [Cluster.Delete] or [Cluster.Steal] has taken away a lock with RenewFor, that lock is lost at its next renewal. This
// comes a third of its TTL later at most.
//
// # Limits
//
// The nodes are not Redis servers. They have no CLIENT TRACKING, do not say which server they are
// (pool.WithRestartGuard lets none of them vote), and share one clock, so nothing drifts. A node answers or is down;
// none hangs or is slow. If tests pass here, that shows how the program uses its locks. It proves nothing about the
// safety of a deployment or about latency: use real servers for that.
package redlocktest
