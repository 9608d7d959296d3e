package clocktest_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock/clocktest"
)

func TestDriftingAgreesAtFirstAndRunsAtItsRate(t *testing.T) {
	fake := clocktest.New()
	fake.Advance(time.Hour)
	start := fake.Now()
	fast, exact, slow := fake.Drifting(1.01), fake.Drifting(1), fake.Drifting(0.99)
	require.Equal(t, start, fast.Now())

	fake.Advance(time.Second)
	require.Equal(t, 1010*time.Millisecond, fast.Now().Sub(start))
	require.Equal(t, 1000*time.Millisecond, exact.Now().Sub(start))
	require.Equal(t, 990*time.Millisecond, slow.Now().Sub(start))

	fake.Jump(9 * time.Second)
	require.Equal(t, 10100*time.Millisecond, fast.Now().Sub(start))
}

func TestDriftingTimersAreInTheirClocksOwnTimeAndShareOneOrder(t *testing.T) {
	r := newRecorder()
	r.fake.Drifting(0.5).AfterFunc(time.Second, r.note("slow"))
	r.fake.Drifting(2).AfterFunc(time.Second, r.note("fast"))
	r.fake.AfterFunc(time.Second, r.note("true"))
	r.fake.Advance(time.Minute)
	require.Equal(t, []event{{"fast", time.Second / 2}, {"true", time.Second}, {"slow", 2 * time.Second}}, r.events)
}

func TestDriftingTimersCountFromNowAndResetInOwnTime(t *testing.T) {
	r := newRecorder()
	fast := r.fake.Drifting(2)
	r.fake.Advance(time.Second)
	timer := fast.AfterFunc(time.Hour, r.note("reset"))
	r.fake.Advance(time.Second)
	require.True(t, timer.Reset(4*time.Second))
	r.fake.Advance(time.Minute)
	require.Equal(t, []event{{"reset", 4 * time.Second}}, r.events)
}

func TestDriftingTimersFindTheirTimeGoneByAndNoMore(t *testing.T) {
	for _, rate := range []float64{0.01, 0.3, 0.9, 0.999999, 1, 1.000001, 1.1, 3.7, 100} {
		for d := time.Duration(1); d < 24*time.Hour; d = d*7/2 + 1 {
			fake := clocktest.New()
			c := fake.Drifting(rate)
			fake.Advance(12345678901)
			start := c.Now()
			var took time.Duration
			c.AfterFunc(d, func() { took = c.Now().Sub(start) })
			_, ok := fake.AdvanceToNext()
			require.True(t, ok)
			require.GreaterOrEqual(t, took, d, "rate %v", rate)
			require.LessOrEqual(t, took, d+time.Duration(math.Ceil(rate)), "rate %v", rate)
		}
	}
}

func TestDriftingTimersForNoTimeAtAllAreDueNow(t *testing.T) {
	for _, rate := range []float64{0.01, 1.01, 100} {
		fake := clocktest.New()
		c := fake.Drifting(rate)
		fake.Advance(12260) // 123 of the slowest clock, which rounds to 12300 back
		c.AfterFunc(0, func() {})
		c.AfterFunc(-time.Hour, func() {})
		next, _ := fake.AdvanceToNext()
		require.Zero(t, next)
		_, pending := fake.Next()
		require.False(t, pending)
	}
}

func TestDriftingAtARateOfOneStaysExactForEver(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	r := newRecorder()
	exact := r.fake.Drifting(1)
	r.fake.Advance(century + 1)
	require.Equal(t, r.fake.Now(), exact.Now())
	exact.AfterFunc(1, r.note("due"))
	r.fake.Advance(1)
	require.Equal(t, []event{{"due", century + 2}}, r.events)
}

func TestDriftingTimeHasAnEnd(t *testing.T) {
	for _, rate := range []float64{0.01, 1, 100} {
		fake := clocktest.New()
		c := fake.Drifting(rate)
		start := c.Now()
		var ran bool
		c.AfterFunc(math.MaxInt64, func() { ran = true })
		fake.Advance(math.MaxInt64)
		require.True(t, ran)
		require.Positive(t, c.Now().Sub(start))
	}
}

func TestDriftingNeedsARateThatAClockCanHave(t *testing.T) {
	for _, rate := range []float64{0, -1, 0.001, 101, math.NaN(), math.Inf(1)} {
		require.Panics(t, func() { clocktest.New().Drifting(rate) }, "rate %v", rate)
	}
}
