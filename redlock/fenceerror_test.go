package redlock_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/lua"
	"github.com/quorumlock/quorumlock/redlock"
)

// A round that ends while counters are being raised: its error does not call a node's grant a yes that does not count.
func TestARoundThatEndsInItsSecondRoundTripNamesTheNodesThatHadNotAgreed(t *testing.T) {
	c := onReal(t, 3)
	raised := make(chan struct{})
	freeze := sync.OnceFunc(func() { // and never again, once they are thawed
		for _, process := range c.processes {
			process.Freeze()
		}
		close(raised)
	})
	nodes := c.nodes(throughWires(func(_ string, w *wire) {
		w.wrote = func(p []byte) {
			if bytes.Contains(p, []byte(lua.Raise().Source)) || bytes.Contains(p, []byte(lua.Raise().Hash)) {
				freeze() // before it is sent
			}
		}
	}))
	ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
	for i := range c.servers {
		c.do(i, "SET", "{name}:fence", ahead+uint64(1000*i))
	}
	locker := lockerOver(t, nodes, redlock.WithFencing())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := locker.TryLock(ctx, "name")
		ended <- err
	}()
	receive(t, raised, "a second round trip")
	cancel()
	err := receive(t, ended, "the end")
	for _, process := range c.processes {
		process.Thaw()
	}
	require.ErrorIs(t, err, context.Canceled)
	yes := 0
	for _, node := range c.refused(err).Nodes {
		if node.Err == nil {
			yes++
		}
	}
	require.LessOrEqual(t, yes, 1, "%v", err)
	c.eventuallyFree("name")
}

// Whoever takes up a lock of which a majority holds the token, but no majority the same number, is told that.
func TestAttachSaysThatTheNumbersDiffer(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(redlock.WithFencing()), "name")
		require.NoError(t, lock.Extend(t.Context(), long))
		c.eventuallyHeld("name", fenced(lock))
		c.do(0, "DEL", "name")
		c.do(1, "SET", "name", lock.Token()+"|17", "PX", 60000)
		_, err := c.locker().Attach(t.Context(), "name", lock.Token())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "the numbers differ until the holder extends it")
		require.NoError(t, lock.Extend(t.Context(), 2*long))
		_, err = c.locker().Attach(t.Context(), "name", lock.Token())
		require.NoError(t, err)
	})
}
