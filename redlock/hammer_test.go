package redlock_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// The methods of one lock, all at once and again and again, until it is over: the race detector watches.
func TestLock_MethodsMayBeCalledByManyAtOnce(t *testing.T) {
	onBothAlone(t, 5, func(t *testing.T, c *cluster) {
		locker := c.locker()
		lock := take(t, locker, "name", redlock.TTL(time.Minute))
		var all sync.WaitGroup
		call := func(method func()) {
			for range 2 {
				all.Go(func() {
					for lock.Err() == nil {
						method()
					}
					method()
				})
			}
		}
		call(func() { isOver(lock.Done()) })
		call(func() {
			if left := lock.Remaining(); left > 0 && lock.ValidUntil().IsZero() {
				t.Error("no deadline")
			}
		})
		call(func() {
			ctx := contextOf(t, lock)
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, redlock.ErrReleased) {
				t.Error(cause)
			}
		})
		extends := make(chan struct{}, 1000)
		call(func() {
			err := lock.Extend(t.Context(), time.Duration(1+rand.IntN(5))*time.Minute)
			if err != nil && !errors.Is(err, redlock.ErrReleased) {
				t.Error(err)
			}
			select {
			case extends <- struct{}{}:
			default:
			}
		})
		call(func() {
			if err := lock.Extend(over(t), time.Minute); err == nil {
				t.Error("extended on a context that had ended")
			}
		})
		for range 20 {
			receive(t, extends, "extends")
		}
		unlocked := make(chan error, 2)
		for range cap(unlocked) {
			all.Go(func() { unlocked <- lock.Unlock(t.Context()) })
		}
		all.Wait()
		first, second := <-unlocked, <-unlocked
		require.True(t, (first == nil) != (second == nil), "%v, %v", first, second)
		require.ErrorIs(t, cmp.Or(first, second), redlock.ErrReleased)
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
		require.True(t, isOver(lock.Done()))
		c.eventuallyEmpty()
	})
}

// A counter that only locks guard, on nodes that are well. The Lockers share a clock, which is what makes one holder's
// writes visible to the next.
func TestLock_NoIncrementUnderItIsLost(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 4, 5} {
		t.Run(fmt.Sprintf("N=%d", n), func(t *testing.T) {
			onBoth(t, n, func(t *testing.T, c *cluster) {
				const lockers, goroutines, increments = 3, 2, 20
				shared := clock.System()
				counter := 0
				var all sync.WaitGroup
				for range lockers {
					locker, _ := c.waiting(c.nodes(), redlock.WithClock(shared))
					for range goroutines {
						all.Go(func() {
							for range increments {
								lock, err := locker.Lock(t.Context(), "counter")
								if !assert.NoError(t, err) {
									return
								}
								counter++
								assert.NoError(t, lock.Unlock(t.Context()))
							}
						})
					}
				}
				all.Wait()
				require.Equal(t, lockers*goroutines*increments, counter)
			})
		})
	}
}

// tenure is when somebody could rely on a lock.
type tenure struct {
	name       string
	token      redlock.Token
	from, till time.Time
}

// No two holders at a time, while two of five nodes at a time are frozen and thawed, or killed and started empty. A node
// that was killed stays away for longer than the TTL: one that came back sooner could have forgotten a lock that is held.
func TestLock_NoTwoHoldItWhileNodesFailAndReturn(t *testing.T) {
	const (
		ttl        = 300 * time.Millisecond
		lockers    = 3
		goroutines = 3
		calamities = 4
	)
	c := onReal(t, 5)
	shared := clock.System() // so that the times of all Lockers compare
	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	var mu sync.Mutex
	var tenures []tenure
	var all sync.WaitGroup
	for range lockers {
		nodes := c.nodes(pool.WithTimeout(50*time.Millisecond), pool.WithMaxOverdue(100*time.Millisecond))
		locker := lockerOver(t, nodes, redlock.WithClock(shared), redlock.TTL(ttl), redlock.WithBackoff(time.Millisecond, 20*time.Millisecond))
		for range goroutines {
			all.Go(func() {
				for ctx.Err() == nil {
					name := fmt.Sprintf("hot %d", rand.IntN(2))
					lock, err := locker.Lock(ctx, name)
					if err != nil {
						if !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
						return
					}
					held := tenure{name: name, token: lock.Token(), from: shared.Now()}
					switch rand.IntN(10) {
					case 0: // crashed
						<-lock.Done()
					case 1, 2, 3:
						_ = lock.Extend(ctx, ttl)
					case 4: // gives up in the middle
						brief, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(1000))*time.Microsecond)
						_ = lock.Extend(brief, ttl)
						cancel()
					default:
						<-time.After(time.Duration(rand.IntN(5)) * time.Millisecond) // works
					}
					held.till = shared.Now()
					if until := lock.ValidUntil(); until.Before(held.till) {
						held.till = until
					}
					if err := lock.Unlock(ctx); err != nil && !errors.Is(err, redlock.ErrNotHeld) && !errors.Is(err, redlock.ErrNoQuorum) {
						t.Error(err)
					}
					mu.Lock()
					tenures = append(tenures, held)
					mu.Unlock()
				}
			})
		}
	}
	holders := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(tenures)
	}
	for range calamities {
		victims := rand.Perm(5)[:2]
		frozen, killed := c.processes[victims[0]], c.processes[victims[1]]
		before := holders()
		frozen.Freeze()
		killed.Stop()
		eventually(t, func() bool { return holders() >= before+20 }, "the others go on")
		<-time.After(2 * ttl)
		frozen.Thaw()
		killed.Start()
		before = holders()
		eventually(t, func() bool { return holders() >= before+20 }, "all go on")
	}
	stop()
	all.Wait()

	slices.SortFunc(tenures, func(a, b tenure) int {
		return cmp.Or(cmp.Compare(a.name, b.name), a.from.Compare(b.from))
	})
	tokens := map[redlock.Token]bool{}
	for i, held := range tenures {
		require.False(t, tokens[held.token])
		tokens[held.token] = true
		// A tenure whose deadline had gone by when its call returned is none.
		if !held.from.Before(held.till) {
			continue
		}
		for _, other := range tenures[i+1:] {
			if other.name != held.name || !other.from.Before(held.till) {
				break
			}
			require.False(t, other.from.Before(other.till), "two holders:\n%+v\n%+v", held, other)
		}
	}
	t.Logf("%d tenures", len(tenures))
}
