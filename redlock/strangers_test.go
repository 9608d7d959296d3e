package redlock_test

import (
	"crypto/rand"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
			lock := won(t, lockBeside(t.Context(), locker, "name"))
			require.NoError(t, lock.Unlock(t.Context()))
		}
		took := theirs.Load() - before
		first()
		second()
		t.Logf("%d locks of theirs beside %d of the waiter", took, turns)
		c.eventuallyEmpty()
	})
}

// What a waiter does against those that poll ends with them.
func TestLock_PollsNoMoreWhenTheClientsThatPolledAreGone(t *testing.T) {
	c := onReal(t, 3)
	var theirs atomic.Int64
	stop, other := c.stranger("name", &theirs), c.stranger("name", &theirs)
	locker := c.locker()
	for range 20 {
		require.NoError(t, won(t, lockBeside(t.Context(), locker, "name")).Unlock(t.Context()))
	}
	stop()
	other()
	c.eventuallyEmpty()
	release := c.foreign("name", long)
	waiter := lockBeside(t.Context(), locker, "name")
	c.eventuallyTracked()
	c.settled() // it sleeps
	release()
	won(t, waiter)
}
