package redlock_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock/clocktest"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// nextAt waits until the next thing that the Locker does by the clock is due in d, and lets that time go by.
func nextAt(tb testing.TB, fake *clocktest.Fake, d time.Duration) {
	tb.Helper()
	var next time.Duration
	eventually(tb, func() bool {
		var pending bool
		next, pending = fake.Next()
		return pending && next == d
	}, "due in %s", d)
	fake.Advance(d)
}

func TestALockIsRenewedWhenAThirdOfItsTTLHasGoneBy(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		fake, seen := clocktest.New(), &recorder{}
		lock := take(t, c.locker(redlock.WithClock(fake), redlock.WithObserver(seen)), "name", redlock.TTL(30*time.Minute), redlock.AutoExtend())
		for i := range 5 {
			require.Len(t, seen.verdictsOn("extend"), i)
			nextAt(t, fake, 10*time.Minute)
			eventually(t, func() bool { return seen.renewals() == i+1 }, "renewal %d", i)
			require.Equal(t, 30*time.Minute-18*time.Second-2*time.Millisecond, lock.Remaining())
		}
		require.NoError(t, lock.Unlock(t.Context()))
	})
}

func TestARenewalThatFailsIsTriedAgainEverSoonerUntilTheDeadline(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		fake, seen := clocktest.New(), &recorder{}
		locker := lockerOver(t, c.nodes(), redlock.WithClock(fake), redlock.WithObserver(seen), redlock.WithDrift(0, 0))
		seen.connect(t, locker, 3)
		lock := take(t, locker, "name", redlock.TTL(24*time.Second), redlock.AutoExtend())
		c.eventuallyHeld("name", lock.Token())
		c.servers[0].Stop()
		c.servers[1].Stop()
		until := lock.ValidUntil()
		nextAt(t, fake, 8*time.Second)
		for i := 1; lock.Err() == nil && i < 20; i++ {
			eventually(t, func() bool { return len(seen.verdictsOn("extend")) == i }, "attempt %d", i)
			nextAt(t, fake, lock.Remaining()/8)
		}
		require.Equal(t, until, lock.ValidUntil())
		require.NoError(t, lock.Err(), "tried to the end")
		c.servers[0].Start()
		c.servers[1].Start()
		fake.Advance(lock.Remaining())
		require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
	})
}

func TestALockThatItsHolderMadeLongerIsRenewedAgainLater(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		fake, seen := clocktest.New(), &recorder{}
		lock := take(t, c.locker(redlock.WithClock(fake), redlock.WithObserver(seen), redlock.WithDrift(0, 0)), "name",
			redlock.TTL(30*time.Minute), redlock.AutoExtend())
		require.NoError(t, lock.Extend(t.Context(), 120*time.Minute))
		nextAt(t, fake, 10*time.Minute)                        // too early
		require.NoError(t, fake.WaitForTimers(t.Context(), 2)) // that of Done, and the watchdog's
		fake.Advance(90 * time.Minute)
		eventually(t, func() bool { return seen.renewals() == 2 }, "a renewal when 20 minutes are left")
		require.Equal(t, 30*time.Minute, lock.Remaining())
		nextAt(t, fake, 10*time.Minute)
		eventually(t, func() bool { return seen.renewals() == 3 }, "and so on")
		require.NoError(t, lock.Unlock(t.Context()))
	})
}

// Trap 9: a watchdog that is bounded by the new deadline, and reports the loss after the real expiry.
func TestDoneIsClosedAtTheDeadlineEvenIfEveryRenewalHangs(t *testing.T) {
	c := onReal(t, 3)
	fake, seen := clocktest.New(), &recorder{}
	var renewals atomic.Int64
	nodes := c.nodes(pool.WithTimeout(long), counting("\r\nplant\r\n", &renewals))
	locker := lockerOver(t, nodes, redlock.WithClock(fake), redlock.WithObserver(seen))
	seen.connect(t, locker, 3)
	lock := take(t, locker, "name", redlock.TTL(30*time.Minute), redlock.AutoExtend())
	c.eventuallyHeld("name", lock.Token())
	for _, p := range c.processes {
		p.Freeze()
	}
	nextAt(t, fake, 10*time.Minute)
	eventually(t, func() bool { return renewals.Load() == 3 }, "the renewal is on its way")
	fake.Advance(lock.Remaining() - 1)
	done := lock.Done()
	require.False(t, isOver(done))
	require.NoError(t, lock.Err())
	fake.Advance(1)
	require.True(t, isOver(done))
	require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
	for _, p := range c.processes {
		p.Thaw()
	}
	c.eventuallyEmpty() // trap 8: the renewal got through after all, and would keep the key for longer than anybody counts on
}

func TestALockIsNotRenewedBeyondMaxHold(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		fake, seen := clocktest.New(), &recorder{}
		lock := take(t, c.locker(redlock.WithClock(fake), redlock.WithObserver(seen), redlock.WithDrift(0, 0)), "name",
			redlock.TTL(30*time.Minute), redlock.AutoExtend(), redlock.MaxHold(45*time.Minute))
		begin, done := fake.Now(), lock.Done()
		for i := range 2 {
			nextAt(t, fake, 10*time.Minute)
			eventually(t, func() bool { return seen.renewals() == i+1 }, "renewal %d", i)
		}
		require.Equal(t, begin.Add(45*time.Minute), lock.ValidUntil())
		fake.Advance(25 * time.Minute)
		require.True(t, isOver(done))
		require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
		require.Len(t, seen.verdictsOn("extend"), 2)
	})
}

func TestMaxHoldOutOfRangeIsRefused(t *testing.T) {
	locker := onMini(t, 1).locker()
	for want, opts := range map[string][]redlock.LockOption{
		"MaxHold(-1ns)":                   {redlock.AutoExtend(), redlock.MaxHold(-1)},
		"MaxHold(1m0s) without":           {redlock.TTL(time.Minute), redlock.MaxHold(time.Minute)},
		"MaxHold(59s): below the TTL, 1m": {redlock.TTL(time.Minute), redlock.AutoExtend(), redlock.MaxHold(59 * time.Second)},
	} {
		_, err := locker.TryLock(t.Context(), "name", opts...)
		require.ErrorContains(t, err, want)
	}
	lock := take(t, locker, "name", redlock.TTL(time.Minute), redlock.AutoExtend(), redlock.MaxHold(time.Minute))
	require.NoError(t, lock.Unlock(t.Context()))
}
