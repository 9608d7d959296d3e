package redlock_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// The danger: a missed notification that leaves a waiter asleep.
func TestLock_IsWokenByTheReleaseOfAnyClient(t *testing.T) {
	t.Parallel()
	c := onReal(t, 5)
	inTurn(t, map[string]func() (release func()){
		"another Locker": func() func() {
			lock := c.everywhere(take(t, c.locker(), "name"))
			return func() { require.NoError(t, lock.Unlock(t.Context())) }
		},
		"another program": func() func() { return c.foreign("name", long) },
		"an operator": func() func() {
			c.foreign("name", long)
			return func() { c.doAll("FLUSHALL") }
		},
		"an operator, on a majority": func() func() {
			c.foreign("name", long)
			return func() { c.do(0, "DEL", "name"); c.do(1, "DEL", "name"); c.do(2, "DEL", "name") }
		},
	}, func(t *testing.T, hold func() (release func())) {
		release := hold()
		_, waiter := c.asleep("name", noPolls, redlock.WithClock(clocktest.New())) // nothing comes of time
		before := c.settled()
		release()
		lock := won(t, waiter)
		require.Less(t, c.asked()-before, 5*10, "woken, not polling")
		unlock(t, lock)
		eventually(t, func() bool { return c.holding("name", lock.Token()) == 0 }, "it is released")
		c.doAll("DEL", "name")
	})
}

// What was to be told goes with the connection.
func TestLock_IsWokenAfterItsConnectionWasCut(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name             string
		again, forbidden bool
	}{{"released at once", false, false}, {"released when changes are tracked again", true, false}, {"never to be tracked again", false, true}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := onReal(t, 3)
			release, fake := c.foreign("name", long), clocktest.New()
			_, waiter := c.asleep("name", redlock.WithClock(fake))
			c.settled()
			if row.forbidden {
				c.silence()
			}
			for i := range c.servers {
				killed := must(redis.Int(c.servers[i].Do("CLIENT", "KILL", "SKIPME", "yes")))(t)
				require.Positive(t, killed)
			}
			if row.again {
				c.each(func(i int) {
					eventually(t, func() bool { return c.info(i, "clients", "tracking_clients") == "1" }, "server %d", i)
				})
				c.settled()
			}
			release()
			if row.forbidden { // otherwise nothing comes of time
				begin := fake.Now()
				turnUntil(t, fake, 2*time.Millisecond, func() bool { return len(waiter) > 0 })
				require.Less(t, fake.Now().Sub(begin), 29*time.Second, "in 30 s it would observe in any case")
			}
			unlock(t, won(t, waiter))
			c.eventuallyEmpty()
		})
	}
}

func TestLock_WithoutTrackingAsksAgainAndAgainButNotBusily(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	c.silence()
	seen, fake := &recorder{}, clocktest.New()
	locker := c.locker(redlock.WithObserver(seen), redlock.WithClock(fake)) // from 2 ms to 200 ms
	c.proves(locker, "")
	release := c.foreign("name", long)
	waiter := lockBeside(t.Context(), locker, "name")
	refusals := func() int {
		locker.Drain()
		return len(seen.verdictsOn("acquire"))
	}
	turnUntil(t, fake, time.Millisecond, func() bool { return refusals() >= 10 }) // until the pauses are long
	before := c.settled()
	require.Equal(t, before, c.settled(), "nothing comes but of time")
	first := refusals()
	for i := range 5 {
		begin := fake.Now()
		turnUntil(t, fake, 5*time.Millisecond, func() bool { return refusals() > first+i })
		require.GreaterOrEqual(t, fake.Now().Sub(begin), 45*time.Millisecond, "a quarter of 200 ms, within a step")
	}
	// An acquire, a release and an observation on each node.
	require.LessOrEqual(t, c.settled()-before, 3*3*(refusals()-first))
	release()
	turnUntil(t, fake, 5*time.Millisecond, func() bool { return len(waiter) > 0 })
	won(t, waiter)
}

// Only peers need channels. A server that refuses them tells of changes all the same.
func TestLock_WithoutChannelsIsWokenByTheRelease(t *testing.T) {
	t.Parallel()
	inTurn(t, map[string]string{"channels": "resetchannels", "subscribing": "-subscribe"}, func(t *testing.T, forbid string) {
		c := onReal(t, 3)
		c.doAll("ACL", "SETUSER", "default", forbid)
		release := c.foreign("name", long)
		_, waiter := c.asleep("name", noPolls, redlock.WithClock(clocktest.New()))
		c.settled()
		release()
		unlock(t, won(t, waiter))
		c.eventuallyEmpty()
	})
}

