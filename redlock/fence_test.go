package redlock_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// counter returns what server i counts for a name; 0: nothing.
func (c *cluster) counter(i int, name string) uint64 {
	c.tb.Helper()
	text := c.value(i, "{"+name+"}:fence")
	if text == "" {
		return 0
	}
	n := must(strconv.ParseUint(text, 10, 64))(c.tb)
	return n
}

// eventuallyFenced waits until all servers hold a lock, a majority of them with its fencing token and counters that have come
// as far.
func (c *cluster) eventuallyFenced(lock *redlock.Lock) {
	c.tb.Helper()
	c.eventuallyNumbered(lock.Name(), lock.Token(), lock.Fence())
}

// eventuallyNumbered is eventuallyFenced for a token and the number that the nodes hold with it.
func (c *cluster) eventuallyNumbered(name string, token redlock.Token, number uint64) {
	c.tb.Helper()
	c.each(func(i int) {
		eventually(c.tb, func() bool { return strings.HasPrefix(c.value(i, name), string(token)+"|") }, "server %d", i)
	})
	majority := len(c.servers)/2 + 1
	require.GreaterOrEqual(c.tb, c.holding(name, numbered(token, number)), majority)
	reached := 0
	for i := range c.servers {
		if c.counter(i, name) >= number {
			reached++
		}
	}
	require.GreaterOrEqual(c.tb, reached, majority)
}

func fenced(lock *redlock.Lock) redlock.Token { return numbered(lock.Token(), lock.Fence()) }

// numbered is what a node holds of a lock with fencing.
func numbered(token redlock.Token, number uint64) redlock.Token {
	return token + redlock.Token(fmt.Sprint("|", number))
}

// eventuallyFree waits until no server holds a lock.
func (c *cluster) eventuallyFree(name string) { c.tb.Helper(); c.eventuallyHeld(name, "") }

func TestFence_OfEachHolderIsHigherThanAllBefore(t *testing.T) {
	t.Parallel()
	for n := range 6 {
		t.Run(fmt.Sprint(n+1), func(t *testing.T) {
			onBoth(t, n+1, func(t *testing.T, c *cluster) {
				lockers := []*redlock.Locker{c.locker(redlock.WithFencing()), c.locker(redlock.WithFencing())}
				last := uint64(time.Now().Add(-time.Minute).UnixMicro())
				for i := range 20 {
					lock := take(t, lockers[i%2], "name")
					require.Greater(t, lock.Fence(), last)
					require.Less(t, lock.Fence(), uint64(1)<<53)
					last = lock.Fence()
					c.eventuallyFenced(lock)
					unlock(t, lock)
					c.eventuallyFree("name")
				}
			})
		})
	}
}

func TestFence_WithoutFencingThereIsNoTokenAndNoCounter(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), "name")
		require.Zero(t, lock.Fence())
		c.eventuallyHeld("name", lock.Token())
		unlock(t, lock)
		c.eventuallyEmpty()
	})
}

func TestFence_LocksWithAndWithoutItExcludeEachOther(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		plain, fenced := c.locker(), c.locker(redlock.WithFencing())
		for _, who := range []struct{ holder, other *redlock.Locker }{{plain, fenced}, {fenced, plain}} {
			lock := take(t, who.holder, "name")
			require.ErrorIs(t, errOf(who.other.TryLock(t.Context(), "name")), redlock.ErrTaken)
			unlock(t, lock)
			c.eventuallyFree("name")
		}
	})
}

// A name that lives under a prefix has its counter there too.
func TestFence_TheCounterIsBesideTheKey(t *testing.T) {
	onBoth(t, 1, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(redlock.WithFencing(), redlock.WithKeyPrefix("lock:"), redlock.WithFenceTTL(2*time.Hour)), "name", redlock.TTL(time.Hour))
		require.Equal(t, lock.Fence(), c.counter(0, "lock:name"))
		left := c.ttl(0, "{lock:name}:fence")
		require.InDelta(t, 3*time.Hour, left, float64(time.Minute), "beyond the TTL of the lock")
	})
}

