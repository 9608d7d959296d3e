package bench_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	// limitCallers of Y6 take slots with each of the two limits.
	limitCallers = 8
	fewSlots     = 3
	moreSlots    = 5
	permitHold   = 20 * time.Millisecond
)

// BenchmarkY6_TwoLimits is two processes of 8 callers each that want slots of the same name all the time, and have
// one for 20 ms: one process says that there are 3 slots, the other that there are 5. It has how many locks the
// callers of each get (few/s, more/s), and their ratio (few/more).
func BenchmarkY6_TwoLimits(b *testing.B) {
	servers := testredis.Real(b, 5)
	b.Run("subject=quorumlock/nodes=5", func(b *testing.B) {
		lockers := openLockers(b, empty(b, servers), 2)
		callers := func(locker *redlock.Locker, n int) group {
			return repeat(limitCallers, func(int) *worker { return locking(locker, hotName, permitHold, redlock.Slots(n)) })
		}
		few, more := callers(lockers[0], fewSlots), callers(lockers[1], moreSlots)
		work(b, slices.Concat(few, more)...)
		require.NotZero(b, more.turns()+few.turns())
		few.perSecond(b, "few/s")
		more.perSecond(b, "more/s")
		b.ReportMetric(float64(few.turns())/float64(max(more.turns(), 1)), "few/more")
	})
}