func TestLock_BehindAHolderThatRenewsSendsAFewCommandsForEachRenewal(t *testing.T) {
	t.Parallel()
	c, seen := onReal(t, 5), &recorder{}
	holder := take(t, c.locker(redlock.WithObserver(seen)), "name", redlock.TTL(2400*time.Millisecond), redlock.RenewFor(redlock.NoLimit))
	_, waiter := c.asleep("name")
	renewals := func() int { return len(seen.verdictsOn("extend")) }
	eventually(t, func() bool { return renewals() >= 2 }, "the early renewal, and another")
	begin, before := renewals(), c.asked()
	eventually(t, func() bool { return renewals() >= begin+4 }, "four more")
	perRenewal := float64(c.asked()-before) / float64(renewals()-begin+1)
	require.Less(t, perRenewal, 5+2*5+1.0, "the renewal, and two commands of the waiter on each node at the most")
	require.NoError(t, holder.Err())
	unlock(t, holder)
	won(t, waiter)
}

func TestLock_NobodySleepsForEverWhenAServerRestarts(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ names, each int }{{1, 1000}, {200, 2}} {
		t.Run(fmt.Sprintf("%d names", row.names), func(t *testing.T) {
			c := onReal(t, 3)
			locker, other := c.locker(), c.locker()
			var got atomic.Int64
			var ended []chan error
			var holders []*redlock.Lock
			for n := range row.names {
				name := fmt.Sprintf("name %d", n)
				holders = append(holders, take(t, other, name))
				c.eventuallyHeld(name, holders[n].Token())
				for range row.each {
					ended = append(ended, beside(func() error {
						lock, err := locker.Lock(t.Context(), name)
						if err == nil {
							got.Add(1)
							err = lock.Unlock(t.Context())
						}
						return err
					}))
				}
			}
			c.eventuallyTracked()
			c.servers[1].Stop()
			before := c.askedOf(0) + c.askedOf(2)
			pass(time.Second)
			asked := c.askedOf(0) + c.askedOf(2) - before
			require.Less(t, asked, 2*row.names*60, "no busy loop while a node is down")
			c.servers[1].Start()
			require.Zero(t, got.Load())
			for _, holder := range holders {
				unlock(t, holder)
			}
			for _, end := range ended {
				require.NoError(t, receive(t, end, "the end of a wait"))
			}
		})
	}
}

// askedOf is asked, of one server.
func (c *cluster) askedOf(i int) int {
	one := &cluster{tb: c.tb, servers: []testredis.Server{c.servers[i]}}
	return one.asked()
}

// A lost majority wakes nobody: it has to be asked for again.
func TestLock_GoesOnWhenAllServersRestart(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	c.foreign("name", long)
	locker := lockerOver(t, c.nodes(pool.WithTimeout(brief), pool.WithDialTimeout(brief)))
	waiter := lockBeside(t.Context(), locker, "name")
	c.eventuallyTracked()
	kill(c.servers...)
	restart(c.servers...)
	unlock(t, won(t, waiter))
	c.eventuallyEmpty()
}

// The danger: nodes that are asked for tracking, which they refuse, by each Locker that shares them and is closed.
func TestClose_OfALockerThatNeverListenedAsksNothingOfTheNodes(t *testing.T) {
	t.Parallel()
	c := onReal(t, 1)
	c.silence()
	refused := func() int {
		stats := c.info(0, "commandstats", "cmdstat_"+c.subcommand("client|tracking"))
		_, after, _ := strings.Cut(stats, "rejected_calls=")
		n, _ := strconv.Atoi(strings.SplitN(after, ",", 2)[0])
		return n
	}
	nodes := c.nodes()
	locker := lockerOver(t, nodes)
	holder := take(t, c.locker(redlock.TTL(time.Hour)), "name")
	waiter := queue(t, t.Context(), locker, "name")
	eventually(t, func() bool { return refused() > 0 }, "tracking is asked for")
	before := refused()
	for range 20 {
		l, err := redlock.New(nodes)
		require.NoError(t, err)
		require.NoError(t, take(t, l, "other").Unlock(t.Context()))
		require.NoError(t, l.Close())
	}
	require.NoError(t, take(t, locker, "other").Unlock(t.Context())) // what was sent before has been carried out
	require.Less(t, refused()-before, 10)
	require.NoError(t, holder.Unlock(t.Context()))
	require.NoError(t, won(t, waiter).Unlock(t.Context()))
}
