package quorum_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

const handoffMax = 2 * time.Second

func TestHandoff_PassesTheLockOnForABoundedTime(t *testing.T) {
	for _, tt := range []struct{ max, ttl, until time.Duration }{
		{2 * time.Second, 10 * time.Second, 2 * time.Second},
		{2 * time.Second, time.Second, 247 * time.Millisecond}, // a quarter of the validity
	} {
		h := quorum.NewHandoff(quorum.NewLease(3, of(start, tt.ttl)), tt.max, 0, 0)
		require.True(t, h.May(start, tt.ttl))
		require.True(t, h.May(start.Add(tt.until-1), tt.ttl))
		require.False(t, h.May(start.Add(tt.until), tt.ttl))
	}
	never := quorum.NewHandoff(quorum.NewLease(3, granted), 0, 0, 0)
	require.False(t, never.May(start, granted.TTL))
}

func TestHandoff_DoesNotPassOnWhatIsNoLongerAsTheNodesGrantedIt(t *testing.T) {
	more := granted.TTL + time.Millisecond
	for name, tt := range map[string]struct {
		change func(*quorum.Lease, *quorum.Handoff)
		ttl    time.Duration // that is asked for
		may    bool
	}{
		"a lock that is lost":                          {func(l *quorum.Lease, _ *quorum.Handoff) { l.End(start, quorum.Gone) }, granted.TTL, false},
		"a lock whose key may be gone from a majority": {func(l *quorum.Lease, _ *quorum.Handoff) { l.Invalidated(instant(start), 0) }, granted.TTL, false},
		"but not one that was looked at since": {func(l *quorum.Lease, _ *quorum.Handoff) {
			l.Invalidated(instant(start), 0)
			l.Observed(instant(start), 0, quorum.Yes)
		}, granted.TTL, true},
		"a lock that may have got a longer TTL": {func(l *quorum.Lease, _ *quorum.Handoff) { try(l, of(start, more)) }, granted.TTL, false},
		"a lock with too short a TTL":           {func(*quorum.Lease, *quorum.Handoff) {}, more, false},
		"but what was renewed is":               {func(l *quorum.Lease, _ *quorum.Handoff) { extend(l, granted) }, granted.TTL, true},
		"and what is asked for for less":        {func(*quorum.Lease, *quorum.Handoff) {}, granted.TTL - 1, true},
	} {
		lease := quorum.NewLease(1, granted)
		h := quorum.NewHandoff(lease, handoffMax, 0, 0)
		require.True(t, h.May(start, granted.TTL))
		tt.change(lease, h)
		require.Equal(t, tt.may, h.May(start, tt.ttl), name)
	}

	attached := quorum.NewAttach(1, quorum.Grant{Start: start, Drift: granted.Drift})
	attached.Observed(instant(start), 0, quorum.Yes, 0, granted.TTL, "")
	lease := attached.Lease(0)
	require.Nil(t, quorum.NewHandoff(&lease, handoffMax, 100, 3), "somebody else knows the token of an attached lock")
}

func TestHandoff_GivesEachHolderANumberOfTheBlock(t *testing.T) {
	lease := quorum.NewLease(1, granted)
	h := quorum.NewHandoff(lease, handoffMax, 100, 3)
	for _, number := range []uint64{98, 99} {
		require.Equal(t, number, h.Fence())
		require.True(t, h.May(start, granted.TTL))
		h.HandOff()
	}
	require.EqualValues(t, 100, h.Fence())
	require.False(t, h.May(start, granted.TTL), "the block is used up")

	for _, block := range []uint64{0, 1} {
		h := quorum.NewHandoff(lease, handoffMax, 100, block)
		require.EqualValues(t, 100, h.Fence())
		require.False(t, h.May(start, granted.TTL))
	}
	plain := quorum.NewHandoff(lease, handoffMax, 0, 3)
	plain.HandOff()
	require.Zero(t, plain.Fence(), "without fencing there is no number, whatever was asked for")
}

func TestHandoff_GivesEachHolderAHoldOfItsOwn(t *testing.T) {
	lease := quorum.NewLease(1, granted)
	h := quorum.NewHandoff(lease, handoffMax, 0, 0)
	first := lease.Hold()
	require.True(t, first.Leave(start))
	second := h.HandOff()
	require.False(t, first.Current())
	require.Equal(t, quorum.Released, first.At(start))
	require.True(t, second.Current())
	require.Equal(t, quorum.NotEnded, second.At(start))
	require.Equal(t, 1, lease.Holds())

	lease.End(start, quorum.Gone)
	require.Equal(t, quorum.Released, first.At(start))
	require.Equal(t, quorum.Gone, second.At(start))
	require.True(t, second.Leave(start))
	require.Equal(t, quorum.Gone, second.At(start))
}
