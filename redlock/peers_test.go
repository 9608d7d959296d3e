package redlock_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

// The danger: a released name that one process takes again at once, for ever, while others starve.
func TestLock_AgainAtOnceForEverDoesNotStarveAnotherProcess(t *testing.T) {
	inTurn(t, map[string]bool{"notified": false, "polling": true}, func(t *testing.T, silent bool) {
		c := onReal(t, 3)
		if silent {
			c.silence()
		}
		for range 10 { // it begins to listen each time
			takeTurns(t, c.locker(), c.locker())
		}
	})
}

// greedy are goroutines that take a lock again and again.
type greedy struct {
	turns atomic.Int64
	stop  func() // returns when they have ended
}

func beGreedy(t *testing.T, locker *redlock.Locker, goroutines int, inside func()) *greedy {
	g, stopped := &greedy{}, make(chan struct{})
	var all []chan error
	for range goroutines {
		all = append(all, beside(func() error {
			for {
				lock, err := locker.Lock(t.Context(), "name")
				if err == nil {
					g.turns.Add(1)
					inside()
					err = lock.Unlock(t.Context())
				}
				if err != nil || isOver(stopped) {
					return err
				}
			}
		}))
	}
	g.stop = func() {
		close(stopped)
		for _, ended := range all {
			require.NoError(t, receive(t, ended, "the end"))
		}
	}
	return g
}

// takeTurns has one Locker take a lock for ever, and another get it now and then.
func takeTurns(t *testing.T, mine, other *redlock.Locker) {
	first := beGreedy(t, mine, 1, func() {})
	eventually(t, func() bool { return first.turns.Load() > 20 }, "it is at work")
	for range 5 {
		lock := won(t, lockBeside(t.Context(), other, "name"))
		before := first.turns.Load()
		unlock(t, lock)
		eventually(t, func() bool { return first.turns.Load() > before }, "nor does the other starve it")
	}
	first.stop()
}

// The message that somebody waits can be missed: the holder did not listen yet, or its connection had just gone.
func TestLock_AProcessThatMissedThatAnotherWaitsIsNotifiedAgain(t *testing.T) {
	c := onReal(t, 3)
	mine := c.locker()
	holder := waits(t, mine, "name") // nobody waits here yet, so it does not listen
	c.eventuallyHeld("name", holder.Token())
	_, other := c.asleep("name")
	c.settled()
	ours := beGreedy(t, mine, 8, func() { pass(time.Millisecond) })
	eventually(t, func() bool { return c.listening(0) == 2 }, "it listens")
	unlock(t, holder)
	lock := won(t, other)
	got := ours.turns.Load()
	unlock(t, lock)
	ours.stop()
	require.Less(t, got, int64(100), "turns of the process that did not know")
}

// Three processes that always want the lock have about as many turns each.
func TestLock_ProcessesTakeTurns(t *testing.T) {
	c := onReal(t, 3)
	var all []*greedy
	for range 3 {
		all = append(all, beGreedy(t, c.locker(), 4, func() {}))
	}
	for _, g := range all {
		eventually(t, func() bool { return g.turns.Load() >= 40 }, "turns for everybody")
	}
	total := int64(0)
	for _, g := range all {
		g.stop()
		total += g.turns.Load()
	}
	for i, g := range all {
		t.Logf("turns of %d: %d of %d", i, g.turns.Load(), total)
		require.Greater(t, g.turns.Load(), total/10, "process %d", i)
	}
}

