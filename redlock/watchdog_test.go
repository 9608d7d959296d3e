package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/internal/outcome"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// What renewals that failed have made longer does not outlive the lock by a TTL.
func TestRenewFor_InVainLeavesNothingWhenTheLockExpires(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker := c.locker()
	unlock(t, c.everywhere(take(t, locker, "name", redlock.TTL(time.Minute))))
	lock := c.everywhere(take(t, locker, "name", redlock.TTL(2*time.Second), redlock.RenewFor(redlock.NoLimit)))
	freeze(c.processes[:2]...)
	eventually(t, func() bool { return lock.Err() != nil }, "the end")
	thaw(c.processes[:2]...)
	c.eventuallyEmpty()
}

func TestRenewFor_RenewsSoonAndThenWheneverAThirdOfTheTTLHasGoneBy(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		fake, seen := clocktest.New(), &recorder{}
		lock := take(t, c.locker(redlock.WithClock(fake), redlock.WithObserver(seen)), "name", redlock.TTL(30*time.Minute), redlock.RenewFor(redlock.NoLimit))
		for i := range 5 {
			require.Len(t, seen.verdictsOn("extend"), i)
			seen.renewed(t, fake, i, 30*time.Minute)
			require.Equal(t, 30*time.Minute-18*time.Second-2*time.Millisecond, lock.Remaining())
		}
	})
}

func TestRenewFor_TriesAgainEverSoonerUntilTheDeadline(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker, fake, seen := c.timed(redlock.WithDrift(0, 0))
		seen.connect(t, locker, 3)
		lock := c.everywhere(take(t, locker, "name", redlock.TTL(24*time.Second), redlock.RenewFor(redlock.NoLimit)))
		kill(c.servers[0], c.servers[1])
		until := lock.ValidUntil()
		nextAt(t, fake, renewalIn(0, 24*time.Second))
		for i := 1; lock.Err() == nil && i < 20; i++ {
			eventually(t, func() bool { return len(seen.verdictsOn("extend")) == i }, "attempt %d", i)
			nextAt(t, fake, lock.Remaining()/8)
		}
		require.Equal(t, until, lock.ValidUntil())
		require.NoError(t, lock.Err(), "tried to the end")
		fake.Advance(lock.Remaining())
		require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
	})
}

func TestRenewFor_ALockThatItsHolderMadeLongerIsRenewedLater(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		fake, seen := clocktest.New(), &recorder{}
		lock := take(t, c.locker(redlock.WithClock(fake), redlock.WithObserver(seen), redlock.WithDrift(0, 0)), "name",
			redlock.TTL(30*time.Minute), redlock.RenewFor(redlock.NoLimit))
		require.NoError(t, lock.Extend(t.Context(), 120*time.Minute))
		nextAt(t, fake, renewalIn(0, 30*time.Minute))          // too early
		require.NoError(t, fake.WaitForTimers(t.Context(), 2)) // that of Done, and the watchdog's
		fake.Advance(100*time.Minute - renewalIn(0, 0))
		eventually(t, func() bool { return seen.renewals() == 2 }, "a renewal when 20 minutes are left")
		require.Equal(t, 30*time.Minute, lock.Remaining())
		nextAt(t, fake, 10*time.Minute)
		eventually(t, func() bool { return seen.renewals() == 3 }, "and so on")
	})
}

// hangingRenewal takes a lock whose first renewal is on its way to frozen servers.
func hangingRenewal(t *testing.T) (*cluster, *clocktest.Fake, *redlock.Lock) {
	t.Helper()
	c := onReal(t, 3)
	var renewals atomic.Int64
	locker, fake, seen := timed(t, c.nodes(pool.WithTimeout(long), counting("PEXPIRE", &renewals)))
	seen.connect(t, locker, 3)
	lock := c.everywhere(take(t, locker, "name", redlock.TTL(30*time.Minute), redlock.RenewFor(redlock.NoLimit)))
	renewals.Store(0) // the first acquire was counted, too
	freeze(c.processes...)
	t.Cleanup(func() { thaw(c.processes...) }) // also if the test has failed: its Locker would wait for them
	nextAt(t, fake, renewalIn(0, 30*time.Minute))
	eventually(t, func() bool { return renewals.Load() == 3 }, "the renewal is on its way")
	return c, fake, lock
}

