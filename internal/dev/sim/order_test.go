package sim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/dev/sim"
)

// Processes that come one after the other get the lock in that order, but for few pairs of them.
func TestOrder_IsThatInWhichProcessesCome(t *testing.T) {
	var all, wrong [2]int // without and with processes that share the lock
	for seed := uint64(3); seed < 36_000; seed += 9 {
		p, kinds := sim.NewPlan(seed), 0
		if p.Calm {
			if p.Reads() {
				kinds = 1
			}
			pairs, others := sim.Order(p)
			all[kinds] += pairs
			wrong[kinds] += others
		}
	}
	t.Logf("%d of %d pairs are in another order, and %d of %d beside readers", wrong[0], all[0], wrong[1], all[1])
	require.Greater(t, all[0], 8_000)
	require.Less(t, wrong[0]*100, 5*all[0])
	require.Greater(t, all[1], 2_000)
	require.Less(t, wrong[1]*100, 15*all[1])
}
