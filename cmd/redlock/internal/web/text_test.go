package web_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/web"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestRemaining_RoundsDownToTheTwoLargestUnits(t *testing.T) {
	for ttl, want := range map[time.Duration]string{
		redlock.NoLimit: "never expires", 0: "over", time.Millisecond: "under 1 s", 1999 * time.Millisecond: "1 s", 59999 * time.Millisecond: "59 s",
		time.Minute: "1 min 00 s", time.Hour - 1: "59 min 59 s", 25*time.Hour - 1: "1 d 00 h", 90 * time.Minute: "1 h 30 min",
	} {
		require.Equal(t, want, web.Remaining(ttl), "%d", ttl)
	}
}

func TestLatency_HasAboutThreeDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1: "no answer", 87 * time.Microsecond: "0.09 ms", 1234 * time.Microsecond: "1.23 ms", 45670 * time.Microsecond: "45.7 ms", time.Second: "1000 ms",
	} {
		require.Equal(t, want, web.Latency(d))
	}
}

func TestSparkline_ShowsWhatWasNotAnswered(t *testing.T) {
	const ms = time.Millisecond
	lines, misses, label := web.Spark([]time.Duration{2 * ms, 4 * ms, -1, -1, 2 * ms}, 4*ms)
	require.Equal(t, []string{"111,14.0 113,1.0", "119,14.0 119,14.0"}, lines, "the newest is at the right end")
	require.Equal(t, []int{115, 117}, misses)
	require.Equal(t, "Latencies of the last 5 tries: from 2.00 ms to 4.00 ms, 2 without an answer.", label)
	lines, misses, label = web.Spark([]time.Duration{-1}, ms)
	require.Empty(t, lines)
	require.Len(t, misses, 1)
	require.Equal(t, "No answer in the last 1 tries.", label)
}
