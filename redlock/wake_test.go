package redlock_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock/clocktest"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// noPolls is a back-off under which only what the servers tell can wake a waiter.
var noPolls = redlock.WithBackoff(long, long)

// foreign takes a name as other programs of the recipe do, on every server.
func (c *cluster) foreign(name string, ttl time.Duration) (release func()) {
	c.tb.Helper()
	const value = "Zm9yZWlnbg==" // any text
	for i := range c.servers {
		require.Equal(c.tb, "OK", c.do(i, "SET", name, value, "NX", "PX", ttl.Milliseconds()))
	}
	return func() {
		c.tb.Helper()
		const script = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`
		for i := range c.servers {
			require.EqualValues(c.tb, 1, c.do(i, "EVAL", script, 1, name, value))
		}
	}
}

// Trap 21: a missed notification that leaves a waiter asleep.
func TestAWaiterIsWokenByTheReleaseOfAnyClient(t *testing.T) {
	c := onReal(t, 5)
	for name, hold := range map[string]func() (release func()){
		"another Locker": func() func() {
			lock := take(t, c.locker(), "name")
			c.eventuallyHeld("name", lock.Token())
			return func() { require.NoError(t, lock.Unlock(t.Context())) }
		},
		"another program": func() func() { return c.foreign("name", long) },
		"an operator": func() func() {
			c.foreign("name", long)
			return func() { c.doAll("FLUSHALL") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			release := hold()
			_, waiter := c.asleep("name", noPolls, redlock.WithClock(clocktest.New())) // nothing comes of time
			before := c.settled()
			release()
			lock := won(t, waiter)
			require.Less(t, c.asked()-before, 5*10, "woken, not polling")
			require.NoError(t, lock.Unlock(t.Context()))
			c.eventuallyEmpty()
		})
	}
}

func TestAWaiterIsWokenByTheReleaseOnAMajority(t *testing.T) {
	c := onReal(t, 5)
	c.foreign("name", long)
	_, waiter := c.asleep("name", noPolls, redlock.WithClock(clocktest.New()))
	c.settled()
	for i := range 3 {
		c.do(i, "DEL", "name")
	}
	lock := won(t, waiter)
	require.NoError(t, lock.Unlock(t.Context()))
}

// Expiry is announced when the server comes to it, so a timer is what wakes.
func TestAWaiterGoesWhenTheTTLOfTheHolderIsOver(t *testing.T) {
	c := onReal(t, 3)
	c.foreign("name", 2*time.Second)
	_, waiter := c.asleep("name", noPolls)
	c.doAll("ACL", "SETUSER", "default", "-subscribe")
	for i := range c.servers {
		_, err := c.servers[i].Do("CLIENT", "KILL", "TYPE", "pubsub") // nothing is announced any more
		require.NoError(t, err)
	}
	lock := won(t, waiter)
	require.NoError(t, lock.Unlock(t.Context()))
}

// Trap 21: a connection for notifications that is cut.
func TestAWaiterIsWokenAfterItsEarWasCut(t *testing.T) {
	for _, row := range []struct {
		name   string
		healed bool
		forbid string
	}{{"released at once", false, ""}, {"released when it hears again", true, ""}, {"never to hear again", false, "-subscribe"}} {
		t.Run(row.name, func(t *testing.T) {
			c := onReal(t, 3)
			release := c.foreign("name", long)
			_, waiter := c.asleep("name")
			c.settled()
			if row.forbid != "" {
				c.doAll("ACL", "SETUSER", "default", row.forbid)
			}
			for i := range c.servers {
				killed, err := redis.Int(c.servers[i].Do("CLIENT", "KILL", "TYPE", "pubsub"))
				require.NoError(t, err)
				require.Positive(t, killed)
			}
			if row.healed {
				for i := range c.servers {
					eventually(t, func() bool { return c.info(i, "clients", "tracking_clients") == "1" }, "server %d", i)
				}
				c.settled()
			}
			release()
			begin := time.Now()
			lock := won(t, waiter)
			require.Less(t, time.Since(begin), 15*time.Second, "in 30 s it would look in any case")
			require.NoError(t, lock.Unlock(t.Context()))
			c.eventuallyEmpty()
		})
	}
}

// The connection that was looked over is cut, and with it goes what was to be told.
func TestAWaiterIsWokenAfterItsConnectionWasCut(t *testing.T) {
	c := onReal(t, 3)
	release := c.foreign("name", long)
	_, waiter := c.asleep("name")
	c.settled()
	for i := range c.servers {
		c.do(i, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	}
	release()
	lock := won(t, waiter)
	require.NoError(t, lock.Unlock(t.Context()))
	c.eventuallyEmpty()
}

func TestWithoutNotificationsAWaiterAsksAgainAndAgainButNotBusily(t *testing.T) {
	for name, forbid := range map[string]string{"tracking": "-client|tracking", "channels": "resetchannels", "subscribing": "-subscribe"} {
		t.Run(name, func(t *testing.T) {
			c := onReal(t, 3)
			c.doAll("ACL", "SETUSER", "default", forbid)
			release := c.foreign("name", long)
			seen := &recorder{}
			locker := c.locker(redlock.WithObserver(seen)) // from 2 ms to 200 ms
			waiter := lockBeside(t.Context(), locker, "name")
			seen.waitForRefusals(t, 10) // until the pauses are long
			const period = 2 * time.Second
			begin, before := time.Now(), c.asked()
			pass(period)
			asked, took := c.asked()-before, time.Since(begin)
			// Every 50 ms at the most: an acquire, a release and a look on each node.
			require.Less(t, asked, 3*3*(int(took/(50*time.Millisecond))+2))
			require.Greater(t, asked, 3)
			release()
			lock := won(t, waiter)
			require.NoError(t, lock.Unlock(t.Context()))
			c.eventuallyEmpty()
		})
	}
}

func TestAnIdleWaiterSendsNothing(t *testing.T) {
	c := onReal(t, 5)
	holder := take(t, c.locker(), "name")
	c.eventuallyHeld("name", holder.Token())
	_, waiter := c.asleep("name")
	before := c.settled()
	pass(3 * time.Second)
	require.LessOrEqual(t, c.asked()-before, 5)
	require.NoError(t, holder.Unlock(t.Context()))
	require.NoError(t, won(t, waiter).Unlock(t.Context()))
}

func TestAWaiterBehindAHolderThatRenewsSendsAFewCommandsForEachRenewal(t *testing.T) {
	c := onReal(t, 5)
	seen := &recorder{}
	holder := take(t, c.locker(redlock.WithObserver(seen)), "name", redlock.TTL(2400*time.Millisecond), redlock.AutoExtend())
	_, waiter := c.asleep("name")
	renewals := func() int { return len(seen.verdictsOn("extend")) }
	eventually(t, func() bool { return renewals() >= 2 }, "two renewals")
	begin, before := renewals(), c.asked()
	eventually(t, func() bool { return renewals() >= begin+4 }, "four more")
	perRenewal := float64(c.asked()-before) / float64(renewals()-begin+1)
	require.Less(t, perRenewal, 5+2*5+1.0, "the renewal, and two commands of the waiter on each node at the most")
	require.NoError(t, holder.Err())
	require.NoError(t, holder.Unlock(t.Context()))
	require.NoError(t, won(t, waiter).Unlock(t.Context()))
}

func TestNobodySleepsForEverWhenAServerRestarts(t *testing.T) {
	for _, row := range []struct{ names, each int }{{1, 1000}, {200, 2}} {
		t.Run(fmt.Sprintf("%d names", row.names), func(t *testing.T) {
			c := onReal(t, 3)
			locker := c.locker()
			other := c.locker()
			var got atomic.Int64
			var ended []chan error
			var holders []*redlock.Lock
			for n := range row.names {
				name := fmt.Sprintf("name %d", n)
				holders = append(holders, take(t, other, name))
				c.eventuallyHeld(name, holders[n].Token())
				for range row.each {
					end := make(chan error, 1)
					ended = append(ended, end)
					go func() {
						lock, err := locker.Lock(t.Context(), name)
						if err == nil {
							got.Add(1)
							err = lock.Unlock(t.Context())
						}
						end <- err
					}()
				}
			}
			c.eventuallyTracked()
			c.settled()
			c.servers[1].Stop()
			before := c.askedOf(0) + c.askedOf(2)
			pass(time.Second)
			asked := c.askedOf(0) + c.askedOf(2) - before
			require.Less(t, asked, 2*row.names*60, "no busy loop while a node is down")
			c.servers[1].Start()
			require.Zero(t, got.Load())
			for _, holder := range holders {
				require.NoError(t, holder.Unlock(t.Context()))
			}
			for _, end := range ended {
				require.NoError(t, receive(t, end, "the end of a wait"))
			}
			c.eventuallyEmpty()
		})
	}
}

// askedOf is asked, of one server.
func (c *cluster) askedOf(i int) int {
	one := &cluster{tb: c.tb, servers: []redistest.Server{c.servers[i]}}
	return one.asked()
}

// A lost majority wakes nobody: it has to be asked for again.
func TestAWaiterWhoseServersAllRestartGoesOn(t *testing.T) {
	c := onReal(t, 3)
	c.foreign("name", long)
	locker := lockerOver(t, c.nodes(pool.WithTimeout(brief), pool.WithDialTimeout(brief)))
	waiter := lockBeside(t.Context(), locker, "name")
	c.eventuallyTracked()
	for _, s := range c.servers {
		s.Stop()
	}
	for _, s := range c.servers {
		s.Start()
	}
	require.NoError(t, won(t, waiter).Unlock(t.Context()))
	c.eventuallyEmpty()
}