func TestLock_OnAHotNameNobodyIsInsideWithAnotherAndNobodyStarves(t *testing.T) {
	const children, goroutines = 8, 16
	c := onReal(t, 5)
	judge := testredis.Real(t, 1)[0]
	p := plan{Who: "parent", URLs: testredis.URLs(c.servers), Judge: judge.Addr(), Goroutines: goroutines, TTL: long}
	var others []*child
	for i := range children {
		other := p
		other.Who, other.Goroutines = fmt.Sprintf("child %d", i), 2
		others = append(others, spawn(t, other))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended, locker := make(chan error, 1), c.locker()
	go func() { ended <- p.contend(ctx, locker) }()

	before := allCame(t, judge, 1+children, 1)
	came := len(visits(t, judge))
	eventually(t, func() bool { return len(visits(t, judge)) >= came+50*(1+children) }, "50 turns for each on average")
	after := allCame(t, judge, 1+children, 1)
	cancel()
	require.NoError(t, receive(t, ended, "the end"))
	for _, other := range others {
		other.end()
	}
	total, least := 0, 1<<30
	shares := map[string]int{}
	for who, n := range after {
		shares[who] = n - before[who]
		total += shares[who]
		least = min(least, shares[who])
	}
	t.Logf("shares: %v", shares)
	require.Greater(t, least, total/(1+children)/5, "a fifth of the fair share: %v", shares)
	require.NotEmpty(t, visits(t, judge), "and nobody was inside with another until the end")
}

// The waiter outlasts the TTL of a holder whose process is gone.
func TestLock_OfAProcessThatWasKilledGoesToTheNextAfterItsTTL(t *testing.T) {
	t.Parallel()
	c := onReal(t, 5)
	const ttl = 2 * time.Second
	holder := spawn(t, plan{Who: "holder", URLs: testredis.URLs(c.servers), Hold: true, TTL: ttl})
	token := redlock.Token(strings.TrimSpace(must(holder.out.ReadString('\n'))(t)))
	c.eventuallyHeld("name", token)
	_, waiter := c.asleep("name", redlock.WithBackoff(time.Millisecond, long)) // a renewal may be told before the lock was observed
	eventually(t, func() bool {                                                // it is renewed
		return c.ttl(0, "name") < ttl*3/4
	}, "the TTL goes down")
	eventually(t, func() bool { return c.ttl(0, "name") > ttl*9/10 }, "and up")
	require.NoError(t, holder.cmd.Process.Kill())
	<-holder.done
	died := time.Now()
	require.Empty(t, waiter)
	lock := won(t, waiter)
	took := time.Since(died)
	t.Logf("%v after the holder's death", took)
	require.Less(t, took, ttl+10*time.Second, "of an hour that nothing else would have ended")
	require.LessOrEqual(t, c.holding("name", token), 2, "a minority may have been renewed last, and hold it for a moment longer")
	unlock(t, lock)
}

// A process that waits is killed at its turn: what it took goes with its TTL, and nobody else is stuck.
func TestLock_ProcessesThatAreKilledWhileTheyContendDoNotStopTheOthers(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	judge := testredis.Real(t, 1)[0]
	p := plan{Who: "parent", URLs: testredis.URLs(c.servers), Judge: judge.Addr(), Goroutines: 2, TTL: time.Second}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	locker := lockerOver(t, c.nodes(), redlock.TTL(long))
	go func() { ended <- p.contend(ctx, locker) }()
	for i := range 4 {
		victim := p
		victim.Who = fmt.Sprintf("victim %d", i)
		other := spawn(t, victim)
		came := func(who string) (n int) {
			seen := must(redis.Strings(judge.Do("LRANGE", "visits", 0, -1)))(t)
			for _, v := range seen {
				if v == "+"+who {
					n++
				}
			}
			return n
		}
		eventually(t, func() bool { return came(victim.Who) > 10 }, "it is at work")
		require.NoError(t, other.cmd.Process.Kill())
		<-other.done
		before := came("parent")
		eventually(t, func() bool { return came("parent") > before+10 }, "the others go on")
	}
	cancel()
	require.NoError(t, receive(t, ended, "the end"))
}

var deleteIfSame = redis.NewScript(1, `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`)

// stranger takes a name and gives it back without a pause, as a client of the recipe does that polls, until stop. It counts
// how often it got the name.
func (c *cluster) stranger(name string, got *atomic.Int64) (stop func()) {
	c.tb.Helper()
	var conns []redis.Conn
	for _, s := range c.servers {
		conn := must(redis.Dial("tcp", s.Addr()))(c.tb)
		require.NoError(c.tb, deleteIfSame.Load(conn))
		conns = append(conns, conn)
	}
	onAll := func(send func(conn redis.Conn) error) (yes int) {
		for _, conn := range conns {
			assert.NoError(c.tb, send(conn))
			assert.NoError(c.tb, conn.Flush())
		}
		for _, conn := range conns {
			if reply, err := conn.Receive(); assert.NoError(c.tb, err) && reply != nil {
				yes++
			}
		}
		return yes
	}
	stopped, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for !isOver(stopped) && !c.tb.Failed() {
			token := rand.Text()
			if onAll(func(conn redis.Conn) error { return conn.Send("SET", name, token, "NX", "PX", long.Milliseconds()) }) > len(conns)/2 {
				got.Add(1)
			}
			onAll(func(conn redis.Conn) error { return deleteIfSame.SendHash(conn, name, token) })
		}
		for _, conn := range conns {
			assert.NoError(c.tb, conn.Close())
		}
	}()
	return func() {
		close(stopped)
		<-ended
	}
}

// The danger: clients that poll without a pause take the lock each time that it is free, before a waiter knows that it is.
func TestLock_ClientsThatPollWithoutAPauseDoNotStarveAWaiter(t *testing.T) {
	inTurn(t, map[string]bool{"notified": false, "polling": true}, func(t *testing.T, silent bool) {
		c := onReal(t, 5)
		if silent {
			c.silence()
		}
		var theirs atomic.Int64
		first, second := c.stranger("name", &theirs), c.stranger("name", &theirs)
		eventually(t, func() bool { return theirs.Load() > 20 }, "they are at work")
		locker := c.locker()
		const turns = 100
		before := theirs.Load()
		for range turns {
			unlock(t, won(t, lockBeside(t.Context(), locker, "name")))
		}
		took := theirs.Load() - before
		first()
		second()
		t.Logf("%d locks of theirs beside %d of the waiter", took, turns)
		c.eventuallyEmpty()
	})
}
