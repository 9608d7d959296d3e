package redlock_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// connections returns the ids of the connections to server i that have a name.
func (c *cluster) connections(i int, name string) []string {
	c.tb.Helper()
	var ids []string
	list := fmt.Sprintf("%s", c.do(i, "CLIENT", "LIST"))
	for line := range strings.Lines(list) {
		if strings.Contains(line, " name="+name+" ") {
			id, _, _ := strings.Cut(line, " ")
			ids = append(ids, id)
		}
	}
	return ids
}

// Trap 4: an early return that cancels the stragglers.
func TestAnEarlyWinDoesNotCutOffTheStragglers(t *testing.T) {
	c := onReal(t, 5)
	seen := &recorder{}
	locker := lockerOver(t, c.nodes(pool.WithTimeout(brief), pool.WithMaxOverdue(long), pool.WithClientName("ours")), redlock.WithObserver(seen))
	seen.connect(t, locker, 5)
	before := make([][]string, 5)
	for i := range before {
		before[i] = c.connections(i, "ours")
		require.Len(t, before[i], 1)
	}

	for round := range 3 {
		c.processes[1].Freeze()
		c.processes[3].Freeze()
		name := fmt.Sprintf("round %d", round)
		lock := take(t, locker, name)
		c.processes[1].Thaw()
		c.processes[3].Thaw()
		c.eventuallyHeld(name, lock.Token()) // not only on the bare majority
		require.NoError(t, lock.Unlock(t.Context()))
		c.eventuallyEmpty()
		seen.waitForVotes(t, "acquire", name, 5)
	}
	for i := range before {
		require.Equal(t, before[i], c.connections(i, "ours"), "the connection to server %d was thrown away", i)
	}
}

// Trap 3: an acquire that lands after the release of its lock. It is a straggler on nodes that hang.
func TestAnAcquireDoesNotLandAfterItsRelease(t *testing.T) {
	c := onReal(t, 5)
	locker := lockerOver(t, c.nodes())
	for range 5 {
		c.processes[0].Freeze()
		c.processes[4].Freeze()
		require.NoError(t, take(t, locker, "held and released").Unlock(t.Context()))
		c.processes[1].Freeze()
		_, err := locker.TryLock(briefly(t), "refused")
		require.Error(t, err)
		for _, i := range []int{0, 1, 4} {
			c.processes[i].Thaw()
		}
		c.eventuallyEmpty()
	}
}

// Trap 17: what stragglers still write is not what the next round uses. The race detector watches.
func TestStragglersDoNotWriteWhatTheNextLockReads(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		seen := &recorder{}
		locker := lockerOver(t, c.nodes(), redlock.WithObserver(seen))
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				name := fmt.Sprintf("name %d", i)
				for range 100 {
					lock, err := locker.TryLock(t.Context(), name)
					if err != nil {
						t.Error(err)
						return
					}
					_ = lock.ValidUntil()
					if _, err := locker.TryLock(t.Context(), name); err == nil {
						t.Error("taken twice")
					} else {
						_ = err.Error()
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
