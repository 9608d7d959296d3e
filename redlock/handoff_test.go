package redlock_test

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// handsOn lets locks go from hand to hand for a fifth of their TTL, which in tests is an hour.
var handsOn = redlock.WithLocalHandoff(long / 5)

// lineUp has a lock held, and calls that wait for it, one behind the other.
func lineUp(tb testing.TB, locker *redlock.Locker, n int, opts ...redlock.LockOption) (*redlock.Lock, []<-chan held) {
	tb.Helper()
	lock := waits(tb, locker, "name", opts...)
	var waiters []<-chan held
	for range n {
		waiters = append(waiters, inLine(tb, locker, opts...))
	}
	return lock, waiters
}

// inLine has one more call wait at the end of the line.
func inLine(tb testing.TB, locker *redlock.Locker, opts ...redlock.LockOption) <-chan held {
	tb.Helper()
	before := redlock.Waiting(locker, "name")
	waiter := lockBeside(tb.Context(), locker, "name", opts...)
	eventually(tb, func() bool { return redlock.Waiting(locker, "name") == before+1 }, "it waits")
	return waiter
}

// handed returns the lock of a waiter, after having checked that it is the same on the nodes.
func handed(tb testing.TB, c *cluster, waiter <-chan held, token redlock.Token) *redlock.Lock {
	tb.Helper()
	lock := won(tb, waiter)
	require.NoError(tb, lock.Err())
	require.Equal(tb, len(c.servers), c.holding("name", token))
	return lock
}

func TestLocalHandoff_GivesTheLockToTheNextWaiterWithoutAskingANode(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker(handsOn)
		lock, waiters := lineUp(t, locker, 5)
		token := c.common("name")
		asked := 0
		if c.processes != nil {
			asked = c.settled()
		}
		for i, waiter := range waiters {
			unlock(t, lock)
			for _, later := range waiters[i+1:] {
				require.Empty(t, later, "one after the other")
			}
			lock = handed(t, c, waiter, token)
		}
		if c.processes != nil {
			require.Equal(t, asked, c.settled())
		}
	})
}

func TestLocalHandoff_AnEarlierHolderHasNoEffectOnThePresentOne(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker(handsOn)
		first, waiters := lineUp(t, locker, 1)
		late := contextOf(t, first)
		done := first.Done()
		unlock(t, first)
		second := won(t, waiters[0])
		before := second.ValidUntil()

		receive(t, done, "the end of the first")
		receive(t, late.Done(), "the end of its context")
		require.ErrorIs(t, context.Cause(late), redlock.ErrReleased)
		require.ErrorIs(t, first.Err(), redlock.ErrReleased)
		require.Zero(t, first.Remaining())
		require.Empty(t, first.Token(), "it is that of another")
		require.Empty(t, second.Token(), "it may become that of another")
		require.ErrorIs(t, first.Extend(t.Context(), 2*long), redlock.ErrReleased)
		require.ErrorIs(t, errOf(first.Detach(t.Context())), redlock.ErrReleased)
		for range 2 {
			require.ErrorIs(t, first.Unlock(t.Context()), redlock.ErrReleased)
		}
		requireIs(t, errOf(locker.TryLock(context.WithoutCancel(late), "name", redlock.Reentrant())), redlock.ErrTaken, not{redlock.ErrDeadlock})

		require.NoError(t, second.Err())
		require.Equal(t, before, second.ValidUntil())
		require.False(t, isOver(second.Done()))
		unlock(t, second)
		require.ErrorIs(t, first.Unlock(t.Context()), redlock.ErrReleased)
	})
}

