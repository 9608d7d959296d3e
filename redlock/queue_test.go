package redlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

func TestLock_PausesForATimeThatDoublesUpToALimit(t *testing.T) {
	t.Parallel()
	c, fake := onMini(t, 3), clocktest.New()
	holder := take(t, c.locker(), "name")
	locker, seen := c.waiting(c.nodes(), redlock.WithClock(fake), redlock.WithBackoff(10*time.Millisecond, 100*time.Millisecond))
	waiter := lockBeside(t.Context(), locker, "name")
	for i, pause := range []time.Duration{10, 20, 40, 80, 100, 100, 100} {
		pause *= time.Millisecond
		seen.waitForRefusals(t, i+1)
		var slept time.Duration
		eventually(t, func() bool {
			next, pending := fake.Next()
			slept = next
			return pending && next <= pause
		}, "Lock pauses")
		require.GreaterOrEqual(t, slept, pause/4)
		require.Len(t, seen.verdictsOn("acquire"), i+1, "no round before the pause is over")
		fake.Advance(slept)
	}
	unlock(t, holder)
	for len(waiter) == 0 {
		fake.AdvanceToNext()
	}
	unlock(t, won(t, waiter))
}

// leave leaves a key as a SETNX does whose EXPIRE never came.
func (c *cluster) leave(name, value string) {
	c.tb.Helper()
	c.doAll("SET", name, value, "NX")
}

// prefixed is what WithHeal needs.
var prefixed = redlock.WithKeyPrefix("app:")

func TestLock_WaitersGetItInTheOrderInWhichTheyCame(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		inTurn(t, map[string]func(testing.TB, *redlock.Locker) *redlock.Lock{
			"behind Lock":                 func(tb testing.TB, l *redlock.Locker) *redlock.Lock { return waits(tb, l, "name") },
			"behind TryLock":              func(tb testing.TB, l *redlock.Locker) *redlock.Lock { return take(tb, l, "name") },
			"behind a holder far from it": func(tb testing.TB, _ *redlock.Locker) *redlock.Lock { return take(tb, c.locker(), "name") },
		}, func(t *testing.T, take func(testing.TB, *redlock.Locker) *redlock.Lock) {
			locker := c.locker()
			holder := take(t, locker)
			l := &line{tb: t}
			var order []string
			for i := range 40 { // more than get it in a row
				order = append(order, fmt.Sprint(i))
				l.join(locker, order[i])
			}
			unlock(t, holder)
			require.Equal(t, order, l.end())
			c.eventuallyEmpty()
		})
	})
}

// The danger: waiters of one process that all contend over the network.
func TestLock_OfManyWaitersInOneLockerOneAsksTheNodes(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	holder := c.everywhere(take(t, c.locker(), "name"))
	locker, seen := c.waiting(c.nodes())
	l := &line{tb: t}
	l.join(locker, "")
	seen.waitForRefusals(t, 1)
	c.eventuallyTracked()
	before := c.settled()
	locker.Drain()
	refused := len(seen.verdictsOn("acquire"))
	for range 99 {
		l.join(locker, "")
	}
	require.Equal(t, before, c.settled(), "99 more waiters, and no command of them")
	locker.Drain()
	require.Len(t, seen.verdictsOn("acquire"), refused)

	unlock(t, holder)
	l.end()
	require.Less(t, len(seen.verdictsOn("acquire")), refused+100+100/12+10, "a round for each, and what the turns of others cost")
}

func TestLock_AWaiterThatIsCancelledIsPassedOver(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		holder := waits(t, locker, "name")
		tired := errors.New("tired")
		ctx, cancel := context.WithCancelCause(t.Context())
		l := &line{tb: t}
		l.join(locker, "first")
		gone := queue(t, ctx, locker, "name")
		l.join(locker, "second")
		cancel(tired)
		end := receive(t, gone, "the end of a wait")
		require.Nil(t, end.lock)
		for _, node := range c.refused(end.err, context.Canceled, tired, redlock.ErrTaken).Nodes {
			require.ErrorIs(t, node.Err, nodeerr.ErrQueued, "it never went a round")
		}
		unlock(t, holder)
		require.Equal(t, []string{"first", "second"}, l.end())
	})
}

// The round of the one who gives up is under way then.
func TestLock_TheFirstWaiterThatIsCancelledInItsRoundPassesItsTurnOn(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, seen := c.observed()
	seen.connect(t, locker, 3)
	freeze(c.processes[1:]...)
	ctx, cancel := context.WithCancel(t.Context())
	first := queue(t, ctx, locker, "name")
	seen.waitForVotes(t, "acquire", "name", 1)
	second := queue(t, t.Context(), locker, "name")
	cancel()
	require.ErrorIs(t, receive(t, first, "the end of a wait").err, context.Canceled)
	thaw(c.processes[1:]...)
	unlock(t, won(t, second))
}

