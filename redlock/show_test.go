package redlock_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

// shown returns how many processes each node shows as waiting for a name.
func (c *cluster) shown(name string) (counts []int64) {
	c.tb.Helper()
	for _, s := range c.servers {
		counts = append(counts, testredis.Subscribers(c.tb, s, "quorumlock:waits:"+name))
	}
	return counts
}

// listening returns how many processes listen to messages on server i.
func (c *cluster) listening(i int) int {
	c.tb.Helper()
	channels, err := redis.Strings(c.do(i, "PUBSUB", "CHANNELS"), nil)
	require.NoError(c.tb, err)
	return len(slices.DeleteFunc(channels, func(name string) bool { return strings.HasPrefix(name, "quorumlock:waits:") }))
}

// eventuallyShown waits until each node shows so many processes as waiting for a name.
func (c *cluster) eventuallyShown(name string, want int64) {
	c.tb.Helper()
	eventually(c.tb, func() bool {
		for _, n := range c.shown(name) {
			if n != want {
				return false
			}
		}
		return true
	}, "%d processes are shown as waiting for %s", want, name)
}

func TestLock_ServersShowHowManyProcessesWait(t *testing.T) {
	t.Parallel()
	inParallel(t, map[string][]redlock.LockOption{
		"exclusive": nil, "shared": {redlock.Shared()}, "slot": {redlock.Slots(2)},
	}, func(t *testing.T, opts []redlock.LockOption) {
		c := onReal(t, 3)
		holder := take(t, c.locker(), "name")
		one, other := c.locker(), c.locker()
		first, second := lockBeside(t.Context(), one, "name", opts...), lockBeside(t.Context(), one, "name", opts...)
		c.eventuallyShown("name", 1)
		ctx, giveUp := context.WithCancel(t.Context())
		third := lockBeside(ctx, other, "name", opts...)
		c.eventuallyShown("name", 2)
		giveUp()
		require.Error(t, receive(t, third, "the end of the wait").err)
		c.eventuallyShown("name", 1)
		for i := range c.servers {
			require.Positive(t, c.do(i, "CLIENT", "KILL", "TYPE", "pubsub"))
		}
		c.eventuallyShown("name", 1)
		unlock(t, holder)
		for range 2 {
			select {
			case h := <-first:
				unlock(t, got(h.lock, h.err)(t))
			case h := <-second:
				unlock(t, got(h.lock, h.err)(t))
			}
		}
		c.eventuallyShown("name", 0)
	})
}

func TestLock_ServersShowThatAProcessWaitsForItself(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker := c.locker()
	holder := waits(t, locker, "name") // its queue knows that, and asks no node
	waiter := lockBeside(t.Context(), locker, "name")
	c.eventuallyShown("name", 1)
	unlock(t, holder)
	lock := won(t, waiter)
	c.eventuallyShown("name", 0)
	unlock(t, lock)
}

// Another Locker goes on with the nodes.
func TestClose_ServersNoLongerShowThatItsCallsWait(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	holder := take(t, c.locker(), "name")
	nodes := c.nodes()
	closed, open := lockerOver(t, nodes), lockerOver(t, nodes)
	first, second := lockBeside(t.Context(), closed, "name"), lockBeside(t.Context(), open, "name")
	other := lockBeside(t.Context(), closed, "other")
	unlock(t, won(t, other))
	c.eventuallyShown("name", 1)
	require.NoError(t, closed.Close())
	require.Error(t, receive(t, first, "the end of the wait").err)
	c.eventuallyShown("name", 1)
	require.NoError(t, open.Close())
	require.Error(t, receive(t, second, "the end of the wait").err)
	c.eventuallyShown("name", 0)
	unlock(t, holder)
}

func TestLock_ThatWaitsForLessThanASecondIsNotShown(t *testing.T) {
	t.Parallel()
	c, fake := onReal(t, 3), clocktest.New()
	holder := take(t, c.locker(), "name")
	locker := c.locker(redlock.WithClock(fake))
	pass := func(d time.Duration) {
		fake.Advance(d)
		unlock(t, take(t, locker, "other")) // behind whatever the nodes were sent
	}
	ctx, giveUp := context.WithCancel(t.Context())
	first := queue(t, ctx, locker, "name")
	pass(399 * time.Millisecond)
	for range 5 { // some call waits all the time
		pass(201 * time.Millisecond)
		next, nextGivesUp := context.WithCancel(t.Context())
		second := queue(t, next, locker, "name")
		pass(399 * time.Millisecond)
		giveUp()
		require.Error(t, receive(t, first, "the end of the wait").err)
		require.Equal(t, []int64{0, 0, 0}, c.shown("name"))
		first, giveUp = second, nextGivesUp
	}
	pass(601 * time.Millisecond)
	require.Equal(t, []int64{1, 1, 1}, c.shown("name"))
	giveUp()
	require.Error(t, receive(t, first, "the end of the wait").err)
	pass(time.Second)
	require.Equal(t, []int64{0, 0, 0}, c.shown("name"))

	waiter := queue(t, t.Context(), locker, "name")
	pass(time.Second)
	require.Equal(t, []int64{1, 1, 1}, c.shown("name"))
	unlock(t, holder)
	unlock(t, won(t, waiter))
}

// The danger: a process that is shown for ever, as nothing looks again.
func TestLock_ANameThatIsForgottenIsNotShown(t *testing.T) {
	t.Parallel()
	c, fake := onReal(t, 3), clocktest.New()
	holder := take(t, c.locker(), "name")
	locker := c.locker(redlock.WithClock(fake))
	waiter := queue(t, t.Context(), locker, "name")
	fake.Advance(time.Second)
	c.eventuallyShown("name", 1)
	unlock(t, holder)
	unlock(t, won(t, waiter))
	eventually(t, func() bool {
		fake.Advance(time.Millisecond)
		redlock.DiscardIdle(locker)
		return !redlock.Remembers(locker, "name")
	}, "the name is forgotten")
	c.eventuallyShown("name", 0)
}