func TestLocalHandoff_ReleasesTheLockIfItMayNotBePassedOn(t *testing.T) {
	t.Parallel()
	type opts = []redlock.LockOption
	this, that, own := redlock.Metadata("this"), redlock.Metadata("that"), redlock.TokenSource((&tokens{}).next)
	half, quarter := redlock.TTL(long/2), redlock.TTL(long/4)
	type row struct {
		holder, waiter opts
		change         func(t *testing.T, lock *redlock.Lock, fake *clocktest.Fake)
		handed         bool
		most           time.Duration // that is left of it for the next, if that is less than its TTL
	}
	inParallel(t, map[string]row{
		"after max":       {change: func(_ *testing.T, _ *redlock.Lock, fake *clocktest.Fake) { fake.Advance(long / 5) }},
		"but just before": {change: func(_ *testing.T, _ *redlock.Lock, fake *clocktest.Fake) { fake.Advance(long/5 - 1) }, handed: true},
		"after a quarter of a validity of its own": {
			holder: opts{half}, waiter: opts{quarter},
			change: func(_ *testing.T, _ *redlock.Lock, fake *clocktest.Fake) { fake.Advance(long / 8) },
		},
		"if the waiter wants it for longer":                {waiter: opts{redlock.TTL(long + time.Second)}},
		"but if it wants it for less":                      {waiter: opts{redlock.TTL(long - time.Second)}, handed: true},
		"if the waiter has other metadata":                 {holder: opts{this}, waiter: opts{that}},
		"but if it has the same":                           {holder: opts{this}, waiter: opts{this}, handed: true},
		"if the waiter wants another grace":                {holder: opts{redlock.Grace(grace)}},
		"but if it wants the same":                         {holder: opts{redlock.Grace(grace)}, waiter: opts{redlock.Grace(grace)}, handed: true, most: long - long/100 - 2*time.Millisecond - grace},
		"if it has a token that others may know":           {holder: opts{own}},
		"if the waiter is to have such a token":            {waiter: opts{own}},
		"if it lasts longer than the waiter's limit":       {holder: opts{half}, waiter: opts{quarter, redlock.RenewFor(long/2 - time.Millisecond)}, most: long/2 - time.Millisecond},
		"but if it lasts as long":                          {holder: opts{half}, waiter: opts{quarter, redlock.RenewFor(long / 2)}, handed: true, most: long / 2},
		"but if the waiter's TTL is longer than its limit": {waiter: opts{redlock.RenewFor(time.Second)}, handed: true},
		"if it has been extended by more than that":        {change: extended(long + time.Minute)},
		"but if it has been extended by as much":           {change: extended(long), handed: true},
	}, func(t *testing.T, tt row) {
		c, fake := onMini(t, 3), clocktest.New()
		locker := c.locker(handsOn, redlock.WithClock(fake), redlock.WithMaxTTL(2*long))
		lock, _ := lineUp(t, locker, 0, tt.holder...)
		waiter := inLine(t, locker, tt.waiter...)
		token := c.common("name")
		if tt.change != nil {
			tt.change(t, lock, fake)
		}
		unlock(t, lock)
		if !tt.handed {
			turnUntil(t, fake, time.Second, func() bool { return len(waiter) > 0 }) // others may go first
		}
		lock = won(t, waiter)
		require.LessOrEqual(t, lock.Remaining(), cmp.Or(tt.most, 2*long))
		require.Equal(t, tt.handed, c.common("name") == token)
		unlock(t, lock)
	})
}

func extended(by time.Duration) func(*testing.T, *redlock.Lock, *clocktest.Fake) {
	return func(t *testing.T, lock *redlock.Lock, _ *clocktest.Fake) {
		require.NoError(t, lock.Extend(t.Context(), by))
	}
}

func TestLocalHandoff_PassesOnWhatTryLockAndReentrantHandlesHave(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker(handsOn)
		first := take(t, locker, "name")
		ctx := contextOf(t, first)
		again := got(locker.Lock(ctx, "name", redlock.Reentrant()))(t)
		waiter := inLine(t, locker)
		c.settledWaiting()
		unlock(t, first)
		require.Empty(t, waiter, "the other handle holds it")
		unlock(t, again)
		won(t, waiter)
	})
}

// settledWaiting waits until a waiter of real servers does no more than wait.
func (c *cluster) settledWaiting() {
	c.tb.Helper()
	if c.processes != nil {
		c.eventuallyTracked()
		c.settled()
	}
}

// The danger: a reason from before the lock was handed off.
func TestLocalHandoff_WhoeverGivesUpAfterwardsLearnsThatTheLockIsTaken(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker, fake, seen := c.timed(handsOn)
		first := take(t, locker, "name")
		kill(c.servers[0], c.servers[1])
		second := inLine(t, locker)
		seen.waitForRefusals(t, 2) // with the round that was won
		// Those of the lock and of the next round, and one that looks whether calls wait.
		require.NoError(t, fake.WaitForTimers(t.Context(), 3))
		ctx, cancel := context.WithCancel(t.Context())
		third := lockBeside(ctx, locker, "name")
		eventually(t, func() bool { return redlock.Waiting(locker, "name") == 2 }, "it waits")
		require.NoError(t, first.Unlock(t.Context()), "no node is asked")
		lock := won(t, second)
		cancel()
		end := receive(t, third, "the end of Lock")
		requireIs(t, end.err, redlock.ErrTaken, not{redlock.ErrNoQuorum})
		restart(c.servers[0], c.servers[1])
		eventually(t, func() bool { return !errors.Is(lock.Unlock(t.Context()), redlock.ErrNoQuorum) }, "the nodes are back")
		c.eventuallyEmpty()
	})
}

