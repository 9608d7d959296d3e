package redlock_test

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// split makes the first rounds of two contenders for four servers end in a draw: each gets the servers that are its own
// before the other asks them, and learns that it did not get the others when both have asked everywhere.
type split struct{ taken, asked sync.WaitGroup }

func newSplit() *split {
	s := &split{}
	s.taken.Add(4)
	s.asked.Add(4)
	return s
}

// contender is the option for the contender that has two of the servers for its own.
func (s *split) contender(c *cluster, own ...int) pool.Option {
	return throughWires(func(address string, w *wire) {
		isOwn := slices.ContainsFunc(own, func(i int) bool { return c.servers[i].Addr() == address })
		var asked atomic.Bool
		var answered sync.Once
		w.wrote = func(p []byte) {
			if bytes.Contains(p, []byte("\r\nSET\r\n")) && asked.CompareAndSwap(false, true) && !isOwn {
				s.taken.Wait()
			}
		}
		w.gotten = func([]byte) bool {
			if asked.Load() {
				answered.Do(func() {
					if isOwn {
						s.taken.Done()
						return
					}
					s.asked.Done()
					s.asked.Wait()
				})
			}
			return true
		}
	})
}

// Trap 20: a split vote that never resolves. Both contenders get two of four nodes in their first round.
func TestASplitVoteDoesNotLastForEver(t *testing.T) {
	onBoth(t, 4, func(t *testing.T, c *cluster) {
		draw := newSplit()
		var both sync.WaitGroup
		for _, contender := range []pool.Option{draw.contender(c, 0, 1), draw.contender(c, 2, 3)} {
			locker, seen := c.waiting(c.nodes(contender), redlock.WithBackoff(5*time.Millisecond, 50*time.Millisecond))
			both.Go(func() {
				lock, err := locker.Lock(t.Context(), "name")
				if err != nil {
					t.Error(err)
					return
				}
				if first := seen.verdictsOn("acquire")[0]; !errors.Is(first.Err, redlock.ErrTaken) {
					t.Errorf("the vote was not split: %v", first.Err)
				}
				if err := lock.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		c.eventuallyEmpty()
	})
}

func TestContendersForOneNameOnAnEvenNumberOfNodesAllGetTheirTurn(t *testing.T) {
	onBoth(t, 4, func(t *testing.T, c *cluster) {
		var all sync.WaitGroup
		for range 4 {
			locker, _ := c.waiting(c.nodes())
			all.Go(func() {
				for range 10 {
					lock, err := locker.Lock(t.Context(), "name")
					if err != nil {
						t.Error(err)
						return
					}
					if err := lock.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		c.eventuallyEmpty()
	})
}

func TestASplitVoteIsCalledTaken(t *testing.T) {
	onBoth(t, 4, func(t *testing.T, c *cluster) {
		for i := range 2 {
			c.do(i, "SET", "name", "theirs", "PX", long.Milliseconds())
		}
		_, err := c.locker().TryLock(t.Context(), "name")
		require.ErrorIs(t, err, redlock.ErrTaken)
		_ = c.refused(err)
		require.Equal(t, 2, c.holding("name", "theirs"))
		eventually(t, func() bool { return c.holding("name", "") == 2 }, "what was taken is given back")
	})
}
