package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock/clocktest"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// leave leaves a key as a SETNX does whose EXPIRE never came.
func (c *cluster) leave(name, value string) {
	c.tb.Helper()
	c.doAll("SET", name, value, "NX")
}

// turnUntil lets the fake's time go by in steps, and time for what comes of each, until something has happened.
func turnUntil(tb testing.TB, fake *clocktest.Fake, step time.Duration, happened func() bool) {
	tb.Helper()
	eventually(tb, func() bool {
		if happened() {
			return true
		}
		fake.Advance(step)
		return false
	}, "within many steps of %s", step)
}

func TestAKeyWithoutATTLStaysTakenAndTheErrorSaysWhy(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.leave("name", "somebody")
		ctx, cancel := context.WithCancel(t.Context())
		locker, seen := c.waiting(c.nodes())
		waiter := lockBeside(ctx, locker, "name")
		if c.processes != nil {
			c.eventuallyTracked()
			c.settled()
		} else {
			seen.waitForRefusals(t, 5)
			pass(100 * time.Millisecond)
		}
		cancel()
		err := receive(t, waiter, "the end of Lock").err
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.ErrorIs(t, err, redlock.ErrNoExpiry)
		if c.processes != nil {
			for _, node := range c.refused(err).Nodes {
				require.ErrorIs(t, node.Err, redlock.ErrNoExpiry)
				require.ErrorIs(t, node.Err, pool.ErrHeld)
			}
		}
		require.Equal(t, 3, c.holding("name", "somebody"))
	})
}

func TestAKeyWithoutATTLIsTakenOverWhenItWasSeenForLongEnough(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.leave("name", "somebody")
		fake := clocktest.New()
		const after = 10 * time.Minute
		locker := c.locker(redlock.WithClock(fake), redlock.WithHeal(after))
		begin := fake.Now()
		waiter := lockBeside(t.Context(), locker, "name")
		turnUntil(t, fake, 10*time.Second, func() bool { return c.holding("name", "somebody") < 3 })
		require.GreaterOrEqual(t, fake.Now().Sub(begin), after, "not before")
		turnUntil(t, fake, 10*time.Second, func() bool { return len(waiter) > 0 })
		lock := won(t, waiter)
		require.GreaterOrEqual(t, c.holding("name", lock.Token()), 2)
		require.NoError(t, lock.Unlock(t.Context()))
		for i := range c.servers { // a minority is left to whoever waits next
			if c.value(i, "name") == "somebody" {
				c.do(i, "DEL", "name")
			}
		}
		c.eventuallyEmpty()
	})
}

func TestAKeyThatChangesWhileItIsWatchedIsNotTakenOver(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		fake := clocktest.New()
		const after = 10 * time.Minute
		locker, seen := c.waiting(c.nodes(), redlock.WithClock(fake), redlock.WithHeal(after))
		c.leave("name", "first")
		waiter := lockBeside(t.Context(), locker, "name")
		seen.waitForRefusals(t, 1)
		for _, owner := range []string{"second", "third", "fourth"} {
			before := c.value(0, "name")
			end := fake.Now().Add(after * 8 / 10)
			turnUntil(t, fake, 10*time.Second, func() bool { return !fake.Now().Before(end) })
			pass(20 * time.Millisecond) // what comes of it
			require.Equal(t, 3, c.holding("name", before), "held for less than it takes")
			c.doAll("SET", "name", owner)
		}
		require.Empty(t, waiter)
		c.doAll("DEL", "name")
		turnUntil(t, fake, 10*time.Second, func() bool { return len(waiter) > 0 })
		require.NoError(t, won(t, waiter).Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}

func TestAKeyWithATTLIsNeverTakenOver(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		fake := clocktest.New()
		for i := range c.servers {
			c.do(i, "SET", "name", "somebody", "PX", (10 * long).Milliseconds())
		}
		locker, seen := c.waiting(c.nodes(), redlock.WithClock(fake), redlock.WithHeal(time.Minute))
		ctx, cancel := context.WithCancel(t.Context())
		waiter := lockBeside(ctx, locker, "name")
		seen.waitForRefusals(t, 1)
		end := fake.Now().Add(long)
		turnUntil(t, fake, time.Minute, func() bool { return !fake.Now().Before(end) })
		cancel()
		require.ErrorIs(t, receive(t, waiter, "the end of Lock").err, redlock.ErrTaken)
		require.Equal(t, 3, c.holding("name", "somebody"))
	})
}

// Trap 26: somebody's data under the name, which has no TTL.
func TestDataOfAnotherTypeIsNeverTakenOver(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		fake := clocktest.New()
		c.doAll("RPUSH", "name", "data")
		locker, seen := c.waiting(c.nodes(), redlock.WithClock(fake), redlock.WithHeal(time.Minute))
		ctx, cancel := context.WithCancel(t.Context())
		waiter := lockBeside(ctx, locker, "name")
		seen.waitForRefusals(t, 1)
		end := fake.Now().Add(long)
		turnUntil(t, fake, 20*time.Second, func() bool { return !fake.Now().Before(end) })
		cancel()
		require.ErrorIs(t, receive(t, waiter, "the end of Lock").err, redlock.ErrTaken)
		for i := range c.servers {
			require.EqualValues(t, 1, c.do(i, "LLEN", "name"))
		}
	})
}

func TestWithHealOutOfRangeIsRefused(t *testing.T) {
	for _, after := range []time.Duration{-1, 1, time.Millisecond - 1} {
		_, err := redlock.New(onMini(t, 1).nodes(), redlock.WithHeal(after))
		require.ErrorContains(t, err, "WithHeal("+after.String()+")")
	}
}