func TestFence_StaysTheSameForAsLongAsTheLockIsHeld(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker(redlock.WithFencing())
		lock := take(t, locker, "name", redlock.Owner("me"))
		fence := lock.Fence()
		require.NoError(t, lock.Extend(t.Context(), 2*long))
		again := take(t, locker, "name", redlock.Owner("me"), redlock.Reentrant())
		require.Equal(t, fence, again.Fence())
		unlock(t, again)
		require.Equal(t, fence, lock.Fence())
		c.eventuallyFenced(lock)

		attached := c.attach(lock)
		require.Equal(t, fence, attached.Fence(), "by a Locker without fencing, too")
		require.Equal(t, lock.Token(), attached.Token())
		require.NoError(t, attached.Extend(t.Context(), 3*long))
		c.eventuallyHeld("name", fenced(attached)) // on all of them now
		unlock(t, attached)
		c.eventuallyFree("name")
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
		require.Greater(t, take(t, locker, "name").Fence(), fence)
	})
}

func TestInspect_ShowsTheFencingTokenThatAMajorityHolds(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker, seen := c.observed(redlock.WithFencing())
		lock := take(t, locker, "name", redlock.Metadata("who: me"))
		require.NoError(t, lock.Extend(t.Context(), long))
		seen.waitForVotes(t, "extend", "name", 3)
		c.eventuallyHeld("name", fenced(lock))
		ahead := lock.Fence() + 1000
		c.do(1, "SET", "name", numbered(lock.Token(), ahead), "PX", 60000)
		for _, by := range []*redlock.Locker{locker, c.locker()} {
			state := inspect(t, by, "name")
			holder := only(t, state.Holders)
			require.Equal(t, lock.Token(), holder.Token)
			require.Equal(t, "who: me", holder.Metadata)
			require.Equal(t, lock.Fence(), holder.Fence)
			for i, node := range state.Nodes {
				want := lock.Fence()
				if i == 1 {
					want = ahead
				}
				holder := only(t, node.Holders)
				require.Equal(t, want, holder.Fence)
				require.Equal(t, lock.Token(), holder.Token)
				require.Equal(t, "who: me", holder.Metadata)
			}
		}
		attached := c.attach(lock)
		require.Equal(t, lock.Fence(), attached.Fence())

		c.do(2, "SET", "name", numbered(lock.Token(), ahead+1), "PX", 60000)
		require.ErrorIs(t, errOf(c.locker().Attach(t.Context(), "name", lock.Token())), redlock.ErrNoQuorum, "no majority says which it is")
		holder := only(t, inspect(t, locker, "name").Holders)
		require.Equal(t, lock.Token(), holder.Token)
		require.Zero(t, holder.Fence)
	})
}

// A value of another client that happens to look like ours is shown as it is.
func TestFence_WhatAnotherClientHoldsHasNone(t *testing.T) {
	onBoth(t, 1, func(t *testing.T, c *cluster) {
		c.do(0, "SET", "name", "some|17")
		holder := only(t, inspect(t, c.locker(), "name").Holders)
		require.EqualValues(t, "some|17", holder.Token)
		require.Zero(t, holder.Fence)
	})
}

func TestFence_CountersThatDifferAreBroughtIntoStepByASecondRoundTrip(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		now := uint64(time.Now().UnixMicro())
		begin := []uint64{now + 900_000_000, now + 500, now + 300, now + 100_000_000_000, now}
		for i, n := range begin {
			c.do(i, "SET", "{name}:fence", n)
		}
		locker, seen := c.observed(redlock.WithFencing())
		lock := take(t, locker, "name")
		// Three answers decide, and the highest of them is it: at least the third of all, as it comes.
		require.Greater(t, lock.Fence(), now+500)
		at, raised := 0, 0
		for i := range c.servers {
			eventually(t, func() bool { return c.counter(i, "name") > begin[i] }, "server %d", i)
			if c.counter(i, "name") == lock.Fence() {
				raised++
			}
			if c.counter(i, "name") >= lock.Fence() {
				at++
			}
		}
		require.GreaterOrEqual(t, raised, 2)
		require.GreaterOrEqual(t, at, 3)
		locker.Drain()
		require.Equal(t, 1, len(seen.verdictsOn("acquire")))
		unlock(t, lock)
		c.eventuallyFree("name")
		require.Greater(t, take(t, locker, "name").Fence(), lock.Fence())
	})
}

