package redlock_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/redlock"
)

// Rounds with blocks of different sizes, and with single numbers, over two Lockers, while a minority of the nodes lose their
// counters or count on beside the others: no number belongs to two locks, and those of a later one are higher.
func TestFence_BlocksLieAboveAllNumbersBefore(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		seed := rand.Uint64()
		t.Log("seed", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		lockers := []*redlock.Locker{c.locker(redlock.WithFencing(), handsOn), c.locker(redlock.WithFencing(), handsOn)}
		last := uint64(0)
		for i := range 60 {
			block := []uint64{0, 1, 2, 10, form.MaxBlock}[random.IntN(5)]
			lock := take(t, lockers[random.IntN(2)], "name", redlock.Block(block))
			first := lock.Fence()
			require.Greater(t, first, last, "round %d, a block of %d", i, block)
			holder := only(t, inspect(t, lockers[0], "name").Holders)
			last = holder.Fence
			require.Equal(t, max(1, block), last-first+1)
			c.eventuallyNumbered("name", holder.Token, last)
			if random.IntN(2) == 0 {
				require.NoError(t, lock.Extend(t.Context(), 2*long))
			}
			unlock(t, lock)
			c.eventuallyFree("name")
			switch at := random.IntN(5); random.IntN(4) {
			case 0:
				c.do(at, "DEL", "{name}:fence")
			case 1:
				c.do(at, "INCRBY", "{name}:fence", 1+random.IntN(10_000))
			}
		}
	})
}

func TestFence_ALargerBlockIsRefusedByTheNodes(t *testing.T) {
	t.Parallel()
	c := onMini(t, 3)
	_, err := c.locker(redlock.WithFencing()).TryLock(t.Context(), "name", redlock.Block(form.MaxBlock+1))
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorContains(t, err, "a block of more than 4096 numbers")
	c.eventuallyEmpty()
}

// The danger: an estimate of the counters' time that each block sets forward by its size, until it is far ahead of the clocks.
func TestFence_BlocksDoNotDriveTheEstimateAhead(t *testing.T) {
	t.Parallel()
	c := onMini(t, 3)
	const step = 50 * time.Millisecond // of the estimate that is sent
	for attempt := 0; ; attempt++ {
		begin, lease := time.Now().Truncate(step), clocktest.New()
		locker := c.locker(redlock.WithFencing(), redlock.WithClock(lease), redlock.WithWallClock(func() time.Time { return begin }))
		for i := range 5 {
			take(t, locker, fmt.Sprint("name-", i, "-", attempt), redlock.Block(form.MaxBlock))
			lease.Advance(time.Millisecond)
		}
		lease.Advance(step - 7*time.Millisecond) // less than a step since the first
		lock := take(t, locker, fmt.Sprint("last-", attempt))
		if time.Since(begin) < 900*time.Millisecond { // within a second of the nodes' clocks
			require.EqualValues(t, begin.UnixMicro()+1, lock.Fence())
			return
		}
	}
}
