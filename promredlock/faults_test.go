package promredlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// take waits for a lock.
func take(t *testing.T, locker *redlock.Locker, name string, opts ...redlock.LockOption) *redlock.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lock, err := locker.Lock(ctx, name, opts...)
	require.NoError(t, err)
	return lock
}

// faultsOfNodes cuts connections, stops nodes and freezes a majority, and restarts a node that has a restart guard.
func faultsOfNodes(t *testing.T, j *job) {
	j.during(t, "RedlockNodeReconnects", func() {
		j.do(t, j.servers[4:], "CLIENT", "KILL", "SKIPME", "yes")
		tick(t.Context(), 200*time.Millisecond)
	})
	take(t, j.locker, "expires", redlock.RenewFor(redlock.NoLimit))
	j.servers[0].Stop()
	j.waitFor(t, "RedlockNodeDown")
	j.servers[1].Freeze()
	j.servers[2].Freeze()
	j.waitFor(t, "RedlockNoQuorum")
	j.waitFor(t, "RedlockMajorityDown")
	waitUntil(t, "the lock has expired", func() bool {
		return len(j.prometheus.at(t, time.Now(), `redlock_lock_losses_total{job="nodes",end="expired"} > 0`)) > 0
	})
	j.servers[1].Thaw()
	j.servers[2].Thaw()
	j.during(t, "RedlockNodeQuarantined", func() {
		j.servers[0].Stop()
		j.servers[0].Start()
		tick(t.Context(), 10*time.Second) // the quarantine takes less
	})
}

// slowness makes a node slow, has another refuse what needs memory, and freezes a majority until a renewal is almost too late.
func slowness(t *testing.T, j *job) {
	slow := j.servers[2]
	j.during(t, "RedlockNodeSlow", func() {
		for range 10 {
			slow.Freeze()
			tick(t.Context(), nodeTimeout*6/10)
			slow.Thaw()
			tick(t.Context(), 10*time.Millisecond)
		}
	})
	j.do(t, j.servers[1:2], "CONFIG", "SET", "maxmemory", "1")
	j.waitFor(t, "RedlockNodeNotVoting")
	j.do(t, j.servers[1:2], "CONFIG", "SET", "maxmemory", "0")

	const ttl = 5 * time.Second
	for !j.fired(t, "RedlockRenewalsLate") { // the lock may get lost on a machine that is slow
		lock := take(t, j.locker, "late", redlock.TTL(ttl), redlock.RenewFor(redlock.NoLimit))
		waitUntil(t, "the first renewal", func() bool { return lock.Remaining() < ttl*8/10 })
		j.servers[0].Freeze()
		j.servers[1].Freeze()
		waitUntil(t, "the lock is almost over", func() bool { return lock.Remaining() < ttl/5 })
		j.servers[0].Thaw()
		j.servers[1].Thaw()
		waitUntil(t, "the renewal", func() bool { return lock.Remaining() > ttl/2 || lock.Err() != nil })
		begin := time.Now()
		waitUntil(t, "RedlockRenewalsLate, or a scrape without it", func() bool {
			return j.fired(t, "RedlockRenewalsLate") || time.Since(begin) > 4*scrapes
		})
		_ = lock.Unlock(t.Context())
	}
}

