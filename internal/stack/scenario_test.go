package stack_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// late is a plan of one client and one server, to which commands are on their way for so long
// that their connection is replaced meanwhile.
func late(steps []step, faults ...fault) *plan {
	return &plan{
		nodes: 1, names: 1, room: 1 << 16, permits: true,
		clients: []clientPlan{{timeout: 20 * unit, dial: 50 * unit, maxOverdue: 30 * unit, workers: [][]step{steps}}},
		faults:  append(faults, fault{at: 10 * unit, kind: stall, lasts: 300 * unit}),
	}
}

func TestStack_AcquireThatArrivesAfterItsReleaseTakesNoEffect(t *testing.T) {
	steps := []step{
		{kind: tryLock, ttl: long},
		{kind: unlock},
		{pause: 15 * unit, kind: tryLock, ttl: long},
	}
	p := late(steps)
	p.room = 80 // the acquire is on its way, and its release gets no further than half
	holds(t, p, map[string]int{"won": 3})
	// An attempt to connect that fails between the two connections makes no difference.
	p = late(steps, fault{at: 50 * unit, kind: refuse, lasts: 50 * unit})
	p.room = 80
	holds(t, p, map[string]int{"won": 3})
}

func TestStack_LockCanBeExtendedAfterAnExtensionThatFailed(t *testing.T) {
	p := late([]step{
		{kind: tryLock, ttl: 200 * unit, watch: true},
		{pause: 15 * unit, kind: extendCancelled, ttl: long, limit: 5 * unit},
		{pause: 80 * unit, kind: extend, ttl: long},
	})
	holds(t, p, map[string]int{"extended": 1})
	p.permits = false // the server goes on to read what the dead connection has left
	holds(t, p, map[string]int{"extended": 1})
}

// holds plays a plan, some times over, in which things have to happen so and so often.
func holds(t *testing.T, p *plan, happen map[string]int) {
	t.Helper()
	for range 10 {
		r := play(t, p)
		require.Empty(t, r.violations, "%s", r.report())
		for what, times := range happen {
			require.Equal(t, times, r.happened[what], "%s\n%s", what, r.report())
		}
	}
}
