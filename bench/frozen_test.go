package bench_test

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/internal/subject"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

const (
	// nodeTimeout is the same for all subjects in benchmarks with nodes that hang.
	nodeTimeout = 100 * time.Millisecond
	// settling is how long a client works beside frozen nodes before it is measured.
	settling = 250 * time.Millisecond
)

// BenchmarkE_Frozen is A while none, one and two of five nodes hang: connected, but without an answer. A machine that
// holds up the others for longer than the timeout makes cycles fail (failed/op).
func BenchmarkE_Frozen(b *testing.B) {
	for _, s := range subject.Named("quorumlock", "redsync", "redsync-failfast", "redsync-goredis") {
		for frozen := range 3 {
			b.Run(fmt.Sprintf("subject=%s/nodes=5/frozen=%d", s.Name, frozen), func(b *testing.B) {
				servers := testredis.Real(b, 5)
				client := open(b, s, servers, 1, nodeTimeout)
				// Each cycle has a name of its own: what a client still has under way for the last one, and
				// a majority did not wait for, would refuse the next where hardly more than a majority is left.
				fresh := func() subject.Caller { return client.Caller("bench-" + rand.Text()) }
				for range 100 {
					_ = cycle(fresh()) // which connects; what fails later is counted
				}
				freeze(b, servers[:frozen])
				for begin := time.Now(); time.Since(begin) < settling; {
					_ = cycle(fresh())
				}
				times, made := newLatencies(), tally{}
				for b.Loop() {
					made.add(times.acquire(fresh()))
				}
				for try := 0; made.cycles == 0 && try < 10; try++ { // the only one was held up
					made.add(times.acquire(fresh()))
				}
				times.report(b)
				made.report(b)
			})
		}
	}
}

// freeze stops the servers until the benchmark ends. They go on before its client closes.
func freeze(b *testing.B, servers []*testredis.Process) {
	for _, server := range servers {
		server.Freeze()
		b.Cleanup(server.Thaw)
	}
}

// BenchmarkG_Growth is B beside one frozen node of five: by how much the live heap (heap-growth-KB) and the number of
// goroutines (goroutine-growth) differ between the second quarter of the time and the last. ns/op says nothing.
func BenchmarkG_Growth(b *testing.B) {
	for _, s := range subject.Named("quorumlock") {
		b.Run(fmt.Sprintf("subject=%s/nodes=5/frozen=1", s.Name), func(b *testing.B) {
			servers := testredis.Real(b, 5)
			crowd := gather(open(b, s, servers, manyCallers, nodeTimeout), manyCallers)
			require.NoError(b, crowd.cycles(10)) // connects
			freeze(b, servers[:1])
			stop := crowd.start()
			defer stop()
			look := time.NewTicker(lookInterval)
			defer look.Stop()
			seen := newFootprints()
			for b.Loop() {
				<-look.C
				seen.look()
			}
			stop().report(b)
			seen.report(b)
		})
	}
}