// The danger: a watchdog that is bounded by the new deadline, and reports the loss after the real expiry.
func TestDone_IsClosedAtTheDeadlineEvenIfEveryRenewalHangs(t *testing.T) {
	t.Parallel()
	c, fake, lock := hangingRenewal(t)
	fake.Advance(lock.Remaining() - 1)
	done := lock.Done()
	require.False(t, isOver(done))
	require.NoError(t, lock.Err())
	fake.Advance(1)
	require.True(t, isOver(done))
	require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
	thaw(c.processes...)
	c.eventuallyEmpty() // the renewal got through after all, and would keep the key for longer than anybody counts on
}

func TestRenewFor_EndsTheRenewals(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		fake, seen := clocktest.New(), &recorder{}
		lock := take(t, c.locker(redlock.WithClock(fake), redlock.WithObserver(seen), redlock.WithDrift(0, 0)), "name",
			redlock.TTL(30*time.Minute), redlock.RenewFor(45*time.Minute))
		begin, done := fake.Now(), lock.Done()
		for i := range 3 {
			seen.renewed(t, fake, i, 30*time.Minute)
		}
		require.Equal(t, begin.Add(45*time.Minute), lock.ValidUntil())
		fake.Advance(25 * time.Minute)
		require.True(t, isOver(done))
		require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
		require.Len(t, seen.verdictsOn("extend"), 3)
	})
}

// The danger: zero that means for ever, or a limit of the Locker that a call does not have.
func TestRenewFor_TheCallComesBeforeTheLocker(t *testing.T) {
	t.Parallel()
	const ttl = 30 * time.Minute
	never, always := redlock.RenewFor(0), redlock.RenewFor(redlock.NoLimit)
	for name, row := range map[string]struct {
		locker   []redlock.Option
		call     []redlock.LockOption
		lock, do bool // renewed
	}{
		"by default":                    {lock: false, do: true},
		"a default of the Locker":       {locker: []redlock.Option{always}, lock: true, do: true},
		"none, by default":              {locker: []redlock.Option{never}},
		"none":                          {call: []redlock.LockOption{never}},
		"none, in spite of the default": {locker: []redlock.Option{always}, call: []redlock.LockOption{never}},
		"in spite of the default":       {locker: []redlock.Option{never}, call: []redlock.LockOption{always}, lock: true, do: true},
		"a longer TTL stands":           {call: []redlock.LockOption{redlock.RenewFor(time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			c, fake := onMini(t, 1), clocktest.New()
			locker := c.locker(append(row.locker, redlock.WithClock(fake), redlock.TTL(ttl))...)
			renewed := func() bool {
				wait, _ := fake.Next()
				return wait <= ttl/10 && wait > 0
			}
			lock := take(t, locker, "name", row.call...)
			require.Equal(t, row.lock, renewed(), "TryLock")
			unlock(t, lock)
			require.NoError(t, locker.Do(t.Context(), "name", func(context.Context, *redlock.Lock) error {
				require.Equal(t, row.do, renewed(), "Do")
				return nil
			}, row.call...))
		})
	}
}

// short is a TTL that is renewed several times in a test, and that a busy machine keeps.
const short = 3 * time.Second

// The danger: a watchdog that goes on after the end.
func TestUnlock_EndsTheRenewals(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, fake, seen := c.timed()
	lock := take(t, locker, "name", redlock.TTL(30*time.Minute), redlock.RenewFor(redlock.NoLimit))
	for i := range 2 {
		seen.renewed(t, fake, i, 30*time.Minute)
	}
	unlock(t, lock)
	seen.waitForVotes(t, "extend", "name", 6)
	seen.waitForVotes(t, "unlock", "name", 3)
	asked := c.settled()
	for range 4 {
		fake.Advance(10 * time.Minute)
	}
	require.Equal(t, asked, c.settled())
	require.Len(t, seen.verdictsOn("extend"), 2)
}

// A renewal that is under way makes no key of a lock that is being unlocked.
func TestUnlock_BesideARenewalLeavesNoKey(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker, fake, _ := c.timed()
		for i := range 200 {
			lock := take(t, locker, fmt.Sprint(i), redlock.RenewFor(redlock.NoLimit))
			_, _ = fake.Next()
			go fake.Advance(long / 3)
			for range i % 20 {
				runtime.Gosched()
			}
			unlock(t, lock)
		}
	})
}

