package bench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	// longReaders of Y4 have the name for so long, in several processes.
	longReaders         = 12
	longReaderProcesses = 4
	longRead            = 300 * time.Millisecond
	// writerPause lets the readers go on before the writer of Y4 comes again.
	writerPause = 50 * time.Millisecond
	// shortOfPatience is for how long the programs wait that give up.
	shortOfPatience = 100 * time.Millisecond
	// manyWriters of Y5 have the name for so long, in two processes.
	manyWriters     = 12
	writerProcesses = 2
	writersHold     = 5 * time.Millisecond
)

// BenchmarkY4_PatientWriter is a writer without a limit of its wait, of a name that 12 readers of 4 processes have
// for 300 ms each, again and again. Beside it there may be four programs whose calls for the same name give up after
// 100 ms and come again at once: how long the writer waits in units of the mean time for which a reader has the name
// (p50-holds, p100-holds).
func BenchmarkY4_PatientWriter(b *testing.B) {
	servers := testredis.Real(b, 5)
	for _, others := range []int{0, 4} {
		b.Run(fmt.Sprintf("subject=quorumlock/nodes=5/beside=%d", others), func(b *testing.B) {
			lockers := openLockers(b, empty(b, servers), longReaderProcesses+others+1)
			readers := repeat(longReaders, func(i int) *worker {
				return locking(lockers[i%longReaderProcesses], hotName, longRead, redlock.Shared())
			})
			giving := repeat(others, func(i int) *worker {
				return locking(lockers[longReaderProcesses+i], hotName, moveHold, redlock.MaxWait(shortOfPatience))
			})
			for _, w := range giving {
				w.gives = true
			}
			writer := locking(lockers[longReaderProcesses+others], hotName, moveHold)
			writer.pause = writerPause
			stop := start(append(giving, readers...)...)
			<-time.After(writerPause)
			var failure error
			for b.Loop() {
				if failure == nil {
					failure = writer.turn(nil)
				}
			}
			stop(b)
			require.NoError(b, failure)
			hold := readers.meanHold()
			writer.waits.reportIn(b, 50, hold)
			writer.waits.reportIn(b, 100, hold)
			b.ReportMetric(milliseconds(hold), "hold-ms")
			readers.perSecond(b, "reads/s")
		})
	}
}

// BenchmarkY5_WritersAndReaders is two processes of six writers each that want a name all the time, and have it for 5
// ms. Beside them there may be a process of two readers that do the same: how long a writer waits (p50-ms, p99-ms).
func BenchmarkY5_WritersAndReaders(b *testing.B) {
	servers := testredis.Real(b, 5)
	for _, n := range []int{0, 2} {
		b.Run(fmt.Sprintf("subject=quorumlock/nodes=5/readers=%d", n), func(b *testing.B) {
			lockers := openLockers(b, empty(b, servers), writerProcesses+1)
			writers := repeat(manyWriters, func(i int) *worker {
				return locking(lockers[i%writerProcesses], hotName, writersHold)
			})
			readers := repeat(n, func(int) *worker {
				return locking(lockers[writerProcesses], hotName, writersHold, redlock.Shared())
			})
			work(b, append(readers, writers...)...)
			for _, percent := range []int{50, 99} {
				b.ReportMetric(writers.waits().percentile(percent)/1000, fmt.Sprintf("p%d-ms", percent))
			}
			writers.perSecond(b, "writes/s")
			readers.perSecond(b, "reads/s")
		})
	}
}
