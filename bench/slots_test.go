//go:build unix

package bench_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/internal/subject"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// slotsHold is for how long each caller of W has what it has got.
const slotsHold = 5 * time.Millisecond

// BenchmarkW_Slots is 64 callers of one name, of one Locker or of 4, each of which has the lock for 5 ms, and wants it again at once: with
// Lock, and with [subject.Slots] slots. Timers and the scheduler make 5 ms longer (hold-ms). Beside cycles/s it has how many had
// it at a time on average (inside), for how long a cycle keeps a core busy, in the callers' process (cpu-µs/cycle) and in the servers
// (servers-µs/cycle), and how many cycles the luckiest caller had for each of the unluckiest (most/least-goroutine). It fails if more have
// it at a time than may.
func BenchmarkW_Slots(b *testing.B) {
	servers := testredis.Real(b, 5)
	for _, lockers := range []int{1, 4} {
		for _, s := range subject.Named("quorumlock-lock", "quorumlock-slot") {
			b.Run(fmt.Sprintf("subject=%s/nodes=5/lockers=%d", s.Name, lockers), func(b *testing.B) {
				most := int64(1)
				if s.Name == "quorumlock-slot" {
					most = subject.Slots
				}
				addrs, in := empty(b, servers), inside{most: most}
				callers, counts := make(crowd, 0, manyCallers), make([]*holder, manyCallers)
				for range lockers {
					client := openAt(b, s, addrs, manyCallers/lockers, ampleTimeout)
					for range manyCallers / lockers {
						h := &holder{Caller: client.Caller(hotName), in: &in}
						counts[len(callers)] = h
						callers = append(callers, h)
					}
				}
				require.NoError(b, callers.cycles(1))
				in.held.Store(0)
				used, theirs := cpuTime(b), serverTime(b, servers)
				made := callers.measure(b)
				used, theirs = cpuTime(b)-used, serverTime(b, servers)-theirs
				require.Zero(b, in.beyond.Load(), "times at which more than %d had the lock", most)
				n := float64(made.cycles)
				b.ReportMetric(float64(in.held.Load())/float64(made.took), "inside")
				b.ReportMetric(float64(in.held.Load())/float64(time.Millisecond)/n, "hold-ms")
				b.ReportMetric(float64(used)/float64(time.Microsecond)/n, "cpu-µs/cycle")
				b.ReportMetric(float64(theirs)/float64(time.Microsecond)/n, "servers-µs/cycle")
				least, luckiest := counts[0].cycles, 0
				for _, h := range counts {
					least, luckiest = min(least, h.cycles), max(luckiest, h.cycles)
				}
				b.ReportMetric(float64(luckiest)/float64(least), "most/least-goroutine")
			})
		}
	}
}

// inside counts those that have a lock, beside it.
type inside struct {
	most        int64
	now, beyond atomic.Int64
	held        atomic.Int64 // nanoseconds of all together
}

// holder is a Caller that has its lock for a while, and is counted meanwhile.
type holder struct {
	subject.Caller
	in     *inside
	cycles int
}

func (h *holder) Acquire(ctx context.Context) error {
	if err := h.Caller.Acquire(ctx); err != nil {
		return err
	}
	if h.in.now.Add(1) > h.in.most {
		h.in.beyond.Add(1)
	}
	begin := time.Now()
	<-time.After(slotsHold)
	h.in.held.Add(int64(time.Since(begin)))
	h.in.now.Add(-1)
	h.cycles++
	return nil
}