// A call that is cancelled at the moment of its turn has the lock or hands it off, and never both or neither.
func TestLock_NoTurnIsLostWhenWaitersGiveUpAtAnyMoment(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		for range 20 {
			holder := waits(t, locker, "name")
			var waiters []<-chan held
			var cancels []context.CancelFunc
			for range 6 {
				ctx, cancel := context.WithCancel(t.Context())
				waiters = append(waiters, queue(t, ctx, locker, "name"))
				cancels = append(cancels, cancel)
			}
			last := queue(t, t.Context(), locker, "name")
			for _, cancel := range cancels {
				go cancel()
			}
			unlock(t, holder)
			for _, waiter := range waiters {
				if h := receive(t, waiter, "the end of a wait"); h.err == nil {
					unlock(t, h.lock)
				} else {
					require.ErrorIs(t, h.err, context.Canceled)
				}
			}
			unlock(t, won(t, last))
		}
	})
}

// The danger: a waiter that gives up before a crashed holder's TTL is over.
func TestLock_DoesNotGiveUpBeforeTheTTLOfACrashedHolderIsOver(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		holder := c.locker()
		locker, seen := c.waiting(c.nodes())
		for _, l := range []*redlock.Locker{holder, locker} { // they connect
			unlock(t, take(t, l, "another name"))
		}
		before := len(waitFor[event.Acquire](t, seen, 1))
		crashed := take(t, holder, "name", redlock.TTL(2*time.Second))
		second := waits(t, locker, "name")
		require.ErrorIs(t, crashed.Err(), redlock.ErrExpired, "no sooner than the holder knew")
		require.Greater(t, waitFor[event.Acquire](t, seen, before+1)[before].Rounds, 1)
		held := c.holding("name", second.Token()) // the first may still be on one of them
		require.GreaterOrEqual(t, held, 2)
		require.ErrorIs(t, crashed.Unlock(t.Context()), redlock.ErrNotHeld)
		require.ErrorIs(t, crashed.Err(), redlock.ErrExpired, "the first ending stays")
		require.GreaterOrEqual(t, c.holding("name", second.Token()), held)
	})
}

func TestLock_WaitsUntilAMajorityIsBackOrItsContextEnds(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		kill(c.servers[0], c.servers[2])
		locker, seen := c.waiting(c.nodes())
		ctx, cancel := context.WithCancel(t.Context())
		first := lockBeside(ctx, locker, "name")
		seen.waitForRefusals(t, 3)
		for _, v := range seen.verdictsOn("acquire") {
			require.ErrorIs(t, v.Err, redlock.ErrNoQuorum)
		}
		require.ErrorIs(t, errOf(locker.Lock(t.Context(), "other", redlock.MaxWait(50*time.Millisecond))), redlock.ErrNoQuorum)
		second := queue(t, t.Context(), locker, "name")
		cancel()
		end := receive(t, first, "the end of Lock")
		requireIs(t, end.err, context.Canceled, redlock.ErrNoQuorum)
		for _, i := range []int{0, 2} {
			require.ErrorAs(t, c.refused(end.err).Nodes[i].Err, new(*nodeerr.ConnectError))
		}
		c.servers[0].Start()
		unlock(t, won(t, second))
		c.servers[2].Start()
		c.eventuallyEmpty()
	})
}

func TestLock_ThatItsContextEndsReturnsThatAndWhy(t *testing.T) {
	tired := errors.New("tired")
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		c.everywhere(take(t, c.locker(), "name"))
		t.Run("cancelled", func(t *testing.T) {
			locker, seen := c.waiting(c.nodes())
			ctx, cancel := context.WithCancelCause(t.Context())
			waiter := lockBeside(ctx, locker, "name")
			seen.waitForRefusals(t, 1)
			cancel(tired)
			end := receive(t, waiter, "the end of Lock")
			require.Nil(t, end.lock)
			requireIs(t, end.err, context.Canceled, tired, redlock.ErrTaken, nodeerr.ErrHeld)
			require.ErrorIs(t, c.refused(end.err), redlock.ErrTaken)
		})
		t.Run("timed out", func(t *testing.T) {
			locker, _ := c.waiting(c.nodes())
			// On a busy machine a round may need more than the least of these times.
			for timeout := 200 * time.Millisecond; ; timeout *= 4 {
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				_, err := locker.Lock(ctx, "name")
				cancel()
				require.ErrorIs(t, err, context.DeadlineExceeded)
				if timeout < patient && errors.Is(err, redlock.ErrNoQuorum) {
					continue
				}
				_ = c.refused(err, redlock.ErrTaken)
				break
			}
		})
		t.Run("while pausing", func(t *testing.T) {
			locker, seen := c.waiting(c.nodes(), redlock.WithBackoff(long, long))
			ctx, cancel := context.WithCancel(t.Context())
			waiter := lockBeside(ctx, locker, "name")
			seen.waitForRefusals(t, 1)
			cancel()
			end := receive(t, waiter, "the end of Lock")
			requireIs(t, end.err, context.Canceled, redlock.ErrTaken)
		})
	})
}

