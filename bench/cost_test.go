//go:build unix

package bench_test

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/subject"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// BenchmarkM_Cost is B over the number of nodes: beside cycles/s, for how long a cycle keeps a core busy in the callers'
// process, in user mode and in the kernel (cpu-µs/cycle). The servers' part is left out.
func BenchmarkM_Cost(b *testing.B) {
	for _, nodes := range []int{3, 5, 7, 9} {
		each(b, subject.Named("floor", "quorumlock", "redsync"), nodes, func(b *testing.B, s subject.Subject, servers []*testredis.Process) {
			callers := connected(b, s, servers)
			used := cpuTime(b)
			made := callers.measure(b)
			used = cpuTime(b) - used
			b.ReportMetric(float64(used)/float64(time.Microsecond)/float64(made.cycles), "cpu-µs/cycle")
		})
	}
}