// The danger: a watchdog that dies on one transient error.
func TestRenewFor_OutlivesNodesThatDoNotAnswerForAWhile(t *testing.T) {
	t.Parallel()
	c := onReal(t, 5)
	locker, seen := observed(t, c.nodes(pool.WithTimeout(brief)))
	seen.connect(t, locker, 5)
	lock := c.everywhere(take(t, locker, "name", redlock.TTL(2*short), redlock.RenewFor(redlock.NoLimit)))
	freeze(c.processes[:3]...)
	eventually(t, func() bool { return len(seen.verdictsOn("extend")) > seen.renewals()+1 }, "two renewals that fail")
	thaw(c.processes[:3]...)
	before := seen.renewals()
	eventually(t, func() bool { return seen.renewals() > before || lock.Err() != nil }, "one that does not")
	require.NoError(t, lock.Err())
	unlock(t, lock)
}

func TestRenewFor_TheLockOutlivesTheRestartOfEveryNodeInTurn(t *testing.T) {
	t.Parallel()
	c := onReal(t, 5)
	locker, seen := c.observed()
	seen.connect(t, locker, 5)
	lock := take(t, locker, "name", redlock.TTL(short), redlock.RenewFor(redlock.NoLimit))
	done := lock.Done()
	c.eventuallyHeld("name", lock.Token())
	for i, s := range c.servers {
		s.Stop()
		s.Start()
		eventually(t, func() bool { return c.value(i, "name") == string(lock.Token()) || lock.Err() != nil }, "server %d is given the key again", i)
		before := seen.renewals()
		eventually(t, func() bool { return seen.renewals() >= before+2 || lock.Err() != nil }, "it counts, as a renewal has begun since")
		require.NoError(t, lock.Err())
	}
	require.False(t, isOver(done))
	unlock(t, lock)
}

func TestRenewFor_TheLockIsLostWhenAMajorityForgetsIt(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		locker, fake, seen := c.timed()
		seen.connect(t, locker, 5)
		lock := take(t, locker, "name", redlock.TTL(24*time.Minute), redlock.RenewFor(redlock.NoLimit))
		done := lock.Done()
		c.eventuallyHeld("name", lock.Token())
		kill(c.servers[:3]...)
		restart(c.servers[:3]...)
		seen.connect(t, locker, 5)
		turnUntil(t, fake, time.Second, func() bool { return isOver(done) })
		receive(t, done, "the loss")
		require.True(t, errors.Is(lock.Err(), redlock.ErrGone) || errors.Is(lock.Err(), redlock.ErrExpired), "%v", lock.Err())
		require.Zero(t, lock.Remaining())
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
		c.eventuallyEmpty() // what was given again while it was lost, too
		locker.Drain()
		extends := len(seen.verdictsOn("extend"))
		fake.Advance(long)
		if c.processes != nil {
			c.settled()
		}
		require.Len(t, seen.verdictsOn("extend"), extends, "nothing is renewed after a loss")
	})
}

// A server that announces no changes.
func TestRenewFor_NoticesAForcedReleaseAtTheNextRenewal(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		fake := clocktest.New()
		lock := c.everywhere(take(t, c.locker(redlock.WithClock(fake)), "name", redlock.TTL(30*time.Minute), redlock.RenewFor(redlock.NoLimit)))
		c.free("name")
		waits(t, c.locker(), "name")
		require.NoError(t, lock.Err(), "it has not asked yet")
		nextAt(t, fake, renewalIn(0, 30*time.Minute))
		receive(t, lock.Done(), "the loss")
		require.ErrorIs(t, lock.Err(), redlock.ErrGone)
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
	})
}

// Whoever waits beside a holder knows of the loss what the holder knows.
func TestRenewFor_ALockThatIsLostGoesToTheNextWaiterAtOnce(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker, fake, _ := c.timed()
		lock := c.everywhere(waits(t, locker, "name", redlock.TTL(30*time.Minute), redlock.RenewFor(redlock.NoLimit)))
		waiter := queue(t, t.Context(), locker, "name")
		c.free("name")
		fake.Advance(10 * time.Minute)
		next := won(t, waiter) // and the clock stands still
		require.ErrorIs(t, lock.Err(), redlock.ErrGone)
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
		c.eventuallyHeld("name", next.Token())
	})
}