// The danger: a rollback that the end of the caller's context cuts short.
func TestLock_ARoundThatItsContextEndsLeavesNoKeys(t *testing.T) {
	t.Parallel()
	c := onReal(t, 5)
	for _, call := range []struct {
		name string
		lock func(*redlock.Locker, context.Context, string, ...redlock.LockOption) (*redlock.Lock, error)
	}{{"TryLock", (*redlock.Locker).TryLock}, {"Lock", (*redlock.Locker).Lock}} {
		t.Run(call.name, func(t *testing.T) {
			locker, seen := c.observed()
			seen.connect(t, locker, 5)
			freeze(c.processes[2:]...)
			ctx, cancel := context.WithCancel(t.Context())
			ended := beside(func() error { return errOf(call.lock(locker, ctx, "name")) })
			seen.waitForVotes(t, "acquire", "name", 2) // two of five hold it, and the round is open
			// A vote is told before it counts. What a node answers later, it answers when the vote has counted.
			behind, end := context.WithCancel(t.Context())
			probe := beside(func() error { return errOf(locker.TryLock(behind, "behind it")) })
			seen.waitForVotes(t, "acquire", "behind it", 2)
			end()
			require.ErrorIs(t, receive(t, probe, "the end of a call"), context.Canceled)
			cancel()
			err := receive(t, ended, "the end of the call")
			for i, node := range c.refused(err, context.Canceled, redlock.ErrNoQuorum).Nodes {
				if i < 2 {
					require.NoError(t, node.Err)
				} else {
					require.ErrorIs(t, node.Err, nodeerr.ErrUnanswered)
				}
			}
			for i := range 2 {
				eventually(t, func() bool { return c.value(i, "name") == "" }, "server %d", i)
			}
			thaw(c.processes[2:]...)
			c.eventuallyEmpty()
			seen.waitForVotes(t, "acquire", "name", 5) // the frozen ones had it too
		})
	}
}

// The danger: a context that was for acquiring and ends afterwards.
func TestLock_TheEndOfTheAcquiringContextDoesNotTouchIt(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		for name, call := range map[string]func(context.Context, string, ...redlock.LockOption) (*redlock.Lock, error){
			"TryLock": locker.TryLock, "Lock": locker.Lock,
		} {
			ctx, cancel := context.WithCancel(t.Context())
			lock := must(call(ctx, name))(t)
			done := lock.Done()
			cancel()
			c.eventuallyHeld(name, lock.Token()) // the stragglers have come in too
			require.NoError(t, lock.Extend(t.Context(), 2*long))
			require.NoError(t, lock.Err())
			require.Positive(t, lock.Remaining())
			select {
			case <-done:
				require.Fail(t, "the lock has ended")
			default:
			}
			unlock(t, lock)
		}
	})
}

// join has a call wait that does not look for an offer before it gives up.
func join(tb testing.TB, locker *redlock.Locker, name string, opts ...redlock.LockOption) redlock.Waiter {
	tb.Helper()
	w := must(redlock.Join(locker, name, opts...))(tb)
	return w
}

// requireWhole checks that no error is joined with nil: errors.Is would call its methods.
func requireWhole(tb testing.TB, err error) {
	tb.Helper()
	if err == nil {
		return
	}
	require.NotPanics(tb, func() { _ = errors.Is(err, errors.New("none")) })
	require.NotContains(tb, fmt.Sprint(err), "<nil>")
}

