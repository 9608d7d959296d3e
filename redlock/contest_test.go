package redlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/redlock"
)

// contest is programs that take a name again and again. It counts in locks, so it holds on a machine of any speed.
type contest struct {
	tb     testing.TB
	ctx    context.Context
	cancel context.CancelFunc
	all    sync.WaitGroup
	mu     sync.Mutex
	total  int
	many   int // a wait is long if others get more locks than that
	groups map[string]*group
}

// group is the callers with the same part in a contest.
type group struct {
	locks int // how many they have got
	long  int // how many of their waits were long
	most  int // how many locks others got during the longest wait
}

func newContest(tb testing.TB) *contest {
	c := &contest{tb: tb, groups: map[string]*group{}}
	c.ctx, c.cancel = context.WithCancel(tb.Context())
	tb.Cleanup(c.end)
	return c
}

// enter adds callers of one Locker to a group. Each holds the lock for a time.
func (c *contest) enter(of string, locker *redlock.Locker, callers int, hold time.Duration, opts ...redlock.LockOption) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups[of]
	if g == nil {
		g = &group{}
		c.groups[of] = g
	}
	for range callers {
		c.all.Go(func() { c.call(g, locker, hold, opts) })
	}
}

func (c *contest) call(g *group, locker *redlock.Locker, hold time.Duration, opts []redlock.LockOption) {
	for c.ctx.Err() == nil {
		begin := c.locks(nil)
		lock, err := locker.Lock(c.ctx, "name", opts...)
		switch {
		case c.ctx.Err() != nil && err != nil:
			return
		case errors.Is(err, redlock.ErrTaken) || errors.Is(err, redlock.ErrNoQuorum): // after a MaxWait
			continue
		case !assert.NoError(c.tb, err):
			return
		}
		c.mu.Lock()
		others := c.total - begin
		g.locks, g.most = g.locks+1, max(g.most, others)
		if others > c.many {
			g.long++
		}
		c.total++
		c.mu.Unlock()
		if hold > 0 {
			pass(hold)
		}
		assert.NoError(c.tb, lock.Unlock(context.WithoutCancel(c.ctx)))
	}
}

// locks returns how many locks a group has got. nil means all groups.
func (c *contest) locks(g *group) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g == nil {
		return c.total
	}
	return g.locks
}

// until waits until each group has got as many locks as goals has for it, and ends the contest. It ends it earlier if
// all groups together have got limit locks.
func (c *contest) until(goals map[string]int, limit int) {
	c.tb.Helper()
	eventually(c.tb, func() bool {
		done := true
		for of, goal := range goals {
			done = done && c.locks(c.groups[of]) >= goal
		}
		return done || c.locks(nil) >= limit
	}, "locks for all")
	c.end()
	for of, g := range c.groups {
		c.tb.Logf("%s: %d locks, %d long waits, at most %d locks of others during a wait", of, g.locks, g.long, g.most)
		assert.GreaterOrEqual(c.tb, g.locks, goals[of], "locks of %s", of)
	}
}

func (c *contest) end() {
	c.cancel()
	c.all.Wait()
}
