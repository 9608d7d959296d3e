package wire_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// quarantine returns for how long a server may not vote.
func quarantine(g *wire.Guard, now time.Time) time.Duration {
	d, _ := g.Quarantine(now)
	return d
}

func TestGuard_AReplacementStaysInQuarantineOnItsNextConnection(t *testing.T) {
	now := time.Unix(1000, 0)
	g := wire.Guard{MaxTTL: 10 * time.Second}
	g.Connected(now, "a", time.Hour)
	require.Zero(t, quarantine(&g, now))
	g.Connected(now, "b", time.Hour)
	require.Equal(t, 10100*time.Millisecond, quarantine(&g, now))
	g.Connected(now.Add(time.Second), "b", time.Hour)
	require.Equal(t, 9100*time.Millisecond, quarantine(&g, now.Add(time.Second)))
	require.Zero(t, quarantine(&g, now.Add(10100*time.Millisecond)))
	g.Connected(now.Add(time.Minute), "b", time.Hour)
	require.Zero(t, quarantine(&g, now.Add(time.Minute)))
}

func TestGuard_AServerWithoutAnIdentityDoesNotMakeItForgetTheOneBefore(t *testing.T) {
	now := time.Unix(1000, 0)
	g := wire.Guard{MaxTTL: 10 * time.Second}
	g.Connected(now, "a", time.Hour)
	g.Connected(now, "", -1)
	_, is := g.Quarantine(now)
	require.True(t, is)
	g.Connected(now, "b", time.Hour)
	require.Equal(t, 10100*time.Millisecond, quarantine(&g, now))
}

func TestGuard_TheLongestOfAllTTLsKeepsAServerFromVoting(t *testing.T) {
	g := wire.Guard{MaxTTL: math.MaxInt64}
	g.Connected(time.Now(), "server", time.Hour)
	left, is := g.Quarantine(time.Now())
	require.True(t, is)
	require.Greater(t, left, 100*365*24*time.Hour)
}