func TestFence_DoesNotFallWhenANodeHasForgottenItsCounter(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker(redlock.WithFencing())
		last := uint64(0)
		for i := range 30 {
			lock := take(t, locker, "name")
			require.Greater(t, lock.Fence(), last)
			last = lock.Fence()
			unlock(t, lock)
			c.eventuallyFree("name")
			c.do(i%3, "FLUSHALL")
			if i%5 == 0 { // as a clock that was an hour ahead would have made it
				c.doAll("SET", "{name}:fence", last+3600_000_000)
				last += 3600_000_000
			}
		}
	})
}

// A server that comes back with what it had saved some time before would grant again what it has granted already. Where it
// does not vote for longer than two seconds (the restart guard) it is too late for that.
func TestFence_ACounterFromAnOlderCopyOfTheDataIsNotBelieved(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	var lockers []*redlock.Locker
	last := map[string]uint64{}
	for _, shift := range []time.Duration{-time.Hour, 0, time.Hour} {
		lockers = append(lockers, c.locker(redlock.WithFencing(), redlock.WithWallClock(func() time.Time { return time.Now().Add(shift) })))
	}
	for range 3 {
		for i, locker := range lockers {
			name := fmt.Sprint("name-", i)
			lock := take(t, locker, name)
			require.Greater(t, lock.Fence(), last[name], "locker %d", i)
			last[name] = lock.Fence()
			unlock(t, lock)
			c.eventuallyFree(name)
			c.doAll("SET", "{"+name+"}:fence", last[name]-1000, "EX", 3600)
		}
		lockers = append(lockers[:0:0], lockers[1], lockers[2], lockers[0])
		pass(2100 * time.Millisecond)
	}
}

// An extension that gives the key to a node that has forgotten all makes it count from the token on.
func TestFence_ANodeThatIsGivenTheLockAgainCountsOnFromIt(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		future := uint64(time.Now().Add(time.Hour).UnixMicro())
		c.doAll("SET", "{name}:fence", future)
		locker := c.locker(redlock.WithFencing())
		lock := take(t, locker, "name")
		require.Equal(t, future+1, lock.Fence())
		c.eventuallyHeld("name", fenced(lock))
		c.do(1, "FLUSHALL")
		require.NoError(t, lock.Extend(t.Context(), long))
		c.eventuallyHeld("name", fenced(lock))
		c.each(func(i int) { require.GreaterOrEqual(t, c.counter(i, "name"), lock.Fence()) })
		unlock(t, lock)
	})
}

func TestFence_ACounterThatCannotBeUsedIsReportedOfItsNode(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.do(0, "SET", "{name}:fence", "somebody's text")
		c.do(1, "RPUSH", "{name}:fence", "somebody's list")
		_, err := c.locker(redlock.WithFencing()).TryLock(t.Context(), "name")
		nodes := c.refused(err, redlock.ErrForeign).Nodes
		require.ErrorContains(t, nodes[0].Err, "the fence counter holds no number")
		require.ErrorContains(t, nodes[1].Err, "WRONGTYPE")
		for _, n := range nodes[:2] {
			require.ErrorIs(t, n.Err, nodeerr.ErrForeign)
		}
		c.eventuallyFree("name")
		require.Equal(t, "somebody's text", c.value(0, "{name}:fence"))
		require.Equal(t, "list", c.do(1, "TYPE", "{name}:fence"))
	})
}

