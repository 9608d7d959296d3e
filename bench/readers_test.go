package bench_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/internal/subject"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

const (
	// readersHold is for how long each reader of V has the lock, at least.
	readersHold = 20 * time.Millisecond
	// readersPause is for how long V lets the readers alone before a writer comes.
	readersPause = 3 * readersHold
)

// BenchmarkU_Readers is 64 callers that keep 64 or 1,024 locks held together: each takes one and gives back the one that it has had for the
// longest. The readers' are all of one name, the others of a name each.
func BenchmarkU_Readers(b *testing.B) {
	for _, inside := range []int{64, 1024} {
		b.Run(fmt.Sprintf("inside=%d", inside), func(b *testing.B) {
			each(b, subject.Named("quorumlock", "quorumlock-lock", "quorumlock-read"), 5, func(b *testing.B, s subject.Subject, servers []*testredis.Process) {
				client := open(b, s, servers, manyCallers, ampleTimeout)
				shared := s.Name == "quorumlock-read"
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
				callers.measure(b)
			})
		})
	}
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
// it has the lock, in units of the time for which they have it (p50-holds, p99-holds, max-holds). The writer is one of their process, or
// of another. Most of ns/op is the time in which it does not want the lock; reads/s counts that too.
func BenchmarkV_WriterAmongReaders(b *testing.B) {
	servers := testredis.Real(b, 5)
	readers, writers := subject.Named("quorumlock-read")[0], subject.Named("quorumlock-lock")[0]
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
			b.ReportMetric(float64(stop(b))/b.Elapsed().Seconds(), "reads/s")
			for _, percent := range []int{50, 99, 100} {
				b.ReportMetric(waits.percentile(percent)/float64(readersHold.Microseconds()), fmt.Sprintf("p%d-holds", percent))
			}
		})
	}
}

// read lets readers come and go until stop is called, which returns how many have read.
func read(client subject.Client) (stop func(b *testing.B) int) {
	var running sync.WaitGroup
	each, over := make([]tally, manyCallers), make(chan struct{})
	for i := range each {
		reader := client.Caller(hotName)
		running.Go(func() {
			<-time.After(readersHold * time.Duration(i) / manyCallers) // out of step
			for {
				err := reader.Acquire(ctx)
				if err == nil {
					<-time.After(readersHold)
					err = reader.Release(ctx)
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
	return func(b *testing.B) int {
		close(over)
		running.Wait()
		sum := tally{}
		for _, t := range each {
			sum = sum.plus(t)
		}
		assert.NoError(b, sum.failure)
		return sum.cycles
	}
}