// contention has callers wait for a lock that is held for long, give up, try a lock of which another has three of five nodes, and
// take turns.
func contention(t *testing.T, j *job) {
	j.pause()
	j.working.Wait()
	lockers := []*redlock.Locker{j.locker}
	for range 3 {
		lockers = append(lockers, j.open(t))
	}
	j.during(t, "RedlockLongWaits", func() {
		var held *redlock.Lock
		waitUntil(t, "the lock is free", func() bool { // TryLock does not count as a short wait
			held, _ = j.locker.TryLock(t.Context(), "wanted", redlock.TTL(time.Minute))
			return held != nil
		})
		var waiting sync.WaitGroup
		for i := range 40 {
			waiting.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if i%2 == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Second)
					defer cancel()
				}
				_ = lockers[1+i%3].Do(ctx, "wanted", func(context.Context, *redlock.Lock) error { return nil })
			})
		}
		tick(t.Context(), 7*time.Second)
		_ = held.Unlock(t.Context())
		waiting.Wait()
	})
	held := take(t, j.locker, "in vain", redlock.TTL(time.Hour))
	j.during(t, "RedlockWaitsGivenUp", func() {
		ctx, cancel := context.WithTimeout(t.Context(), scrapes/4)
		defer cancel()
		_, err := lockers[1].Lock(ctx, "in vain")
		require.Error(t, err)
	})
	_ = held.Unlock(t.Context())

	j.do(t, j.servers[:3], "SET", "tried", "of another", "PX", time.Hour.Milliseconds())
	j.during(t, "RedlockSplitVotes", func() {
		for range 100 { // the two other nodes say yes, mostly before the last of the three says no
			_, err := j.locker.TryLock(t.Context(), "tried")
			require.Error(t, err)
		}
		tick(t.Context(), scrapes/2)
	})

	ctx, stop := context.WithCancel(context.Background())
	var taking sync.WaitGroup
	defer taking.Wait()
	defer stop()
	for _, locker := range lockers {
		for range 2 {
			taking.Go(func() {
				for ctx.Err() == nil {
					_ = locker.Do(ctx, "turns", func(context.Context, *redlock.Lock) error { return nil })
				}
			})
		}
	}
	waitUntil(t, "turns are received", func() bool {
		return len(j.prometheus.at(t, time.Now(), `rate(redlock_turns_total{job="contention",direction="received"}[5s]) > 0`)) > 0
	})
}

// faultsOfKeys sets keys without a TTL, deletes those of locks, has an operator remove a lock, sets the fence counters of nodes
// apart, and has an observer block.
func faultsOfKeys(t *testing.T, j *job) {
	j.do(t, j.servers, "SET", "stuck", "of a SETNX without EXPIRE")
	ctx, stop := context.WithCancel(context.Background())
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer stop()
	waiting.Go(func() {
		_, err := j.locker.Lock(ctx, "stuck")
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Lock of a key without a TTL: %v", err)
		}
	})

	healer := j.open(t, redlock.WithKeyPrefix("healed:"), redlock.WithHeal(200*time.Millisecond))
	j.during(t, "RedlockKeyHealed", func() {
		j.do(t, j.servers, "SET", "healed:key", "of a SETNX without EXPIRE")
		waitUntil(t, "the key is healed", func() bool {
			lock, err := healer.TryLock(t.Context(), "key")
			if err == nil {
				_ = lock.Unlock(t.Context())
			}
			return err == nil
		})
		tick(t.Context(), 2*scrapes)
	})
	j.during(t, "RedlockLockLost", func() {
		lost := take(t, j.locker, "lost", redlock.RenewFor(redlock.NoLimit))
		j.do(t, j.servers, "DEL", "lost")
		waitUntil(t, "the loss is noticed", func() bool { return lost.Err() != nil })
		tick(t.Context(), 2*scrapes)
	})
	j.during(t, "RedlockForcedUnlock", func() {
		lock := take(t, j.locker, "removed", redlock.TTL(time.Hour))
		_, err := j.locker.ForceUnlock(t.Context(), "removed")
		require.NoError(t, err)
		require.Error(t, lock.Unlock(t.Context()))
		tick(t.Context(), 2*scrapes)
	})
	j.during(t, "RedlockEventsDropped", func() {
		blockObserver(t, j)
		tick(t.Context(), 5*scrapes)
	})
	j.waitFor(t, "RedlockStuckKey")

	j.pause() // its acquires would be most of them
	j.working.Wait()
	j.during(t, "RedlockFenceRaises", func() {
		for range 20 {
			for i := range j.servers {
				j.do(t, j.servers[i:i+1], "INCRBY", "{apart}:fence", 1000*(i+1))
			}
			if lock, err := j.locker.TryLock(t.Context(), "apart"); err == nil {
				_ = lock.Unlock(t.Context())
			}
		}
		tick(t.Context(), glance)
	})
}

// blockObserver makes more events than can wait for an observer that is not done with the first.
func blockObserver(t *testing.T, j *job) {
	blocked := make(chan struct{})
	locker := j.open(t, redlock.WithObserver(event.ObserverFunc(func(e event.Event) {
		<-blocked
		j.collector.Observe(e)
	})))
	defer close(blocked)
	lock := take(t, locker, "unobserved", redlock.TTL(time.Hour))
	ctx, cancel := lock.Context(t.Context())
	defer cancel()
	for range 70_000 { // one event each
		_, err := locker.TryLock(ctx, "unobserved")
		require.ErrorIs(t, err, redlock.ErrDeadlock)
	}
	_ = lock.Unlock(t.Context())
}
