package lock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// turns has a waiter of one node see clients named who take turns, and then a change.
func turns(t *testing.T, c *driver, who string, n int) {
	t.Helper()
	c.run(lost())
	for i := range n {
		c.now = c.now.Add(50 * time.Millisecond)
		c.do(fmt.Sprintf("0 held %s.%d for 10s", who, i))
	}
	require.True(t, tries(c.do("0 changed")))
}

// atOnce returns how many rounds follow one that is lost at once.
func atOnce(t *testing.T, c *driver) (rounds int) {
	t.Helper()
	for tries(c.do("lost")) {
		rounds++
		require.Less(t, rounds, 1000)
	}
	return rounds
}

// The danger: clients of other libraries that poll without a pause get the lock each time, and a waiter never.
func TestContend_PollsAsWellIfClientsOfOtherLibrariesTakeTheLockInTurn(t *testing.T) {
	t.Run("as long as they do", func(t *testing.T) {
		c := newDriver(t, 1, steady)
		turns(t, c, "x", 5)
		require.Equal(t, 31, atOnce(t, c))
		c.run([]step{{"0 held x.9 for 10s", "*"}, {"0 changed", "*"}})
		c.now = c.now.Add(steady.Most)
		require.True(t, tries(c.do("tick")), "a push is no hint any more that has to be followed up")
		require.Equal(t, 31, atOnce(t, c))
		c.do("0 held x.9 for 1h")
		c.now = c.now.Add(31 * time.Second)
		require.True(t, tries(c.do("0 changed")))
		require.Zero(t, atOnce(t, c), "nobody has taken it for long")
	})
	t.Run("and pauses in between, ever longer", func(t *testing.T) {
		c := newDriver(t, 1, steady)
		turns(t, c, "x", 5)
		for _, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 100, 100} {
			atOnce(t, c)
			require.Equal(t, fmt.Sprintf("tick %v", c.now.Add(pause*time.Millisecond).Sub(start)), inWords(c.do("0 free")))
			c.now = c.now.Add(pause * time.Millisecond)
			require.True(t, tries(c.do("tick")))
		}
	})
	t.Run("also for the next lock", func(t *testing.T) {
		c := newDriver(t, 1, steady)
		turns(t, c, "x", 5)
		c.do("won")
		c.do("unlocked")
		c.do("join 2")
		require.Equal(t, 31, atOnce(t, c))
	})
	t.Run("and gives it back to them as soon as to peers", func(t *testing.T) {
		c := newDriver(t, 1, steady)
		turns(t, c, "x", 5)
		wins := 0
		for c.do("join 2"); wins == 0 || tries(c.do("unlocked")); wins++ {
			c.do("won")
			c.do("join 3")
		}
		require.Equal(t, 6, wins)
	})
	t.Run("but not sooner", func(t *testing.T) {
		c := newDriver(t, 1, steady)
		turns(t, c, "x", 4)
		require.Zero(t, atOnce(t, c))
	})
	t.Run("nor against peers, which give it a turn", func(t *testing.T) {
		c := newDriver(t, 1, steady)
		turns(t, c, "b", 100)
		require.Zero(t, atOnce(t, c))
	})
	t.Run("nor against a single one", func(t *testing.T) {
		c := newDriver(t, 1, steady)
		c.run(lost())
		for range 100 {
			c.do("0 held x.1 for 10s")
		}
		require.True(t, tries(c.do("0 changed")))
		require.Zero(t, atOnce(t, c))
	})
	t.Run("nor against two that have died, each with its nodes", func(t *testing.T) {
		c := newDriver(t, 2, steady)
		c.run(lost())
		for range 100 {
			c.do("0 held x.1 for 10s")
			c.do("1 held x.2 for 10s")
		}
		c.now = c.now.Add(time.Second)
		c.do("0 changed")
		require.True(t, tries(c.do("1 changed")))
		require.Zero(t, atOnce(t, c))
	})
}
