package redlock_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock/clocktest"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// short is a TTL that is renewed several times in a test, and that a busy machine keeps.
const short = 3 * time.Second

// renewals returns how many renewals have been done so far.
func (r *recorder) renewals() (n int) {
	for _, v := range r.verdictsOn("extend") {
		if v.Err == nil {
			n++
		}
	}
	return n
}

// waitForRenewals waits until n more renewals have been done.
func (r *recorder) waitForRenewals(tb testing.TB, n int) {
	tb.Helper()
	before := r.renewals()
	eventually(tb, func() bool { return r.renewals() >= before+n }, "%d renewals", n)
}

func TestALockIsRenewedForAsLongAsItIsHeld(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		const ttl = short / 2
		begin, seen := time.Now(), &recorder{}
		lock := take(t, c.locker(redlock.WithObserver(seen)), "name", redlock.TTL(ttl), redlock.AutoExtend())
		done := lock.Done()
		eventually(t, func() bool { return time.Since(begin) > 2*ttl }, "two TTLs later")
		require.NoError(t, lock.Err())
		require.False(t, isOver(done))
		require.GreaterOrEqual(t, seen.renewals(), 3)
		require.NoError(t, lock.Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}

// Trap 10: a watchdog that goes on after the end.
func TestAfterUnlockNothingIsRenewed(t *testing.T) {
	c := onReal(t, 3)
	seen := &recorder{}
	locker := c.locker(redlock.WithObserver(seen))
	lock := take(t, locker, "name", redlock.TTL(short/2), redlock.AutoExtend())
	seen.waitForRenewals(t, 2)
	require.NoError(t, lock.Unlock(t.Context()))
	seen.waitForVotes(t, "unlock", "name", 3)
	asked, verdicts := c.settled(), len(seen.verdictsOn("extend"))
	pass(900 * time.Millisecond)
	require.Equal(t, asked, c.asked())
	require.Len(t, seen.verdictsOn("extend"), verdicts)
	c.eventuallyEmpty()
}

// Trap 7: a renewal that is under way makes no key of a lock that is being unlocked.
func TestARenewalBesideAnUnlockLeavesNoKey(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		fake := clocktest.New()
		locker := c.locker(redlock.WithClock(fake))
		for i := range 200 {
			lock := take(t, locker, fmt.Sprint(i), redlock.AutoExtend())
			_, _ = fake.Next()
			go fake.Advance(long / 3)
			for range i % 20 {
				runtime.Gosched()
			}
			require.NoError(t, lock.Unlock(t.Context()))
		}
		c.eventuallyEmpty()
	})
}

// Trap 10: a watchdog that dies on one transient error.
func TestAWatchdogOutlivesNodesThatDoNotAnswerForAWhile(t *testing.T) {
	c := onReal(t, 5)
	seen := &recorder{}
	locker := lockerOver(t, c.nodes(pool.WithTimeout(100*time.Millisecond)), redlock.WithObserver(seen))
	seen.connect(t, locker, 5)
	lock := take(t, locker, "name", redlock.TTL(2*short), redlock.AutoExtend())
	c.eventuallyHeld("name", lock.Token())
	for _, p := range c.processes[:3] {
		p.Freeze()
	}
	eventually(t, func() bool { return len(seen.verdictsOn("extend")) > seen.renewals()+1 }, "two renewals that fail")
	for _, p := range c.processes[:3] {
		p.Thaw()
	}
	before := seen.renewals()
	eventually(t, func() bool { return seen.renewals() > before || lock.Err() != nil }, "one that does not")
	require.NoError(t, lock.Err())
	require.NoError(t, lock.Unlock(t.Context()))
	c.eventuallyEmpty()
}

func TestALockOutlivesTheRestartOfEveryNodeInTurn(t *testing.T) {
	c := onReal(t, 5)
	seen := &recorder{}
	locker := c.locker(redlock.WithObserver(seen))
	seen.connect(t, locker, 5)
	lock := take(t, locker, "name", redlock.TTL(short), redlock.AutoExtend())
	done := lock.Done()
	c.eventuallyHeld("name", lock.Token())
	for i, s := range c.servers {
		s.Stop()
		s.Start()
		eventually(t, func() bool { return c.value(i, "name") == lock.Token() || lock.Err() != nil }, "server %d is given the key again", i)
		require.NoError(t, lock.Err())
	}
	require.False(t, isOver(done))
	require.NoError(t, lock.Unlock(t.Context()))
	c.eventuallyEmpty()
}

