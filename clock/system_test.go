package clock_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reading is what each clock of a machine says at one moment. The first of a list is when the clock is made.
type reading struct {
	boot       time.Duration
	refused    bool
	mono, wall time.Duration
	want       time.Duration
}

func TestSystemCountsTheTimeGoneBy(t *testing.T) {
	const hour, s, ms = time.Hour, time.Second, time.Millisecond
	const unread = -hour // the boot clock must not be read
	for name, readings := range map[string][]reading{
		"by the boot clock counts a suspend whatever the others say": {
			{boot: 1000 * s},
			{boot: 1010 * s, mono: 10 * s, wall: -hour, want: 10 * s},
			{boot: 1000*s + hour, mono: 10 * s, wall: 2 * hour, want: hour},
		},
		"holds still where the boot clock goes backwards": {
			{boot: 1000 * s},
			{boot: 1010 * s, mono: s, want: 10 * s},
			{boot: 1009 * s, mono: 2 * s, want: 10 * s},
			{boot: 1011 * s, mono: 3 * s, want: 11 * s},
		},
		"carries a reading of the boot clock on for a while": {
			{boot: 1000 * s},
			{boot: 1001 * s, mono: s, wall: s, want: s},
			{boot: unread, mono: s + 9*ms, wall: s + 9*ms, want: s + 9*ms},
			{boot: 1001*s + 12*ms, mono: s + 10*ms, wall: s + 10*ms, want: s + 12*ms},
			{boot: unread, mono: s + 11*ms, wall: s + 11*ms, want: s + 13*ms},
		},
		"reads the boot clock once the wall clock has moved by itself": {
			{boot: 1000 * s},
			{boot: 1001 * s, mono: s, wall: s, want: s},
			{boot: 1001*s + hour, mono: s + ms, wall: s + ms + hour, want: s + hour},
			{boot: unread, mono: s + 2*ms, wall: s + 2*ms + hour, want: s + ms + hour},
			{boot: 1001*s + hour + 2*ms, mono: s + 3*ms, wall: s + 2*ms, want: s + hour + 2*ms},
			{boot: 1001*s + hour + 4*ms, mono: s + 4*ms, wall: s + 3*ms + 6*time.Microsecond, want: s + hour + 4*ms},
		},
		"without a boot clock follows the two others while they agree": {
			{refused: true},
			{refused: true, mono: s, wall: s, want: s},
			{refused: true, mono: 5 * s, wall: 5 * s, want: 5 * s},
		},
		"without a boot clock follows the wall clock forward": {
			{refused: true},
			{refused: true, mono: s, wall: s + hour, want: s + hour},
			{refused: true, mono: 2 * s, wall: 2*s + hour, want: 2*s + hour},
		},
		"without a boot clock ignores a wall clock that is set back": {
			{refused: true},
			{refused: true, mono: s, wall: s - hour, want: s},
			{refused: true, mono: 2 * s, wall: 2*s - hour, want: 2 * s},
		},
		"without a boot clock counts a suspend by the wall clock": {
			{refused: true},
			{refused: true, mono: s, wall: s, want: s},
			{refused: true, mono: s, wall: s + hour, want: s + hour},
			{refused: true, mono: 2 * s, wall: 2*s + hour, want: 2*s + hour},
		},
		"without a boot clock runs on after the wall clock went forward and back": {
			{refused: true},
			{refused: true, mono: s, wall: s + hour, want: s + hour},
			{refused: true, mono: 2 * s, wall: 2 * s, want: 2*s + hour},
			{refused: true, mono: 3 * s, wall: 3 * s, want: 3*s + hour},
		},
		"without a boot clock survives a wall clock at either end of time": {
			{refused: true},
			{refused: true, mono: s, wall: -1 << 63, want: s},
			{refused: true, mono: 2 * s, wall: 1<<63 - 1, want: 1<<63 - 1},
		},
		"does not go backwards or stand still when the boot clock is refused later": {
			{boot: 1000 * s},
			{boot: 1000*s + hour, mono: s, wall: s - hour, want: hour},
			{refused: true, mono: 2 * s, wall: 2*s - hour, want: hour},
			{refused: true, mono: 3 * s, wall: 3*s - hour, want: hour + s},
		},
		"does not return to a boot clock that was refused once": {
			{boot: 1000 * s},
			{refused: true, mono: s, wall: hour, want: hour},
			{boot: 1002 * s, mono: 2 * s, wall: hour + s, want: hour + s},
		},
		"does not start a boot clock that was refused when it was made": {
			{refused: true},
			{boot: 1001 * s, mono: s, wall: s, want: s},
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := readings[0]
			elapsed := clock.NewSystem(
				func() (time.Duration, bool) {
					require.NotEqual(t, unread, now.boot)
					return now.boot, !now.refused
				},
				func() (mono, wall time.Duration) { return now.mono, now.wall },
			)
			for _, now = range readings[1:] {
				require.Equal(t, now.want, elapsed(), "at %+v", now)
			}
		})
	}
}

