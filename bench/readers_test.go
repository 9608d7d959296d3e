//go:build unix

package bench_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/internal/subject"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

const (
	// readersHold is for how long each reader of V wants to have the lock.
	readersHold = 20 * time.Millisecond
	// readersPause is for how long V lets the readers alone before a writer comes.
	readersPause = 3 * readersHold
)

// BenchmarkU_Readers is 64 callers that keep 64 or 1,024 locks held together: each takes one and gives back the one that it has had for the
// longest. The readers' are all of one name, the others of a name each. Beside cycles/s it has for how long a cycle keeps a core busy, in
// the callers' process (cpu-µs/cycle) and in the servers (servers-µs/cycle): they say what the rate is on a machine that does nothing else.
func BenchmarkU_Readers(b *testing.B) {
	for _, inside := range []int{64, 1024} {
		b.Run(fmt.Sprintf("inside=%d", inside), func(b *testing.B) {
			each(b, subject.Named("quorumlock", "quorumlock-lock", "quorumlock-shared"), 5, func(b *testing.B, s subject.Subject, servers []*testredis.Process) {
				client := open(b, s, servers, manyCallers, ampleTimeout)
				shared := s.Name == "quorumlock-shared"
				callers := make(crowd, manyCallers)
				for i := range callers {
					callers[i] = keep(b, client, inside/manyCallers, func(j int) string {
						if shared {
							return hotName
						}
						return fmt.Sprintf("bench-%d-%d", i, j)
					})
				}
				require.NoError(b, callers.cycles(10))
				used, theirs := cpuTime(b), serverTime(b, servers)
				made := callers.measure(b)
				used, theirs = cpuTime(b)-used, serverTime(b, servers)-theirs
				b.ReportMetric(float64(used)/float64(time.Microsecond)/float64(made.cycles), "cpu-µs/cycle")
				b.ReportMetric(float64(theirs)/float64(time.Microsecond)/float64(made.cycles), "servers-µs/cycle")
			})
		})
	}
}

var usedCPU = regexp.MustCompile(`(?m)^used_cpu_(?:sys|user):([\d.]+)`)

// serverTime returns for how long all servers together have been on a core.
func serverTime(b *testing.B, servers []*testredis.Process) (all time.Duration) {
	b.Helper()
	for _, server := range servers {
		info, err := redis.String(server.Do("INFO", "cpu"))
		require.NoError(b, err)
		for _, used := range usedCPU.FindAllStringSubmatch(info, -1) {
			seconds, err := strconv.ParseFloat(used[1], 64)
			require.NoError(b, err)
			all += time.Duration(seconds * float64(time.Second))
		}
	}
	return all
}

// keeper is a Caller that gives back the lock which it has had for the longest.
type keeper struct {
	slots []subject.Caller // all but the next one have a lock
	next  int
}

// keep returns a keeper of n locks.
func keep(b *testing.B, client subject.Client, n int, name func(i int) string) *keeper {
	k := &keeper{slots: make([]subject.Caller, n+1)}
	for i := range k.slots {
		k.slots[i] = client.Caller(name(i))
		if i < n {
			require.NoError(b, k.slots[i].Acquire(ctx))
		}
	}
	k.next = n
	b.Cleanup(func() {
		for i, slot := range k.slots {
			if i != k.next {
				assert.NoError(b, slot.Release(ctx))
			}
		}
	})
	return k
}

func (k *keeper) Acquire(ctx context.Context) error { return k.slots[k.next].Acquire(ctx) }

func (k *keeper) Release(ctx context.Context) error {
	k.next = (k.next + 1) % len(k.slots)
	return k.slots[k.next].Release(ctx)
}

// BenchmarkV_WriterAmongReaders is a writer of a name that 64 readers have for 20 ms each, again and again without a pause: how long until
// it has the lock, in units of the mean time for which they have it (p50-holds, p99-holds, p100-holds; hold-ms is longer than 20 ms on a
// busy machine). The writer is one of their process, or of another. Most of ns/op is the time in which it does not want the lock; reads/s
// counts that too.
func BenchmarkV_WriterAmongReaders(b *testing.B) {
	servers := testredis.Real(b, 5)
	readers, writers := subject.Named("quorumlock-shared")[0], subject.Named("quorumlock-lock")[0]
	for _, where := range []string{"same", "other"} {
		b.Run("subject=quorumlock/nodes=5/process="+where, func(b *testing.B) {
			addrs := empty(b, servers)
			reading := openAt(b, readers, addrs, manyCallers, ampleTimeout)
			writing, ok := reading.(subject.Writers)
			require.True(b, ok)
			writer := writing.Writer(hotName)
			if where == "other" {
				writer = openAt(b, writers, addrs, 1, ampleTimeout).Caller(hotName)
			}
			warm(b, writer, 10)
			stop := read(reading)
			waits := newLatencies()
			for b.Loop() {
				<-time.After(readersPause)
				assert.NoError(b, waits.acquire(writer))
			}
			reads, hold := stop(b)
			b.ReportMetric(float64(reads)/b.Elapsed().Seconds(), "reads/s")
			b.ReportMetric(milliseconds(hold), "hold-ms")
			for _, percent := range []int{50, 99, 100} {
				b.ReportMetric(waits.percentile(percent)*float64(time.Microsecond)/float64(hold), fmt.Sprintf("p%d-holds", percent))
			}
		})
	}
}

// read lets readers come and go until stop is called, which returns how many have read, and for how long they had the lock on average.
func read(client subject.Client) (stop func(b *testing.B) (reads int, hold time.Duration)) {
	var running sync.WaitGroup
	each, over := make([]tally, manyCallers), make(chan struct{})
	held := make([]time.Duration, manyCallers)
	for i := range each {
		reader := client.Caller(hotName)
		running.Go(func() {
			<-time.After(readersHold * time.Duration(i) / manyCallers) // out of step
			for {
				err := reader.Acquire(ctx)
				if err == nil {
					begin := time.Now()
					<-time.After(readersHold)
					err = reader.Release(ctx)
					held[i] += time.Since(begin)
				}
				each[i].add(err)
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	return func(b *testing.B) (reads int, hold time.Duration) {
		close(over)
		running.Wait()
		sum := tally{}
		for i, t := range each {
			sum = sum.plus(t)
			hold += held[i]
		}
		require.NoError(b, sum.failure)
		require.NotZero(b, sum.cycles)
		return sum.cycles, hold / time.Duration(sum.cycles)
	}
}