// The danger: a lock that nobody has the handle of, or an error with nothing in it. What a call was sent when its context ends it
// has not looked at, and its queue may have been discarded since.
func TestLock_ThatGivesUpWithItsTurnUnread(t *testing.T) {
	t.Parallel()
	for _, discarded := range []bool{false, true} {
		t.Run(fmt.Sprint("queue discarded: ", discarded), func(t *testing.T) {
			t.Parallel()
			after := func(locker *redlock.Locker) {
				if discarded {
					redlock.DiscardIdle(locker)
				}
			}
			t.Run("is told that it waits for somebody's data", func(t *testing.T) {
				t.Parallel()
				c := onReal(t, 3)
				require.NoError(t, errOf(c.locker().TryLock(t.Context(), "name")))
				locker, first := c.asleep("name")
				second := join(t, locker, "name")
				c.doAll("SET", "name", strings.Repeat("x", 5000))
				require.ErrorIs(t, receive(t, first, "the end of Lock").err, redlock.ErrForeign)
				require.True(t, second.HasOffer())
				after(locker)
				lock, err := second.GiveUp(over(t))
				require.Nil(t, lock)
				requireWhole(t, err)
				_ = c.refused(err, redlock.ErrForeign, not{redlock.ErrTaken})
			})
			t.Run("has the lock that was handed off to it", func(t *testing.T) {
				t.Parallel()
				c, fake := onMini(t, 3), clocktest.New()
				locker := c.locker(handsOn, redlock.WithClock(fake))
				first := waits(t, locker, "name")
				second := join(t, locker, "name", redlock.RenewFor(redlock.NoLimit))
				unlock(t, first)
				require.True(t, second.HasOffer())
				if discarded {
					fake.Advance(2 * long) // and renewals fall behind: a process that was paused
				}
				after(locker)
				lock, err := second.GiveUp(over(t))
				requireWhole(t, err)
				require.NoError(t, err)
				if !discarded {
					require.NoError(t, lock.Err())
					unlock(t, lock)
				} else {
					_ = lock.Unlock(t.Context())
				}
				require.Zero(t, redlock.ToRenew(locker))
				c.eventuallyEmpty()
			})
		})
	}
	t.Run("leaves the lock to the next", func(t *testing.T) {
		onBoth(t, 3, func(t *testing.T, c *cluster) {
			locker := c.locker()
			first := waits(t, locker, "name")
			second, third := join(t, locker, "name"), inLine(t, locker)
			unlock(t, first)
			eventually(t, second.HasOffer, "its round")
			lock, err := second.GiveUp(over(t))
			if err == nil { // it was won meanwhile
				unlock(t, lock)
			} else {
				requireWhole(t, err)
				_ = c.refused(err, context.Canceled)
			}
			won(t, third)
		})
	})
	t.Run("without an offer leaves the line", func(t *testing.T) {
		t.Parallel()
		c := onMini(t, 3)
		locker := c.locker(handsOn)
		first := waits(t, locker, "name")
		second, third := join(t, locker, "name"), inLine(t, locker)
		lock, err := second.GiveUp(over(t))
		require.Nil(t, lock)
		requireWhole(t, err)
		requireIs(t, err, context.Canceled, redlock.ErrTaken)
		unlock(t, first)
		unlock(t, won(t, third))
		require.False(t, second.HasOffer())
		c.eventuallyEmpty()
	})
	t.Run("as the Locker is closed", func(t *testing.T) {
		t.Parallel()
		c := onMini(t, 3)
		locker := c.locker(handsOn)
		first := waits(t, locker, "name")
		second := join(t, locker, "name")
		unlock(t, first)
		require.True(t, second.HasOffer())
		require.NoError(t, locker.Close()) // which in truth waits for the call
		lock := must(second.GiveUp(t.Context()))(t)
		require.NoError(t, lock.Err())
		unlock(t, lock)
		c.eventuallyEmpty()
	})
}

func TestUnlock_PassesTheLockToTheNextWaiterInOneFlush(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	var together atomic.Int64
	nodes := c.nodes(throughWires(func(_ string, w *tapped) {
		w.wrote = func(p []byte) {
			if bytes.Contains(p, []byte("\r\nEVAL")) && bytes.Contains(p, []byte("\r\nSET\r\n")) {
				together.Add(1)
			}
		}
	}))
	locker := lockerOver(t, nodes)
	holder := waits(t, locker, "name")
	l := &line{tb: t}
	for i := range 30 {
		l.join(locker, fmt.Sprint(i))
	}
	unlock(t, holder)
	l.end()
	require.Greater(t, together.Load(), int64(30*3/4), "a release, and the acquire of the next behind it")
}

// A Locker that is closed while it holds a lock does not begin to listen with its release.
func TestUnlock_AfterCloseDoesNotListen(t *testing.T) {
	t.Parallel()
	c := onReal(t, 1)
	nodes := c.nodes()
	locker := must(redlock.New(nodes, redlock.TTL(long)))(t)
	for range 5 {
		unlock(t, waits(t, locker, "name"))
	}
	last := waits(t, locker, "name") // after which another process would have its turn
	require.NoError(t, locker.Close())
	unlock(t, last)
	c.settled()
	require.Empty(t, c.do(0, "CLIENT", "LIST", "TYPE", "pubsub"))
	require.Equal(t, "0", c.info(0, "clients", "tracking_clients"))
}

func TestLock_WaitersOfDifferentNamesDoNotWaitForEachOther(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		holder := waits(t, locker, "name")
		waiter := queue(t, t.Context(), locker, "name")
		for i := range 100 { // more than are kept in mind
			name := fmt.Sprintf("other %d", i)
			other := waits(t, locker, name)
			next := queue(t, t.Context(), locker, name)
			unlock(t, other)
			unlock(t, won(t, next))
		}
		unlock(t, holder)
		won(t, waiter)
	})
}