func TestSystemDoesNotCarryAReadingOnThatTookLong(t *testing.T) {
	var mono, boot time.Duration
	elapsed := clock.NewSystem(
		func() (time.Duration, bool) {
			boot += time.Microsecond
			mono += 6 * time.Microsecond // nobody knows when the boot clock was read
			return boot, true
		},
		func() (time.Duration, time.Duration) { return mono, mono },
	)
	for want := range 3 {
		require.Equal(t, time.Duration(want+1)*time.Microsecond, elapsed())
	}
}

func TestSystemNeverGoesBackwardsUnderConcurrentReadings(t *testing.T) {
	var ticks atomic.Int64
	elapsed := clock.NewSystem(
		func() (time.Duration, bool) { return 0, false },
		func() (time.Duration, time.Duration) {
			mono := time.Duration(ticks.Add(1))
			return mono, mono + 100*mono*(mono%2) // the wall clock is set forward, ever farther, and back
		},
	)
	var readers sync.WaitGroup
	backwards := make([]int, 4)
	for i := range backwards {
		readers.Go(func() {
			last := time.Duration(-1)
			for range 50_000 {
				now := elapsed()
				if now < last {
					backwards[i]++
				}
				last = now
			}
		})
	}
	readers.Wait()
	require.Equal(t, make([]int, 4), backwards)
}

func TestSystemAdvances(t *testing.T) {
	c := clock.System()
	start := c.Now()
	fired := make(chan time.Time)
	c.AfterFunc(time.Millisecond, func() { fired <- c.Now() })
	require.Greater(t, <-fired, start)
}

func TestSystemRunsAFunctionAtOnceForNoTimeAtAll(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Hour} {
		fired := make(chan struct{})
		clock.System().AfterFunc(d, func() { close(fired) })
		<-fired
	}
}

func TestSystemTimersStopAndStartAgain(t *testing.T) {
	fired := make(chan struct{})
	timer := clock.System().AfterFunc(time.Hour, func() { close(fired) })
	require.True(t, timer.Stop())
	require.False(t, timer.Stop())
	require.False(t, timer.Reset(time.Hour))
	require.True(t, timer.Reset(0))
	<-fired
	require.False(t, timer.Stop())
}

func TestSystemReadingsHaveNoMonotonicPart(t *testing.T) {
	now := clock.System().Now()
	require.Equal(t, now.Round(0), now, "Round(0) strips a monotonic part")
}

func TestSystemReadsWithoutAllocating(t *testing.T) {
	c := clock.System()
	require.Zero(t, testing.AllocsPerRun(100, func() { c.Now() }))
}

func BenchmarkNow(b *testing.B) {
	c := clock.System()
	b.ReportAllocs()
	for b.Loop() {
		c.Now()
	}
}
