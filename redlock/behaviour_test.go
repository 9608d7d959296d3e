package redlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/election"
)

// behaviours are what locks do on nodes of any kind. Each gets two programs, with fencing and hand-offs.
var behaviours = map[string]func(t *testing.T, one, other *redlock.Locker){
	"one holder at a time": func(t *testing.T, one, other *redlock.Locker) {
		first := take(t, one, "mutex")
		_, err := other.TryLock(t.Context(), "mutex")
		requireIs(t, err, redlock.ErrTaken)
		require.NoError(t, first.Extend(t.Context(), long))
		unlock(t, first)
		second := take(t, other, "mutex")
		require.Greater(t, second.Fence(), first.Fence())
		unlock(t, second)
	},
	"a waiter is woken by a release": func(t *testing.T, one, other *redlock.Locker) {
		first := take(t, one, "waited")
		waiter := queue(t, t.Context(), other, "waited")
		eventually(t, func() bool { return redlock.Sees(other, "lock:waited") }, "the holder")
		unlock(t, first)
		unlock(t, won(t, waiter))
	},
	"one after the other": func(t *testing.T, one, other *redlock.Locker) {
		var all sync.WaitGroup
		for _, locker := range []*redlock.Locker{one, other} {
			all.Go(func() {
				for range 30 {
					lock, err := locker.Lock(t.Context(), "contended")
					if err == nil {
						err = lock.Unlock(t.Context())
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	},
	"a lock is handed off in the process": func(t *testing.T, one, _ *redlock.Locker) {
		first := take(t, one, "handed")
		waiter := queue(t, t.Context(), one, "handed")
		unlock(t, first)
		next := won(t, waiter)
		require.Greater(t, next.Fence(), first.Fence())
		unlock(t, next)
	},
	"several names": func(t *testing.T, one, other *redlock.Locker) {
		locks, err := one.LockAll(t.Context(), []string{"b", "a", "c"})
		require.NoError(t, err)
		_, err = other.TryLockAll(t.Context(), []string{"c", "d"})
		requireIs(t, err, redlock.ErrTaken)
		unlock(t, take(t, other, "d"))
		require.NoError(t, locks.Unlock(t.Context()))
		unlock(t, take(t, other, "c"))
	},
	"readers and a writer": func(t *testing.T, one, other *redlock.Locker) {
		reader, second := take(t, one, "shared", redlock.Shared()), take(t, other, "shared", redlock.Shared())
		writer := queue(t, t.Context(), one, "shared")
		unlock(t, reader)
		unlock(t, second)
		unlock(t, won(t, writer))
	},
	"slots": func(t *testing.T, one, other *redlock.Locker) {
		first, second := take(t, one, "slots", redlock.Slots(2)), take(t, other, "slots", redlock.Slots(2))
		_, err := one.TryLock(t.Context(), "slots", redlock.Slots(2))
		requireIs(t, err, redlock.ErrTaken)
		unlock(t, first)
		unlock(t, take(t, one, "slots", redlock.Slots(2)))
		unlock(t, second)
	},
	"who holds it, and an end by force": func(t *testing.T, one, other *redlock.Locker) {
		lock := take(t, one, "forced", redlock.Metadata("web-1"), redlock.RenewFor(redlock.NoLimit))
		state, err := other.Inspect(t.Context(), "forced")
		require.NoError(t, err)
		require.Equal(t, redlock.VerdictHeld, state.Verdict)
		require.Equal(t, "web-1", state.Holders[0].Metadata)
		removed, err := other.ForceUnlock(t.Context(), "forced")
		require.NoError(t, err)
		require.Len(t, removed, 1)
		receive(t, lock.Done(), "the push of the loss")
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrGone)
	},
	"from process to process": func(t *testing.T, one, other *redlock.Locker) {
		token, err := take(t, one, "passed").Detach(t.Context())
		require.NoError(t, err)
		lock, err := other.Attach(t.Context(), "passed", token)
		require.NoError(t, err)
		unlock(t, lock)
		unlock(t, take(t, one, "passed"))
	},
	"watched": func(t *testing.T, one, other *redlock.Locker) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var lock *redlock.Lock
		seen := 0
		for state, err := range other.Watch(ctx, "watched") {
			require.NoError(t, err)
			switch seen++; seen {
			case 1:
				require.Equal(t, redlock.VerdictNobody, state.Verdict)
				lock = take(t, one, "watched")
			default:
				if state.Verdict == redlock.VerdictHeld && lock.Err() == nil {
					unlock(t, lock)
				} else if state.Verdict == redlock.VerdictNobody {
					cancel()
				}
			}
		}
	},
	"an election": func(t *testing.T, one, other *redlock.Locker) {
		ctx, cancel := context.WithCancel(t.Context())
		terms := make(chan uint64, 2)
		for _, locker := range []*redlock.Locker{one, other} {
			go func() {
				_ = election.New(locker, "leader").Run(ctx, func(ctx context.Context, term *redlock.Lock) error {
					terms <- term.Fence()
					return nil
				})
			}()
		}
		first, second := receive(t, terms, "a leader"), receive(t, terms, "the next one")
		cancel()
		require.Greater(t, second, first)
	},
}

// requireBehaviours runs all behaviours. Each call of open makes other nodes.
func requireBehaviours(t *testing.T, open func() []*pool.Node) {
	t.Helper()
	program := func() *redlock.Locker {
		return lockerOver(t, open(), redlock.WithKeyPrefix("lock:"), redlock.WithFencing(), redlock.WithLocalHandoff(50*time.Millisecond))
	}
	one, other := program(), program()
	inTurn(t, behaviours, func(t *testing.T, behave func(t *testing.T, one, other *redlock.Locker)) { behave(t, one, other) })
}

func TestBehaviour_OnServers(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	requireBehaviours(t, func() []*pool.Node { return c.nodes(pool.WithTimeout(10 * time.Second)) })
}

func TestBehaviour_OnGroupsThatSentinelsWatch(t *testing.T) {
	t.Parallel()
	s := testredis.NewSentinels(t, groupNames...)
	inUse(t, s)
	requireBehaviours(t, func() []*pool.Node { return openGroups(t, s, long, pool.WithTimeout(10*time.Second)) })
}

func TestBehaviour_OnNodesOfACluster(t *testing.T) {
	t.Parallel()
	s := newSlotted(t, long)
	requireBehaviours(t, func() []*pool.Node { return openGuarded(t, []string{s.URL(3)}, long, pool.WithTimeout(10*time.Second)) })
}
