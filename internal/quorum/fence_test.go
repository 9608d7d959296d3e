package quorum_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// With a node gone, the last vote makes the majority and shows what the token is: that the other has yet to agree is no reason to
// give up.
func TestARoundGoesOnWhileItsNumbersCanAgree(t *testing.T) {
	now := instant(start)
	a := quorum.NewFencedAcquire(3, granted)
	require.Empty(t, a.Asked(now))
	require.Empty(t, a.Vote(now, 2, quorum.Unsent, ""))
	require.Empty(t, a.Granted(now, 0, 5, ""))
	require.Equal(t, quorum.Effects{Raise: []int{0}}, a.Granted(now, 1, 7, ""))
	require.Equal(t, quorum.Effects{Outcome: quorum.Done}, a.Raised(now, 0, quorum.Yes))
	require.EqualValues(t, 7, a.Fence())
}

func TestARoundIsLostWhenItsNumbersCannotAgree(t *testing.T) {
	now := instant(start)
	a := quorum.NewFencedAcquire(3, granted)
	require.Empty(t, a.Asked(now))
	require.Empty(t, a.Vote(now, 2, quorum.Unsent, ""))
	require.Empty(t, a.Granted(now, 0, 7, ""))
	require.Equal(t, quorum.Effects{Raise: []int{1}}, a.Granted(now, 1, 5, ""))
	require.Equal(t, quorum.Effects{Release: []int{0, 1}, Settling: true}, a.Raised(now, 1, quorum.No))
}