func TestLocalHandoff_ALossEndsTheLockOfThePresentHolderOnly(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker := c.locker(handsOn)
	first, waiters := lineUp(t, locker, 2, redlock.RenewFor(redlock.NoLimit))
	c.eventuallyTracked() // by the first renewal, that of the first holder
	unlock(t, first)
	second := won(t, waiters[0])
	c.doAll("DEL", "name")
	receive(t, second.Done(), "the loss")
	require.ErrorIs(t, second.Err(), redlock.ErrGone)
	require.ErrorIs(t, first.Err(), redlock.ErrReleased)

	third := won(t, waiters[1]) // it has waited on
	require.NoError(t, third.Err())
	require.ErrorIs(t, second.Unlock(t.Context()), redlock.ErrNotHeld)
	require.NoError(t, third.Err())
}

func TestLocalHandoff_RenewsTheLockForThoseWhoWantThat(t *testing.T) {
	t.Parallel()
	c := onMini(t, 3)
	locker, fake, seen := c.timed(handsOn)
	lock, _ := lineUp(t, locker, 0)
	first, plain, second, limited := lock, inLine(t, locker), inLine(t, locker, redlock.RenewFor(redlock.NoLimit)), inLine(t, locker, redlock.RenewFor(long))
	unlock(t, first)
	fake.Advance(time.Minute) // nobody renews it
	lock = won(t, plain)
	require.Equal(t, 0, seen.renewals())
	unlock(t, lock)

	lock = won(t, second)
	before := lock.ValidUntil()
	nextAt(t, fake, 0) // at once, so that its key is tracked
	eventually(t, func() bool { return seen.renewals() == 1 }, "the first renewal")
	require.Equal(t, before.Add(time.Minute), lock.ValidUntil())
	fake.Advance(time.Minute)
	unlock(t, lock)

	lock = won(t, limited)
	until := fake.Now().Add(long)
	nextAt(t, fake, time.Second)                // no call waits
	nextAt(t, fake, 19*time.Minute-time.Second) // a third of the TTL after the last renewal
	eventually(t, func() bool { return seen.renewals() == 2 }, "the second renewal")
	require.WithinRange(t, lock.ValidUntil(), until.Add(-long/100), until, "RenewFor counts from when the holder got it")
}

// Each of many holders wants the lock renewed at once, and the nodes take their time.
func TestLocalHandoff_HasOneRenewalUnderWayHoweverManyHoldersWantOne(t *testing.T) {
	t.Parallel()
	inParallel(t, map[string]bool{"all nodes hold the key": false, "one does not": true}, func(t *testing.T, forgotten bool) {
		oneRenewalUnderWay(t, forgotten)
	})
}

// oneRenewalUnderWay checks that. forgotten means that a node has lost the key, so that the next renewal is due soon.
func oneRenewalUnderWay(t *testing.T, forgotten bool) {
	wait := long / 3
	if forgotten {
		wait = 100 * time.Millisecond
	}
	c := onReal(t, 3)
	locker, fake, seen := timed(t, c.nodes(pool.WithTimeout(time.Minute)), handsOn, redlock.TTL(long))
	lock, waiters := lineUp(t, locker, 0)
	for i := range 9 {
		opts := []redlock.LockOption{redlock.TTL(long - time.Duration(i)*time.Millisecond)}
		if i%2 == 0 || forgotten {
			opts = append(opts, redlock.RenewFor(redlock.NoLimit))
		}
		waiters = append(waiters, inLine(t, locker, opts...))
	}
	c.common("name")
	if forgotten {
		c.do(0, "DEL", "name")
	}
	fake.Advance(time.Second) // the first renewal is due
	freeze(c.processes...)
	for _, waiter := range waiters {
		unlock(t, lock)
		lock = won(t, waiter)
		fake.Advance(time.Millisecond)
	}
	thaw(c.processes...)
	eventually(t, func() bool { return seen.renewals() > 0 }, "the renewal")
	c.settled()
	require.Equal(t, 1, seen.renewals())
	if !forgotten {
		fake.Advance(time.Second) // no call waits: the next timer is that of the renewal
		wait -= time.Second
	}
	eventually(t, func() bool { // it goes on for the present holder
		next, pending := fake.Next()
		return pending && next > wait-10*time.Millisecond && next <= wait
	}, "the next renewal is due in %s", wait)
	fake.AdvanceToNext()
	eventually(t, func() bool { return seen.renewals() > 1 }, "another renewal")
	unlock(t, lock)
	c.eventuallyEmpty()
}