func TestFence_DataInThePlaceOfCountersStaysAsItIsWhileTheLockIsExtendedAndReleased(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(redlock.WithFencing()), "name")
		c.eventuallyHeld("name", fenced(lock))
		c.doAll("SET", "{name}:fence", "somebody's text")
		for range 2 {
			require.NoError(t, lock.Extend(t.Context(), long))
		}
		unlock(t, lock)
		c.eventuallyFree("name")
		for i := range c.servers {
			require.Equal(t, "somebody's text", c.value(i, "{name}:fence"))
			require.EqualValues(t, -1, c.do(i, "PTTL", "{name}:fence"))
		}
	})
}

func requireRising(t *testing.T, tokens []uint64) {
	t.Helper()
	for i := range tokens[1:] {
		require.Less(t, tokens[i], tokens[i+1], "token %d of %d", i+1, len(tokens))
	}
}

// Processes whose clocks are hours apart, while the counters of the servers are lost, set forward and back in step.
func TestFence_RisesAcrossProcessesWhateverTheirClocksSay(t *testing.T) {
	t.Parallel()
	c := onReal(t, 5)
	judge := testredis.Real(t, 1)[0]
	var children []*child
	for i, shift := range []time.Duration{-time.Hour, 0, 10 * time.Millisecond, time.Hour} {
		children = append(children, spawn(t, plan{
			Who: fmt.Sprint("child ", i), URLs: testredis.URLs(c.servers), Judge: judge.Addr(), Goroutines: 2, TTL: long, Fencing: true, Shift: shift,
		}))
	}
	length := func() int {
		n := must(redis.Int(judge.Do("LLEN", "fences")))(t)
		return n
	}
	allCame(t, judge, len(children), 1)
	for i := range 40 {
		before := length()
		eventually(t, func() bool { return length() > before+10 }, "they go on")
		switch node := i % 5; i % 3 {
		case 0: // one node forgets its counter: its lock stays, for exclusion is not what is tested here
			c.do(node, "DEL", "{name}:fence")
		case 1:
			c.do(node, "INCRBY", "{name}:fence", 1000+i)
		case 2:
			c.do(node, "SCRIPT", "FLUSH")
		}
	}
	for _, child := range children {
		child.end()
	}
	texts := must(redis.Strings(judge.Do("LRANGE", "fences", 0, -1)))(t)
	var order []uint64
	for _, text := range texts {
		n := must(strconv.ParseUint(text, 10, 64))(t)
		order = append(order, n)
	}
	requireRising(t, order)
	who := visits(t, judge)
	for i := range children {
		require.Contains(t, who, fmt.Sprint("child ", i))
	}
}

// In the steady state fencing costs no round trip, whatever the clocks of the processes say.
func TestFence_TakesOneRoundTripInTheSteadyState(t *testing.T) {
	c := onReal(t, 5)
	const batch, rounds = 50, 20
	var children []*child
	for _, shift := range []time.Duration{-time.Hour, 0, 10 * time.Millisecond, time.Hour} {
		children = append(children, spawn(t, plan{URLs: testredis.URLs(c.servers), Batch: batch, TTL: long, Fencing: true, Shift: shift}))
	}
	acquires := 0
	for range rounds {
		for _, child := range children {
			require.NoError(t, errOf(fmt.Fprintln(child.in, "go")))
			line := must(child.out.ReadString('\n'))(t)
			require.Equal(t, "done", strings.TrimSpace(line))
			acquires += batch
			// Nobody meets what another has left on a slow server: that would be contention.
			eventually(t, func() bool { return c.calls("del") >= len(c.servers)*acquires }, "all is done")
		}
	}
	for _, child := range children {
		child.end()
	}
	// Each acquire counts with INCRBY once on each server. What goes beyond that is another round, and a raise looks at a TTL: a
	// second round trip, with a command to one server at least.
	more := c.calls("incrby", "pttl") - len(c.servers)*acquires
	t.Logf("%d acquires, %d commands beyond one round trip", acquires, more)
	require.Equal(t, 4000, acquires)
	require.LessOrEqual(t, more, acquires/100)
}

// shifted is a clock that can be set.
type shifted struct {
	clock.Clock
	by atomic.Int64
}

func (c *shifted) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.by.Load())) }

