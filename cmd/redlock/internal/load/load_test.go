package load_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/load"
	"github.com/quorumlock/quorumlock/internal/benchreport"
	"github.com/quorumlock/quorumlock/redlock"
)

// The tests run in the fake time of synctest, which stands still during computation, so that
// latencies are exact.

// pass advances the fake time. (With the race detector the runtime of Go 1.26 may crash if a
// bubble receives from many timers: golang/go#78156.)
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // in synctest
}

// held is a lock whose release takes some time.
type held struct {
	release time.Duration
	open    *atomic.Int64 // how many locks are held
	err     error
}

func (h held) Unlock(context.Context) error {
	pass(h.release)
	if h.open != nil {
		h.open.Add(-1)
	}
	return h.err
}

func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = strconv.Itoa(i)
	}
	return list
}

// measure carries out a plan.
func measure(t *testing.T, plan load.Plan) *benchreport.Result {
	t.Helper()
	result, err := load.Run(t.Context(), plan)
	require.NoError(t, err)
	return result
}

// within checks a latency to the precision of the histograms.
func within(t *testing.T, want time.Duration, gotMicros float64, what string) {
	t.Helper()
	assert.InDelta(t, float64(want.Microseconds()), gotMicros, 1+0.01*float64(want.Microseconds()), what)
}

func TestRun_PercentilesAreThoseOfAKnownDistribution(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cycle := 0
		result := measure(t, load.Plan{
			Names: names(1), Duration: 10 * (5050 + 100*10) * time.Millisecond, // each of them ten times
			Take: func(context.Context, string) (load.Held, error) {
				pass(time.Duration(cycle%100+1) * time.Millisecond) // 1 to 100 ms
				cycle++
				return held{release: 10 * time.Millisecond}, nil
			},
		})
		acquire := result.Of(benchreport.Acquire)
		within(t, 50*time.Millisecond, acquire.P50, "p50")
		within(t, 90*time.Millisecond, acquire.P90, "p90")
		within(t, 99*time.Millisecond, acquire.P99, "p99")
		within(t, 100*time.Millisecond, acquire.Max, "max")
		release := result.Of(benchreport.Release)
		within(t, 10*time.Millisecond, release.P50, "release")
		within(t, 10*time.Millisecond, release.Mean, "release")
		within(t, 109*time.Millisecond, result.Of(benchreport.Cycle).P99, "cycle")
		assert.Equal(t, int64(cycle), result.Cycles)
		assert.False(t, result.Corrected)
		assert.Empty(t, result.Failures)
		last := acquire.Curve[0]
		for _, point := range acquire.Curve {
			assert.GreaterOrEqual(t, point.Percentile, last.Percentile)
			assert.GreaterOrEqual(t, point.Micros, last.Micros)
			last = point
		}
		within(t, time.Millisecond, acquire.Curve[0].Micros, "the curve begins with the shortest")
	})
}

// stalling returns a Take that succeeds at once, except during the sixth second.
func stalling(start time.Time) func(context.Context, string) (load.Held, error) {
	return func(context.Context, string) (load.Held, error) {
		if at := time.Since(start); at >= 5*time.Second && at < 6*time.Second {
			pass(6*time.Second - at)
		}
		return held{}, nil
	}
}

func TestRun_OnScheduleChargesAStallToEveryCycleThatWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result := measure(t, load.Plan{
			Names: names(4), Rate: 100, Duration: 10 * time.Second, Take: stalling(time.Now()),
		})
		assert.True(t, result.Corrected)
		assert.Equal(t, int64(1000), result.Cycles, "none is left out")
		assert.Zero(t, result.NotBegun)
		assert.InDelta(t, 100, result.CyclesPer, 1e-9)
		// 100 of the 1000 cycles were due in that second: their waits are from 0 to 1 s.
		acquire := result.Of(benchreport.Acquire)
		within(t, time.Second, acquire.Max, "max")
		within(t, 900*time.Millisecond, acquire.P99, "p99")
		within(t, 0, acquire.P90, "p90")
		within(t, 900*time.Millisecond, result.Of(benchreport.Cycle).P99, "p99 of the cycle")
		// Only four were under way. This is what is seen without the correction.
		assert.Less(t, result.Of(benchreport.Service).P99, 10.0)
		within(t, time.Second, result.Of(benchreport.Service).Max, "max")
		// The other 96 began late.
		within(t, 860*time.Millisecond, result.Of(benchreport.Queueing).P99, "queueing delay")
	})
}

func TestRun_ClosedLoopIsMarkedAsUncorrected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		stall := stalling(start)
		result := measure(t, load.Plan{
			Names: names(4), Duration: 10 * time.Second,
			Take: func(ctx context.Context, name string) (load.Held, error) {
				pass(10 * time.Millisecond)
				return stall(ctx, name)
			},
		})
		assert.False(t, result.Corrected)
		within(t, 10*time.Millisecond, result.Of(benchreport.Acquire).P99, "p99")
		assert.Zero(t, result.Of(benchreport.Service).Count)
		assert.Zero(t, result.Asked)
	})
}

func TestRun_CallersThatFallBehindMissTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result := measure(t, load.Plan{
			Names: names(2), Rate: 100, Duration: 10 * time.Second,
			Take: func(context.Context, string) (load.Held, error) {
				pass(90 * time.Millisecond)
				return held{release: 10 * time.Millisecond}, nil
			},
		})
		assert.InDelta(t, 100, result.Asked, 0)
		assert.InDelta(t, 20, result.CyclesPer, 0.1)
		assert.Equal(t, int64(800), result.NotBegun)
		assert.Greater(t, result.Of(benchreport.Acquire).Max, 7.9e6, "the last had been due for 8 s")
		within(t, 90*time.Millisecond, result.Of(benchreport.Service).Max, "while an acquire took no longer")
		total := 0.0
		for _, bucket := range result.Throughput {
			total += bucket.CyclesPer * bucket.Length
		}
		assert.InDelta(t, 200, total, 2)
	})
}

func TestRun_FailuresAreCountedByKindApartFromLatencies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int64
		result := measure(t, load.Plan{
			Names: names(5), Duration: time.Second,
			Take: func(_ context.Context, name string) (load.Held, error) {
				switch name {
				case "0":
					return nil, fmt.Errorf("acquire: %w", redlock.ErrTaken)
				case "1":
					pass(45 * time.Millisecond)
					return nil, fmt.Errorf("acquire: %w", redlock.ErrNoQuorum)
				case "2":
					return nil, errors.New("something else")
				}
				open.Add(1)
				pass(10 * time.Millisecond)
				h := held{open: &open}
				if name == "3" {
					h.err = fmt.Errorf("unlock: %w", redlock.ErrNotHeld)
				}
				return h, nil
			},
		})
		assert.Equal(t, []benchreport.Failure{
			{Op: "acquire", Kind: "other", Count: 200, Example: "something else"}, // with 5 ms between them
			{Op: "acquire", Kind: "taken", Count: 200, Example: "acquire: redlock: lock is taken"},
			{Op: "acquire", Kind: "no_quorum", Count: 20, Example: "acquire: redlock: no quorum of nodes"},
			{Op: "release", Kind: "not_held", Count: 67, Example: "unlock: redlock: lock is not held"},
		}, result.Failures)
		assert.Equal(t, int64(100), result.Cycles)
		assert.Equal(t, int64(420), result.Of(benchreport.Refusal).Count)
		within(t, 45*time.Millisecond, result.Of(benchreport.Refusal).Max, "refusal")
		within(t, 10*time.Millisecond, result.Of(benchreport.Acquire).Max, "acquire")
		assert.Zero(t, open.Load())
	})
}

func TestRun_WarmUpIsNotMeasuredAndReadyComesAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var mu sync.Mutex
		var ready time.Duration
		early, late := 0, 0
		result := measure(t, load.Plan{
			Names: names(3), WarmUp: time.Second, Duration: time.Second,
			Take: func(context.Context, string) (load.Held, error) {
				mu.Lock()
				if ready == 0 {
					early++
				} else {
					late++
				}
				mu.Unlock()
				pass(10 * time.Millisecond)
				return held{}, nil
			},
			Ready: func() error {
				ready = time.Since(begin)
				return nil
			},
		})
		assert.Equal(t, time.Second, ready)
		assert.Equal(t, 300, early)
		assert.Equal(t, int64(late), result.Cycles)

		_, err := load.Run(t.Context(), load.Plan{
			Names: names(1), Duration: time.Second,
			Ready: func() error { return errors.New("not ready") },
		})
		require.EqualError(t, err, "not ready")
	})
}

func TestRun_InterruptedReturnsWhatItMeasuredAndHoldsNoLock(t *testing.T) {
	for name, rate := range map[string]float64{"closed loop": 0, "rate": 300} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
				defer cancel()
				var open atomic.Int64
				result, err := load.Run(ctx, load.Plan{
					Names: names(3), Rate: rate, WarmUp: time.Second, Duration: time.Minute,
					Take: func(context.Context, string) (load.Held, error) {
						open.Add(1)
						return held{release: 10 * time.Millisecond, open: &open}, nil
					},
				})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotNil(t, result)
				assert.InDelta(t, 2.5, result.Elapsed, 0.02)
				assert.InDelta(t, 750, result.Cycles, 6)
				assert.LessOrEqual(t, result.NotBegun, int64(6))
				assert.Empty(t, result.Failures)
				assert.Zero(t, open.Load())

				result, err = load.Run(ctx, load.Plan{Names: names(1), WarmUp: time.Second, Duration: time.Second})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Nil(t, result, "nothing was measured")
			})
		})
	}
}

func TestRun_CallerThatStillWaitsAtTheEndIsUnfinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result := measure(t, load.Plan{
			Names: []string{"hot", "hot"}, Waits: true, Duration: time.Second,
			Take: func(ctx context.Context, _ string) (load.Held, error) {
				<-ctx.Done()
				return nil, fmt.Errorf("%w: %w", ctx.Err(), redlock.ErrNoQuorum)
			},
		})
		assert.Equal(t, []benchreport.Failure{
			{Op: "acquire", Kind: "unfinished", Count: 2, Example: "context deadline exceeded: redlock: no quorum of nodes"},
		}, result.Failures)
		assert.Zero(t, result.Cycles)
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
