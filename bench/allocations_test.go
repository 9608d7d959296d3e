package bench_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/bench/internal/subject"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// maxAllocations is what one acquire and its release may allocate together on five nodes, and maxFresh if no lock of the name was taken
// before.
const maxAllocations, maxFresh = 8, 9

// BenchmarkH_Allocations is what one caller's acquire and release allocate together, on all goroutines.
func BenchmarkH_Allocations(b *testing.B) {
	run := func(b *testing.B, s subject.Subject, servers []*testredis.Process) {
		caller := open(b, s, servers, 1, ampleTimeout).Caller("bench")
		warm(b, caller, 100)
		b.ReportAllocs()
		for b.Loop() {
			if err := cycle(caller); err != nil {
				b.Fatal(err)
			}
		}
	}
	each(b, ofFive, 5, run)
	each(b, ofOne, 1, run)
}

// A Lock that nobody is before costs no more than a TryLock.
func TestALockOnFiveNodesStaysWithinItsAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector changes what is allocated")
	}
	const cycles = 2000
	for _, s := range subject.Named("quorumlock", "quorumlock-lock") {
		client := open(t, s, testredis.Real(t, 5), 1, ampleTimeout)
		warm(t, client.Caller("bench"), 500)
		for _, fresh := range []bool{false, true} {
			callers, name, most := make([]subject.Caller, cycles), "bench", maxAllocations
			for i := range callers {
				if fresh {
					name, most = fmt.Sprint("bench-", i), maxFresh
				}
				callers[i] = client.Caller(name)
			}
			before := mallocs()
			for _, caller := range callers {
				if err := cycle(caller); err != nil {
					t.Fatal(err)
				}
			}
			each := float64(mallocs()-before) / cycles
			t.Logf("%s: %.2f allocations for each lock and its release; a name of its own: %t", s.Name, each, fresh)
			assert.LessOrEqual(t, each, float64(most))
		}
	}
}

// mallocs returns how many objects the process has allocated, on whichever goroutine.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