func TestExtend_BesideRenewalsIsNotMadeShorter(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		fake, seen := clocktest.New(), &recorder{}
		lock := take(t, c.locker(redlock.WithClock(fake), redlock.WithObserver(seen)), "name", redlock.TTL(30*time.Minute), redlock.RenewFor(redlock.NoLimit))
		for range 20 {
			go fake.Advance(10 * time.Minute)
			require.NoError(t, lock.Extend(t.Context(), 10*long))
		}
		until := lock.ValidUntil()
		fake.Advance(long)
		if c.processes != nil {
			c.settled()
		}
		require.False(t, lock.ValidUntil().Before(until))
	})
}

func TestClose_EndsTheRenewalsAndLeavesTheLockToItsDeadline(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		fake, seen := clocktest.New(), &recorder{}
		locker := must(redlock.New(c.nodes(), redlock.WithObserver(seen), redlock.WithClock(fake)))(t)
		lock := take(t, locker, "name", redlock.TTL(30*time.Minute), redlock.RenewFor(redlock.NoLimit))
		seen.renewed(t, fake, 0, 30*time.Minute)
		require.NoError(t, locker.Close())
		fake.Advance(lock.Remaining() - 1)
		require.NoError(t, lock.Err())
		fake.Advance(1)
		receive(t, lock.Done(), "the deadline")
		require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
		require.Equal(t, 1, seen.renewals())
	})
}

func TestRenewFor_RenewsManyLocksOverOneConnectionToEachNode(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	fake, seen := clocktest.New(), &recorder{}
	var dials atomic.Int64
	nodes := c.nodes(throughWires(func(string, *tapped) { dials.Add(1) }))
	locker := lockerOver(t, nodes, redlock.WithClock(fake), redlock.WithObserver(seen))
	var locks []*redlock.Lock
	for i := range 200 {
		locks = append(locks, take(t, locker, fmt.Sprint(i), redlock.TTL(30*time.Minute), redlock.RenewFor(redlock.NoLimit)))
	}
	for i := range 4 { // a TTL and more
		eventually(t, func() bool { return redlock.ToRenew(locker) == len(locks) }, "the schedule")
		nextAt(t, fake, renewalIn(i, 30*time.Minute))
		eventually(t, func() bool { return seen.renewals() == 200*(i+1) }, "renewal %d of each", i)
	}
	for _, lock := range locks {
		require.NoError(t, lock.Err())
		unlock(t, lock)
	}
	require.EqualValues(t, 3, dials.Load())
}

// renewedOnce returns a lock on real servers that was renewed once, so that its key is tracked. By the fake no further renewal
// is due.
func renewedOnce(t *testing.T, c *cluster, opts ...redlock.Option) (lock *redlock.Lock, fake *clocktest.Fake) {
	t.Helper()
	fake, seen := clocktest.New(), &recorder{}
	locker := c.locker(append(opts, redlock.WithClock(fake), redlock.WithObserver(seen))...)
	lock = take(t, locker, "name", redlock.TTL(30*time.Minute), redlock.RenewFor(redlock.NoLimit))
	seen.waitForVotes(t, "acquire", "name", len(c.servers))
	nextAt(t, fake, renewalIn(0, 30*time.Minute))
	seen.waitForVotes(t, "extend", "name", len(c.servers))
	c.eventuallyTracked()
	return lock, fake
}

