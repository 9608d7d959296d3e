package pipeline_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/pipeline"
)

// left returns for how long a server may not vote.
func left(g *pipeline.Guard, now time.Time) time.Duration {
	d, _ := g.Quarantine(func() time.Time { return now })
	return d
}

func TestAServerInTheOldOnesPlaceStaysInQuarantineOnItsNextConnection(t *testing.T) {
	now := time.Unix(1000, 0)
	g := pipeline.NewGuard(10 * time.Second)
	g.Connected(now, "a", time.Hour)
	require.Zero(t, left(&g, now))
	g.Connected(now, "b", time.Hour)
	require.Equal(t, 10100*time.Millisecond, left(&g, now))
	g.Connected(now.Add(time.Second), "b", time.Hour)
	require.Equal(t, 9100*time.Millisecond, left(&g, now.Add(time.Second)))
	require.Zero(t, left(&g, now.Add(10100*time.Millisecond)))
	g.Connected(now.Add(time.Minute), "b", time.Hour)
	require.Zero(t, left(&g, now.Add(time.Minute)))
}

func TestAServerThatDoesNotSayWhoItIsDoesNotMakeTheOneBeforeForgotten(t *testing.T) {
	now := time.Unix(1000, 0)
	g := pipeline.NewGuard(10 * time.Second)
	g.Connected(now, "a", time.Hour)
	g.Connected(now, "", -1)
	_, is := g.Quarantine(func() time.Time { return now })
	require.True(t, is)
	g.Connected(now, "b", time.Hour)
	require.Equal(t, 10100*time.Millisecond, left(&g, now))
}
