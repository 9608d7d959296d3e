package redlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// job holds the lock of a name, which it renews, while others go on. Between renewals it looks at how often they did something: they have to
// do so in most of these times.
func (c *cluster) job(name string, did *atomic.Int64) {
	c.tb.Helper()
	const times = 9
	renewed := make(chan struct{}, 100)
	locker := c.locker(redlock.WithObserver(event.ObserverFunc(func(e event.Event) {
		if e, is := e.(event.Extend); is && e.Renewal {
			renewed <- struct{}{}
		}
	})))
	lock := got(locker.Lock(c.tb.Context(), name, redlock.TTL(time.Second), redlock.RenewFor(redlock.NoLimit)))(c.tb)
	busy := 0
	for range times {
		receive(c.tb, renewed, "a renewal")
		if did.Swap(0) > 0 {
			busy++
		}
	}
	require.NoError(c.tb, lock.Err())
	require.Greater(c.tb, busy, times*3/4, "of %d times", times)
}

// goOn has goroutines do something again and again until the function that it returns is called.
func goOn(t *testing.T, n int, what func(ctx context.Context, i int)) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for ctx.Err() == nil {
				what(ctx, i)
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// The danger: a call for two names takes the one that is free out of use for as long as the other is held.
func TestLockAll_KeepsNobodyBackWhoWantsTheOtherName(t *testing.T) {
	c := onReal(t, 3)
	sets, single := c.locker(redlock.TTL(time.Second)), c.locker(redlock.TTL(time.Second))
	var got atomic.Int64
	end := goOn(t, 3, func(ctx context.Context, i int) {
		if i < 2 {
			if locks, err := sets.LockAll(ctx, []string{"a", "b"}); err == nil {
				_ = locks.Unlock(ctx)
			}
			return
		}
		if lock, err := single.Lock(ctx, "a"); err == nil {
			got.Add(1)
			_ = lock.Unlock(ctx)
		}
	})
	c.job("b", &got)
	end()
}

// The danger: one account that is held for long brings the moves between all others to a standstill, as each call keeps what the next wants.
func TestLockAll_OneHeldNameBringsNothingElseToAStandstill(t *testing.T) {
	c := onReal(t, 3)
	var lockers []*redlock.Locker
	for range 4 {
		lockers = append(lockers, c.locker(redlock.TTL(500*time.Millisecond)))
	}
	var moves atomic.Int64
	end := goOn(t, 12, func(ctx context.Context, i int) {
		from, to := rand.IntN(20), rand.IntN(19)
		switch {
		case i >= 8:
			to = 20
		case to >= from:
			to++
		}
		locks, err := lockers[i%4].LockAll(ctx, []string{fmt.Sprint("account-", from), fmt.Sprint("account-", to)})
		if err == nil {
			moves.Add(1)
			_ = locks.Unlock(ctx)
		}
	})
	c.job("account-20", &moves)
	end()
}