// The danger: a holder that works on beside the next for a third of the TTL.
func TestRenewFor_ALockThatIsDeletedIsLostAtOnce(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]redlock.Option{nil, {redlock.WithFencing()}} {
		for how, lose := range map[string]func(*cluster){
			"by hand":       func(c *cluster) { c.doAll("DEL", "name") },
			"on a majority": func(c *cluster) { c.do(0, "DEL", "name"); c.do(2, "UNLINK", "name"); c.do(4, "DEL", "name") },
			"by an operator": func(c *cluster) {
				require.NoError(t, errOf(c.locker().ForceUnlock(context.Background(), "name")))
			},
			"with all keys":     func(c *cluster) { c.doAll("FLUSHALL") },
			"with its database": func(c *cluster) { c.doAll("FLUSHDB", "ASYNC") },
			"by an overwrite":   func(c *cluster) { c.doAll("SET", "name", "another's", "PX", 100_000) },
			"by data":           func(c *cluster) { c.doAll("DEL", "name"); c.doAll("RPUSH", "name", "data") },
			"by a new name": func(c *cluster) {
				c.mayLeave()
				c.do(0, "RENAME", "name", "x")
				c.do(1, "RENAME", "name", "x")
				c.do(2, "RENAME", "name", "x")
			},
			"by its expiry": func(c *cluster) { c.doAll("PEXPIRE", "name", 1) },
			"by eviction": func(c *cluster) {
				c.doAll("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
				c.doAll("CONFIG", "SET", "maxmemory", 1)
			},
		} {
			t.Run(fmt.Sprintf("%s, %d options", how, len(opts)), func(t *testing.T) {
				t.Parallel()
				c := onReal(t, 5)
				lock, _ := renewedOnce(t, c, opts...)
				ctx := contextOf(t, lock)
				lose(c)
				receive(t, ctx.Done(), "the end of the context, while the clock stands still")
				require.ErrorIs(t, context.Cause(ctx), redlock.ErrGone)
				err := lock.Unlock(t.Context())
				require.True(t, errors.Is(err, redlock.ErrNotHeld) || errors.Is(err, nodeerr.ErrForeign), err)
			})
		}
	}
}

// The danger: a third party gives the key another TTL. The push tells the holder, who could renew the lock in time.
func TestRenewFor_ALockWhoseTTLIsCutIsRenewedAtOnce(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]redlock.Option{"plain": nil, "fenced": {redlock.WithFencing()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := onReal(t, 3)
			lock := take(t, c.locker(opts...), "name", redlock.TTL(long), redlock.RenewFor(redlock.NoLimit))
			c.eventuallyTracked()
			for range 3 {
				c.doAll("PEXPIRE", "name", 20_000)
				c.each(func(i int) { eventually(t, func() bool { return c.ttl(i, "name") > long/2 }, "server %d", i) })
			}
			require.NoError(t, lock.Err())
			unlock(t, lock)
		})
	}
}

func TestRenewFor_ALockThatAMajorityHoldsIsNotLost(t *testing.T) {
	t.Parallel()
	c := onReal(t, 5)
	lock, fake := renewedOnce(t, c)
	observed := func() int { return c.calls("eval") } // extensions go by their hashes
	for range 3 {
		for name, change := range map[string]func(){
			"on a minority it is deleted": func() { c.do(0, "DEL", "name"); c.do(1, "DEL", "name") },
			"it is made longer":           func() { c.doAll("PEXPIRE", "name", 10_000_000) },
			"it is made to stay":          func() { c.doAll("PERSIST", "name") },
			"it is set again":             func() { c.doAll("SET", "name", lock.Token(), "XX", "KEEPTTL") },
			"two nodes forget all":        func() { c.do(3, "FLUSHALL"); c.do(4, "FLUSHALL") },
		} {
			before := observed()
			change()
			eventually(t, func() bool { return observed() >= before+2 }, "what is pushed is looked into: %s", name)
			c.settled()
			require.NoError(t, lock.Err(), name)
			lock.Remaining()
			require.NoError(t, lock.Extend(t.Context(), 31*time.Minute), "which gives it back to those that lost it")
			c.eventuallyHeld("name", lock.Token())
			c.settled()
			require.NoError(t, lock.Extend(t.Context(), 31*time.Minute), "from which on they count")
		}
	}
	fake.Advance(time.Second)
	unlock(t, lock)
	c.eventuallyEmpty()
}