// The danger: an estimate of the counters' time that goes up only. After one name whose counter is ahead, and after clocks were
// set back, every name that begins would take a second round trip until the process ends.
func TestFence_OneCounterThatIsAheadDoesNotMakeOtherNamesTakeTwoRoundTrips(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	lease := &shifted{Clock: clock.System()}
	locker := c.locker(redlock.WithFencing(), redlock.WithClock(lease))
	fresh := func() *redlock.Lock { return take(t, locker, rand.Text()) }
	fresh()
	ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
	c.doAll("SET", "{ahead}:fence", ahead)
	raises := func() int { // a raise looks at the TTL, and nothing else does here
		c.settled()
		return c.calls("pttl")
	}
	for what, happen := range map[string]func(){
		"a counter that is ahead": func() {
			lock := take(t, locker, "ahead")
			require.Greater(t, lock.Fence(), ahead)
			unlock(t, lock)
			c.eventuallyFree("ahead")
		},
		"the clocks of the nodes are set back": func() { lease.by.Add(int64(time.Hour)) }, // that of the Locker forward
	} {
		happen()
		fresh() // which shows the time
		before := raises()
		for range 20 {
			fresh()
		}
		require.Equal(t, before, raises(), what)
	}
}

// An acquire that is not there yet when its script is asked for again does not come behind its release.
func TestFence_AServerThatForgetsItsScriptsIsTaughtAgain(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker := c.locker(redlock.WithFencing())
	for range 20 {
		lock := take(t, locker, "name")
		c.eventuallyFenced(lock)
		c.doAll("SCRIPT", "FLUSH")
		require.NoError(t, lock.Extend(t.Context(), long))
		c.doAll("SCRIPT", "FLUSH")
		unlock(t, lock)
		c.eventuallyFree("name")
		c.doAll("SCRIPT", "FLUSH")
	}
}

// A round that ends while counters are being raised: its error does not call a node's grant a yes that does not count.
func TestTryLock_ThatEndsInItsSecondRoundTripNamesTheNodesThatHadNotAgreed(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	raised := make(chan struct{})
	freeze := sync.OnceFunc(func() { // and never again, once they are thawed
		freeze(c.processes...)
		close(raised)
	})
	nodes := c.nodes(throughWires(func(_ string, w *tapped) {
		w.wrote = func(p []byte) {
			if bytes.Contains(p, []byte(scripts["raise"].Source)) || bytes.Contains(p, []byte(scripts["raise"].Hash)) {
				freeze() // before it is sent
			}
		}
	}))
	ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
	c.each(func(i int) { c.do(i, "SET", "{name}:fence", ahead+uint64(1000*i)) })
	locker := lockerOver(t, nodes, redlock.WithFencing())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := beside(func() error { return errOf(locker.TryLock(ctx, "name")) })
	receive(t, raised, "a second round trip")
	cancel()
	err := receive(t, ended, "the end")
	thaw(c.processes...)
	require.ErrorIs(t, err, context.Canceled)
	yes := 0
	for _, node := range c.refused(err).Nodes {
		if node.Err == nil {
			yes++
		}
	}
	require.LessOrEqual(t, yes, 1, "%v", err)
	c.eventuallyFree("name")
}

// Whoever takes up a lock of which a majority holds the token, but no majority the same number, is told that.
func TestAttach_ReportsFencingTokensThatDiffer(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		seen := &recorder{}
		lock := take(t, c.locker(redlock.WithFencing(), redlock.WithObserver(seen)), "name")
		require.NoError(t, lock.Extend(t.Context(), long))
		seen.waitForVotes(t, "extend", "name", 3) // it would give the key back to a node that it reaches late
		c.eventuallyHeld("name", fenced(lock))
		c.do(0, "DEL", "name")
		c.do(1, "SET", "name", lock.Token()+"|17", "PX", 60000)
		_, err := c.locker().Attach(t.Context(), "name", lock.Token())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "the numbers differ until the holder extends it")
		require.NoError(t, lock.Extend(t.Context(), 2*long))
		unlock(t, c.attach(lock))
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
	})
}
