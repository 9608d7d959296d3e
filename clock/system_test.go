package clock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
)

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