func TestLocalHandoff_AnOwnerIsThatOfItsOwnLock(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker(handsOn)
		lock, _ := lineUp(t, locker, 0, redlock.Owner("a"))
		waiter := inLine(t, locker, redlock.Owner("b"))
		unlock(t, lock)
		won(t, waiter)
		require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name", redlock.Owner("a"), redlock.Reentrant())), redlock.ErrTaken)
		take(t, locker, "name", redlock.Owner("b"), redlock.Reentrant())
	})
}

func TestLocalHandoff_NumbersRiseFromHandToHandAndAcrossLockers(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker, other := c.locker(handsOn, redlock.WithFencing(), slowRounds()), c.locker(redlock.WithFencing())
		var last uint64
		higher := func(lock *redlock.Lock) {
			t.Helper()
			require.Greater(t, lock.Fence(), last)
			last = lock.Fence()
		}
		lock, waiters := lineUp(t, locker, 6)
		for _, waiter := range waiters { // the first round had one number, the second has a block
			higher(lock)
			unlock(t, lock)
			lock = won(t, waiter)
		}
		higher(lock)
		holder := only(t, inspect(t, locker, "name").Holders)
		require.Greater(t, holder.Fence, last, "the last of the block")
		require.Empty(t, lock.Token(), "an earlier holder has had it")
		attached := got(other.Attach(t.Context(), "name", holder.Token))(t)
		require.Equal(t, holder.Fence, attached.Fence())
		higher(attached)
		unlock(t, lock)
		for _, by := range []*redlock.Locker{other, locker} {
			lock := waits(t, by, "name")
			higher(lock)
			unlock(t, lock)
		}
		c.eventuallyFree("name")
		require.ErrorIs(t, attached.Unlock(t.Context()), redlock.ErrNotHeld)
	})
}

func TestLocalHandoff_GivesNoFencingTokensWithoutFencing(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker, seen := c.observed(handsOn)
		lock, waiters := lineUp(t, locker, 4)
		require.NoError(t, lock.Extend(t.Context(), 2*long), "so that a round follows, behind which others wait")
		for _, waiter := range waiters {
			unlock(t, lock)
			lock = won(t, waiter)
			require.Zero(t, lock.Fence())
		}
		unlock(t, lock)
		for _, e := range waitFor[event.Acquire](t, seen, 5) {
			require.Zero(t, e.Fence)
		}
	})
}

func TestLocalHandoff_ABlockThatIsUsedUpIsFollowedByARound(t *testing.T) {
	t.Parallel()
	c, seen := onMini(t, 3), &recorder{}
	locker := c.locker(handsOn, redlock.WithFencing(), redlock.WithObserver(seen), slowRounds())
	const calls = 1000
	lock, waiters := lineUp(t, locker, calls-1)
	for _, waiter := range waiters {
		unlock(t, lock)
		lock = won(t, waiter)
	}
	unlock(t, lock)
	handoffs := 0
	for _, e := range waitFor[event.Acquire](t, seen, calls) {
		if e.Handoff {
			handoffs++
		}
	}
	require.Greater(t, handoffs, calls/2)
	require.Less(t, handoffs, calls-2, "but for the first and the second")
}

// slowRounds returns a clock that goes on a little with each reading, so that rounds seem to take about a millisecond however long
// they do take, and blocks have dozens of numbers.
func slowRounds() redlock.Option {
	return redlock.WithClock(&readings{Clock: clock.System(), begin: time.Now()})
}

type readings struct {
	clock.Clock
	begin time.Time
	n     atomic.Int64
}

func (r *readings) Now() time.Time {
	return r.begin.Add(time.Duration(r.n.Add(1)) * 200 * time.Microsecond)
}

