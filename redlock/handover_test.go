package redlock_test

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

func TestAReleasedLockGoesToTheNextWaiterInOneFlush(t *testing.T) {
	c := onReal(t, 3)
	var together atomic.Int64
	nodes := c.nodes(throughWires(func(_ string, w *wire) {
		w.wrote = func(p []byte) {
			if bytes.Contains(p, []byte("\r\nEVAL")) && bytes.Contains(p, []byte("\r\nNX\r\n")) {
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
	require.NoError(t, holder.Unlock(t.Context()))
	l.end()
	require.Greater(t, together.Load(), int64(30*3/4), "a release, and the acquire of the next behind it")
	c.eventuallyEmpty()
}

// Trap 23: a released name that one process takes again at once, for ever, while others starve.
func TestAProcessWhoseWaitersNeverEndLetsAnotherHaveItsTurn(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		mine := c.locker()
		holder := waits(t, mine, "name")
		if c.processes != nil {
			c.eventuallyHeld("name", holder.Token())
		}
		other, seen := c.waiting(c.nodes())
		l := &line{tb: t}
		l.join(other, "the other")
		seen.waitForRefusals(t, 1)
		if c.processes != nil {
			c.eventuallyTracked()
			c.settled()
		}
		const n = 200
		for range n {
			l.join(mine, "one of ours")
		}
		require.NoError(t, holder.Unlock(t.Context()))
		came := l.end()
		require.Len(t, came, n+1)
		at := slices.Index(came, "the other")
		t.Logf("the other came as number %d of %d", at, n+1)
		if c.processes != nil { // they tell each other
			require.Less(t, at, 40)
		}
		c.eventuallyEmpty()
	})
}

// Trap 23, with one goroutine that leaves the line between two locks.
func TestAProcessThatLocksAgainAtOnceForEverDoesNotStarveAnother(t *testing.T) {
	for name, silent := range map[string]bool{"notified": false, "polling": true} {
		t.Run(name, func(t *testing.T) {
			c := onReal(t, 3)
			if silent {
				c.silence()
			}
			for range 10 { // it begins to listen each time
				takeTurns(t, c.locker(), c.locker())
			}
			c.eventuallyEmpty()
		})
	}
}

// takeTurns has one Locker take a lock for ever, and another get it now and then.
func takeTurns(t *testing.T, greedy, other *redlock.Locker) {
	stop, ended := make(chan struct{}), make(chan error, 1)
	var turns atomic.Int64
	go func() {
		for {
			lock, err := greedy.Lock(t.Context(), "name")
			if err == nil {
				turns.Add(1)
				err = lock.Unlock(t.Context())
			}
			if err != nil || isOver(stop) {
				ended <- err
				return
			}
		}
	}()
	eventually(t, func() bool { return turns.Load() > 20 }, "it is at work")
	for range 5 {
		lock := won(t, lockBeside(t.Context(), other, "name"))
		before := turns.Load()
		require.NoError(t, lock.Unlock(t.Context()))
		eventually(t, func() bool { return turns.Load() > before }, "nor does the other starve it")
	}
	close(stop)
	require.NoError(t, receive(t, ended, "the end"))
}

// The message that somebody waits can be missed: the holder did not listen yet, or its connection had just gone.
func TestAProcessThatMissedThatAnotherWaitsIsToldAgain(t *testing.T) {
	c := onReal(t, 3)
	mine := c.locker()
	holder := waits(t, mine, "name") // nobody waits here yet, so it does not listen
	c.eventuallyHeld("name", holder.Token())
	_, other := c.asleep("name")
	c.settled()
	stop := make(chan struct{})
	ended := make(chan error, 8)
	var turns atomic.Int64
	for range 8 {
		go func() {
			for {
				lock, err := mine.Lock(t.Context(), "name")
				if err == nil {
					turns.Add(1)
					pass(time.Millisecond)
					err = lock.Unlock(t.Context())
				}
				if err != nil || isOver(stop) {
					ended <- err
					return
				}
			}
		}()
	}
	eventually(t, func() bool { return c.do(0, "CLIENT", "LIST", "TYPE", "pubsub") != nil }, "it listens")
	require.NoError(t, holder.Unlock(t.Context()))
	lock := won(t, other)
	got := turns.Load()
	require.NoError(t, lock.Unlock(t.Context()))
	close(stop)
	for range 8 {
		require.NoError(t, receive(t, ended, "the end"))
	}
	require.Less(t, got, int64(100), "turns of the process that did not know")
}

// Three processes that always want the lock have about as many turns each.
func TestProcessesTakeTurns(t *testing.T) {
	c := onReal(t, 3)
	const processes, each, rounds = 3, 4, 40
	var turns [processes]atomic.Int64
	stop := make(chan struct{})
	ended := make(chan error, processes*each)
	for p := range processes {
		locker := c.locker()
		for range each {
			go func() {
				for !isOver(stop) {
					lock, err := locker.Lock(t.Context(), "name")
					if err == nil {
						turns[p].Add(1)
						err = lock.Unlock(t.Context())
					}
					if err != nil {
						ended <- err
						return
					}
				}
				ended <- nil
			}()
		}
	}
	eventually(t, func() bool {
		for p := range turns {
			if turns[p].Load() < rounds {
				return false
			}
		}
		return true
	}, "turns for everybody")
	close(stop)
	for range processes * each {
		require.NoError(t, receive(t, ended, "the end"))
	}
	total := turns[0].Load() + turns[1].Load() + turns[2].Load()
	t.Logf("turns: %d %d %d", turns[0].Load(), turns[1].Load(), turns[2].Load())
	for p := range turns {
		require.Greater(t, turns[p].Load(), total/10, "process %d", p)
	}
	c.eventuallyEmpty()
}

// A Locker that is closed while it holds a lock does not begin to listen with its release.
func TestAReleaseAfterCloseDoesNotListen(t *testing.T) {
	c := onReal(t, 1)
	nodes := c.nodes()
	locker, err := redlock.New(nodes, redlock.WithTTL(long))
	require.NoError(t, err)
	for range 5 {
		require.NoError(t, waits(t, locker, "name").Unlock(t.Context()))
	}
	last := waits(t, locker, "name") // after which another process would have its turn
	require.NoError(t, locker.Close())
	require.NoError(t, last.Unlock(t.Context()))
	c.settled()
	require.Empty(t, c.do(0, "CLIENT", "LIST", "TYPE", "pubsub"))
	require.Equal(t, "0", c.info(0, "clients", "tracking_clients"))
}
