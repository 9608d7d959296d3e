package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/dev/sim"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// A node whose answer came too late may have granted another slot than the rest.
func TestShared_AReleaseEndsASlotAtWhateverSlotItIs(t *testing.T) {
	node, slots, m := sim.NewKeyspace(), form.Shared{Kind: form.KindSlot, Slots: 3}, form.ID{Key: "name", Token: "a.1"}
	c := new(wire.Command)
	slots.Acquire(c, m, form.Ask{TTL: time.Hour, Start: 2})
	reply := node.Do(c, nil, 0, 0)
	require.Equal(t, uint64(3), reply.Number())

	m.Number = 1
	slots.TakeBack(c, m, 1)
	require.Equal(t, quorum.No, node.Do(c, nil, 0, 0).Answer, "what is taken back is a slot")
	slots.Release(c, m, time.Hour)
	require.Equal(t, quorum.Yes, node.Do(c, nil, 0, 0).Answer)
	left, _ := node.Shared("name", 0)
	require.Empty(t, left)
}