// The server tells the connection that comes across an expired key least of all that it is gone.
func TestRenewFor_ALockThatTheProcessItselfTakesAwayIsLost(t *testing.T) {
	t.Parallel()
	c := onReal(t, 5)
	c.doAll("CONFIG", "SET", "hz", 1) // expired keys stay for long, unless a command comes across them
	nodes := c.nodes()
	locker, fake, seen := timed(t, nodes)
	other := lockerOver(t, nodes)
	for i := range 20 {
		name := fmt.Sprint("name", i)
		lock := take(t, locker, name, redlock.TTL(30*time.Minute), redlock.RenewFor(redlock.NoLimit))
		seen.waitForVotes(t, "acquire", name, len(c.servers))
		nextAt(t, fake, renewalIn(0, 30*time.Minute))
		seen.waitForVotes(t, "extend", name, len(c.servers))
		c.doAll("PEXPIRE", name, 20)
		var next *redlock.Lock
		eventually(t, func() (taken bool) {
			var err error
			next, err = other.TryLock(t.Context(), name)
			return err == nil
		}, "the lock is taken by another")
		receive(t, lock.Done(), "the loss")
		require.ErrorIs(t, lock.Err(), redlock.ErrGone)
		unlock(t, next)
		_ = lock.Unlock(t.Context())
	}
}

// When no renewal is to come any more, the pushes are all that is left.
func TestRenewFor_ALockThatItEndsIsWatchedUntilThen(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, fake, seen := c.timed(redlock.WithDrift(0, 0))
	lock := take(t, locker, "name", redlock.TTL(30*time.Minute), redlock.RenewFor(35*time.Minute))
	for i := range 2 {
		nextAt(t, fake, renewalIn(i, 30*time.Minute))
		seen.waitForVotes(t, "extend", "name", 3*(i+1))
	}
	require.Less(t, lock.Remaining(), 30*time.Minute, "it is renewed no more")
	c.doAll("DEL", "name")
	receive(t, lock.Done(), "the loss")
	require.ErrorIs(t, lock.Err(), redlock.ErrGone)
}

// A lock that its holder has extended by more than a renewal would is not renewed for long.
func TestRenewFor_ALockThatItsHolderHasExtendedIsWatched(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, fake, seen := c.timed()
	take(t, locker, "first", redlock.TTL(30*time.Minute), redlock.RenewFor(redlock.NoLimit)) // from here on the nodes track
	nextAt(t, fake, renewalIn(0, 30*time.Minute))
	seen.waitForVotes(t, "extend", "first", 3)
	lock := take(t, locker, "name", redlock.TTL(30*time.Minute), redlock.RenewFor(redlock.NoLimit))
	seen.waitForVotes(t, "acquire", "name", 3)
	require.NoError(t, lock.Extend(t.Context(), 2*time.Hour))
	before := c.calls("eval")
	fake.Advance(renewalIn(0, 30*time.Minute))
	eventually(t, func() bool { return c.calls("eval") >= before+3 }, "its key is observed")
	c.settled()
	c.doAll("DEL", "name")
	receive(t, lock.Done(), "the loss")
	require.ErrorIs(t, lock.Err(), redlock.ErrGone)
}

// The steady state: a renewal is one command and its preface, nothing is pushed, and nothing observed.
func TestRenewFor_ObservesNothingThatTheHolderItselfChanges(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, fake, seen := c.timed()
	take(t, locker, "name", redlock.TTL(30*time.Minute), redlock.RenewFor(redlock.NoLimit))
	nextAt(t, fake, renewalIn(0, 30*time.Minute))
	c.settled()
	before := c.calls("eval", "client|caching")
	for i := range 20 {
		nextAt(t, fake, renewalIn(i+1, 30*time.Minute))
		seen.waitForVotes(t, "extend", "name", 3*(i+2))
	}
	require.LessOrEqual(t, c.calls("eval", "client|caching"), before+3*20+3, "extensions go by their hashes")
}

// The danger: each observation has another key pushed, without end.
func TestRenewFor_AServerThatTracksFewKeysIsLeftInPeace(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	c.doAll("CONFIG", "SET", "tracking-table-max-keys", 1)
	locker, fake, seen := c.timed()
	var locks []*redlock.Lock
	for i := range 20 {
		locks = append(locks, take(t, locker, fmt.Sprint(i), redlock.TTL(30*time.Minute), redlock.RenewFor(redlock.NoLimit)))
	}
	nextAt(t, fake, renewalIn(0, 30*time.Minute))
	eventually(t, func() bool { return seen.renewals() == len(locks) }, "all are renewed")
	require.LessOrEqual(t, c.settled(), 3*len(locks)*8)
	for _, lock := range locks {
		require.NoError(t, lock.Err())
	}
}

