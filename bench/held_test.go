//go:build unix

package bench_test

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	// heldEnv is how many locks J and L hold, where it is set: as many as the page tells of are too many for a moment's test.
	heldEnv = "QUORUMLOCK_BENCH_HELD"
	heldFew = 200
	// heldTTL is that of each in J, heldLongTTL in L; they are renewed when a third of it is over.
	heldTTL     = 9 * time.Second
	heldLongTTL = 30 * time.Second
)

// BenchmarkJ_Held is many locks that one Locker holds, and renews every 3 s (renewals/s): what that takes of one core (core-%),
// the servers' part left out, what the program keeps for each on its heap (heap-B/lock), and how many are lost (lost). Only
// quorumlock renews by itself. An iteration is 3 s.
func BenchmarkJ_Held(b *testing.B) { holding(b, heldTTL) }

// BenchmarkL_HeldLong is J with a TTL of 30 s, and iterations of 10 s: few locks take that of J.
func BenchmarkL_HeldLong(b *testing.B) {
	if _, many := os.LookupEnv(heldEnv); many {
		holding(b, heldLongTTL)
	} else {
		holding(b, heldTTL)
	}
}

func holding(b *testing.B, ttl time.Duration) {
	b.Run("subject=quorumlock/nodes=5", func(b *testing.B) {
		period := ttl / 3
		servers := testredis.Real(b, 5)
		held, before := hold(b, servers, heldLocks(b), ttl)
		<-time.After(period / 2) // the window ends between two renewals
		// Each renewal sets the expiry of a key, which nothing else does.
		renewed, used, begin := commandCalls(b, servers, "pexpire"), cpuTime(b), time.Now()
		pass(b, period)
		used, elapsed := cpuTime(b)-used, time.Since(begin)
		renewed = commandCalls(b, servers, "pexpire") - renewed
		heap := liveHeap() - before
		lost := len(held) - min(stillHeld(held), onMajorities(b, servers))
		assert.Zero(b, lost, "locks are lost")
		require.NotZero(b, renewed)
		b.ReportMetric(float64(len(held)), "locks")
		b.ReportMetric(ttl.Seconds(), "ttl-s")
		b.ReportMetric(100*used.Seconds()/elapsed.Seconds(), "core-%")
		b.ReportMetric(float64(renewed)/float64(len(servers))/elapsed.Seconds(), "renewals/s")
		b.ReportMetric(heap/float64(len(held)), "heap-B/lock")
		b.ReportMetric(float64(lost), "lost")
	})
}

func heldLocks(b *testing.B) int {
	text, ok := os.LookupEnv(heldEnv)
	if !ok {
		return heldFew
	}
	n, err := strconv.Atoi(text)
	require.NoError(b, err, heldEnv)
	return n
}

// hold takes n locks with one Locker, and returns what the live heap was before. Their renewals end with the
// benchmark, and so do the servers.
func hold(b *testing.B, servers []*testredis.Process, n int, ttl time.Duration) (locks []*redlock.Lock, heap float64) {
	b.Helper()
	nodes, err := pool.Open(testredis.URLs(servers), pool.WithTimeout(ampleTimeout))
	require.NoError(b, err)
	b.Cleanup(func() {
		for _, node := range nodes {
			assert.NoError(b, node.Close())
		}
	})
	locker, err := redlock.New(nodes)
	require.NoError(b, err)
	b.Cleanup(func() { assert.NoError(b, locker.Close()) })

	locks = make([]*redlock.Lock, n)
	take := func(i int) (err error) {
		locks[i], err = locker.TryLock(ctx, "bench-"+strconv.Itoa(i), redlock.TTL(ttl), redlock.RenewFor(redlock.NoLimit))
		return err
	}
	noneFails(b, min(n, heldFew), take) // connects, and grows what stays
	noneFails(b, min(n, heldFew), func(i int) error { return locks[i].Unlock(ctx) })
	clear(locks)
	heap = liveHeap()
	noneFails(b, n, take)
	return locks, heap
}

// liveHeap returns how many bytes are in use after a collection. What pools keep is gone after the second.
func liveHeap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// noneFails divides n calls among many goroutines. It fails the benchmark with the first error of any.
func noneFails(b *testing.B, n int, call func(i int) error) {
	b.Helper()
	failures := make([]error, min(n, manyCallers))
	var working sync.WaitGroup
	for first := range failures {
		working.Go(func() {
			for i := first; i < n && failures[first] == nil; i += len(failures) {
				failures[first] = call(i)
			}
		})
	}
	working.Wait()
	for _, err := range failures {
		require.NoError(b, err)
	}
}

// stillHeld returns how many locks are not over for their holder.
func stillHeld(locks []*redlock.Lock) (n int) {
	for _, lock := range locks {
		if lock.Err() == nil {
			n++
		}
	}
	return n
}

// onMajorities returns how many keys most of the servers have.
func onMajorities(b *testing.B, servers []*testredis.Process) (n int) {
	b.Helper()
	having := map[string]int{}
	for _, server := range servers {
		keys, err := redis.Strings(server.Do("KEYS", "*"))
		require.NoError(b, err)
		for _, key := range keys {
			if having[key]++; having[key] == len(servers)/2+1 {
				n++
			}
		}
	}
	return n
}

// cpuTime returns how long the process has been on a core, in user mode and in the kernel.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