func TestLocalHandoff_IsReportedToTheObserver(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker, seen := c.observed(handsOn)
		lock, waiters := lineUp(t, locker, 1)
		unlock(t, lock)
		second := won(t, waiters[0])
		require.ErrorIs(t, lock.Extend(t.Context(), long), redlock.ErrReleased)
		late := waitFor[event.Extend](t, seen, 1)[0]
		require.Zero(t, late.Validity, "that is another's, and the end of the lock has been reported")
		require.Zero(t, late.Left)
		unlock(t, second)
		got, ends := waitFor[event.Acquire](t, seen, 2), waitFor[event.End](t, seen, 2)
		unlocks := waitFor[event.Unlock](t, seen, 2)
		require.Equal(t, []bool{false, true}, []bool{got[0].Handoff, got[1].Handoff})
		require.Equal(t, []bool{true, false}, []bool{unlocks[0].Handoff, unlocks[1].Handoff})
		require.Zero(t, got[1].Rounds)
		require.NotZero(t, got[1].Validity)
		for i := range got {
			require.Equal(t, got[i].Call, ends[i].Call)
			require.Equal(t, got[i].Call, unlocks[i].Lock)
			require.ErrorIs(t, ends[i].Err, redlock.ErrReleased)
		}
		require.Equal(t, got[0].Call, late.Lock)
	})
}

// Waiters that give up at any moment, several Lockers, locks that end by themselves: what a lock protects is never touched by two,
// fencing tokens rise, and nobody waits for ever.
func TestLocalHandoff_NoTwoHoldALockWhateverBecomesOfThoseWhoWait(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		shared := clock.System()
		var inside sync.Mutex
		var last uint64
		var all sync.WaitGroup
		passed := &recorder{}
		for range 3 {
			locker := lockerOver(t, c.nodes(), redlock.WithClock(shared), redlock.WithFencing(), redlock.TTL(long), redlock.WithObserver(passed),
				redlock.WithLocalHandoff(time.Duration(1+rand.IntN(20))*time.Millisecond), redlock.WithBackoff(time.Millisecond, 10*time.Millisecond))
			for range 8 {
				all.Go(func() {
					for i := range 60 {
						var opts []redlock.LockOption
						if rand.IntN(4) == 0 {
							opts = append(opts, redlock.RenewFor(redlock.NoLimit))
						}
						if i%2 == 0 {
							opts = append(opts, redlock.MaxWait(time.Duration(rand.IntN(int(20*time.Millisecond)))))
						}
						lock, err := locker.Lock(t.Context(), "name", opts...)
						if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redlock.ErrTaken) || errors.Is(err, redlock.ErrNoQuorum) {
							continue
						}
						if !assert.NoError(t, err) {
							return
						}
						if !inside.TryLock() {
							t.Error("two holders")
							return
						}
						if fence := lock.Fence(); fence <= last {
							t.Errorf("%d after %d", fence, last)
						} else {
							last = fence
						}
						if rand.IntN(8) == 0 {
							_ = lock.Extend(t.Context(), long)
						}
						if rand.IntN(16) == 0 {
							_ = lock.Extend(t.Context(), 2*long)
						}
						inside.Unlock()
						assert.NoError(t, lock.Unlock(t.Context()))
					}
				})
			}
		}
		all.Wait()
		handoffs := 0
		for _, e := range eventsOf[event.Acquire](passed) {
			if e.Handoff {
				handoffs++
			}
		}
		require.NotZero(t, handoffs)
		c.eventuallyFree("name")
	})
}

func TestLocalHandoff_AClosedLockerReleases(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker(handsOn)
		lock, waiters := lineUp(t, locker, 2)
		require.NoError(t, locker.Close())
		for _, waiter := range waiters {
			require.ErrorIs(t, receive(t, waiter, "the end of Lock").err, redlock.ErrClosed)
		}
		unlock(t, lock)
	})
}

// An Unlock that no majority confirms, as with any lock.
func TestLocalHandoff_ReleasesTheLastHoldersLockOnNodesThatAreBack(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	first, waiters := lineUp(t, c.locker(handsOn), 1)
	c.common("name")
	freeze(c.processes[1:]...)
	require.NoError(t, first.Unlock(t.Context()), "no node is asked")
	second := won(t, waiters[0])
	require.ErrorIs(t, second.Unlock(over(t)), redlock.ErrNoQuorum)
	require.ErrorIs(t, first.Unlock(t.Context()), redlock.ErrReleased, "it is not the first's to release")
	thaw(c.processes[1:]...)
}