func TestALockIsLostWhenAMajorityForgetsItAndDoneIsInTime(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		seen := &recorder{}
		locker := c.locker(redlock.WithObserver(seen))
		seen.connect(t, locker, 5)
		lock := take(t, locker, "name", redlock.TTL(short), redlock.AutoExtend())
		done := lock.Done()
		c.eventuallyHeld("name", lock.Token())
		for _, s := range c.servers[:3] {
			s.Stop()
		}
		for _, s := range c.servers[:3] {
			s.Start()
		}
		receive(t, done, "the loss")
		require.Contains(t, []error{redlock.ErrLost, redlock.ErrExpired}, lock.Err())
		require.Zero(t, lock.Remaining())
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
		c.eventuallyEmpty() // what was given again while it was lost, too
		extends := len(seen.verdictsOn("extend"))
		pass(short / 2)
		require.Len(t, seen.verdictsOn("extend"), extends, "nothing is renewed after a loss")
	})
}

func TestAWatchdogNoticesAtItsNextRenewalThatTheLockWasReleasedByForce(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), "name", redlock.TTL(short), redlock.AutoExtend())
		c.eventuallyHeld("name", lock.Token())
		require.NoError(t, c.locker().ForceUnlock(t.Context(), "name"))
		next := waits(t, c.locker(), "name")
		receive(t, lock.Done(), "the loss")
		require.ErrorIs(t, lock.Err(), redlock.ErrLost)
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
		require.NoError(t, next.Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}

// Whoever waits beside a holder knows of the loss what the holder knows.
func TestALockThatIsLostGoesToTheNextInTheLineAtOnce(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		fake := clocktest.New()
		locker := c.locker(redlock.WithClock(fake))
		lock := waits(t, locker, "name", redlock.TTL(30*time.Minute), redlock.AutoExtend())
		c.eventuallyHeld("name", lock.Token())
		waiter := queue(t, t.Context(), locker, "name")
		require.NoError(t, c.locker().ForceUnlock(t.Context(), "name"))
		fake.Advance(10 * time.Minute)
		next := won(t, waiter) // and the clock stands still
		require.ErrorIs(t, lock.Err(), redlock.ErrLost)
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
		c.eventuallyHeld("name", next.Token())
		require.NoError(t, next.Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}

func TestAUsersExtendBesideTheWatchdogIsKept(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		seen := &recorder{}
		lock := take(t, c.locker(redlock.WithObserver(seen)), "name", redlock.TTL(900*time.Millisecond), redlock.AutoExtend())
		for range 20 {
			require.NoError(t, lock.Extend(t.Context(), 900*time.Millisecond))
		}
		require.NoError(t, lock.Extend(t.Context(), long))
		until := lock.ValidUntil()
		pass(time.Second)
		require.False(t, lock.ValidUntil().Before(until), "no renewal makes it shorter")
		require.Greater(t, lock.Remaining(), long/2)
		require.NoError(t, lock.Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}

func TestCloseEndsRenewalsAndLeavesTheLockToItsDeadline(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		seen := &recorder{}
		locker, err := redlock.New(c.nodes(), redlock.WithObserver(seen))
		require.NoError(t, err)
		lock := take(t, locker, "name", redlock.TTL(900*time.Millisecond), redlock.AutoExtend())
		seen.waitForRenewals(t, 1)
		require.NoError(t, locker.Close())
		receive(t, lock.Done(), "the deadline")
		require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
		c.eventuallyEmpty()
	})
}

func TestManyLocksAreRenewedByOneWatchdog(t *testing.T) {
	c := onReal(t, 3)
	seen := &recorder{}
	var dials atomic.Int64
	locker := lockerOver(t, c.nodes(throughWires(func(string, *wire) { dials.Add(1) })), redlock.WithObserver(seen))
	var locks []*redlock.Lock
	for i := range 200 {
		locks = append(locks, take(t, locker, fmt.Sprint(i), redlock.TTL(short), redlock.AutoExtend()))
	}
	begin := time.Now()
	eventually(t, func() bool { return time.Since(begin) > short+short/3 }, "a TTL and more")
	for _, lock := range locks {
		require.NoError(t, lock.Err())
		require.NoError(t, lock.Unlock(t.Context()))
	}
	require.EqualValues(t, 3, dials.Load(), "one connection to each node")
	c.eventuallyEmpty()
}
