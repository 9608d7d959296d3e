package redlock_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

func TestUnlock_PassesTheLockToTheNextWaiterInOneFlush(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	var together atomic.Int64
	nodes := c.nodes(throughWires(func(_ string, w *tapped) {
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
}

// A Locker that is closed while it holds a lock does not begin to listen with its release.
func TestUnlock_AfterCloseDoesNotListen(t *testing.T) {
	t.Parallel()
	c := onReal(t, 1)
	nodes := c.nodes()
	locker := must(redlock.New(nodes, redlock.TTL(long)))(t)
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

func TestLock_WaitersOfDifferentNamesDoNotWaitForEachOther(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		holder := waits(t, locker, "name")
		waiter := queue(t, t.Context(), locker, "name")
		for i := range 100 { // more than are kept in mind
			name := fmt.Sprintf("other %d", i)
			other := waits(t, locker, name)
			next := queue(t, t.Context(), locker, name)
			require.NoError(t, other.Unlock(t.Context()))
			require.NoError(t, won(t, next).Unlock(t.Context()))
		}
		require.NoError(t, holder.Unlock(t.Context()))
		won(t, waiter)
	})
}