// After a flush all keys of a node are observed, a bounded number at a time.
func TestRenewFor_AllLocksThatAreFlushedAreLost(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, fake, seen := timed(t, c.nodes(pool.WithTimeout(long)))
	const many = 1500
	var locks []*redlock.Lock
	for i := range many {
		locks = append(locks, take(t, locker, fmt.Sprint(i), redlock.TTL(30*time.Minute), redlock.RenewFor(redlock.NoLimit)))
	}
	nextAt(t, fake, renewalIn(0, 30*time.Minute))
	eventually(t, func() bool { return seen.renewals() == many }, "all are renewed")
	c.doAll("FLUSHALL")
	for _, lock := range locks {
		receive(t, lock.Done(), "its loss")
		require.ErrorIs(t, lock.Err(), redlock.ErrGone)
	}
}

// The danger: a goroutine for each push, of which a neighbour has the server send as many as it likes.
func TestRenewFor_ManyFlushesStartNoGoroutineEach(t *testing.T) {
	c := onReal(t, 1)
	locker, fake, seen := timed(t, c.nodes(pool.WithTimeout(long)))
	const many = 500
	for i := range many {
		take(t, locker, fmt.Sprint(i), redlock.TTL(30*time.Minute), redlock.RenewFor(redlock.NoLimit))
	}
	nextAt(t, fake, renewalIn(0, 30*time.Minute))
	eventually(t, func() bool { return seen.renewals() == many }, "all are renewed")
	c.settled()
	before, most := runtime.NumGoroutine(), 0
	for range 100 {
		c.do(0, "EVAL", "redis.call('SELECT', 9) for i = 1, 200 do redis.call('FLUSHDB') end", 0)
		most = max(most, runtime.NumGoroutine())
	}
	require.Less(t, most, before+100)
}

// The danger: the metrics of jobs that end while a renewal is under way look like those of an outage.
func TestRenewFor_ARenewalThatTheReleaseOvertakesIsNoOutage(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, fake, seen := timed(t, c.nodes(pool.WithTimeout(long)))
	lock := c.everywhere(take(t, locker, "name", redlock.TTL(30*time.Minute), redlock.RenewFor(redlock.NoLimit)))
	freeze(c.processes[0], c.processes[1])
	nextAt(t, fake, renewalIn(0, 30*time.Minute))
	seen.waitForVotes(t, event.OpExtend, "name", 1)
	released := make(chan error, 1)
	go func() { released <- lock.Unlock(t.Context()) }()
	receive(t, lock.Done(), "the end of the lock")
	thaw(c.processes[0], c.processes[1])
	require.NoError(t, receive(t, released, "the release"))
	eventually(t, func() bool { return len(seen.verdictsOn(event.OpExtend)) > 0 && len(eventsOf[event.Extend](seen)) > 0 }, "the renewal ends")
	require.Equal(t, outcome.Unanswered, outcome.Round(seen.verdictsOn(event.OpExtend)[0].Err))
	require.Equal(t, outcome.Canceled, outcome.Extend(eventsOf[event.Extend](seen)[0].Err))
}

// What the late votes of an extension that was given up show, and have left behind, is cleaned up all the same.
func TestExtend_ALockThatLateVotesShowToBeLostLeavesNoKey(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker := lockerOver(t, c.nodes(pool.WithTimeout(long), pool.WithMaxOverdue(long)))
	lock := c.everywhere(take(t, locker, "name", redlock.TTL(long)))
	c.do(0, "DEL", "name")
	for i := range 2 {
		c.do(i+1, "SET", "name", "another's", "PX", long.Milliseconds())
	}
	freeze(c.processes...)
	ctx := within(t, 50*time.Millisecond)
	require.ErrorIs(t, lock.Extend(ctx, long), redlock.ErrNoQuorum)
	thaw(c.processes...)
	receive(t, lock.Done(), "the loss")
	require.ErrorIs(t, lock.Err(), redlock.ErrGone)
	eventually(t, func() bool { return c.holding("name", lock.Token()) == 0 }, "what was given again is released")
}
