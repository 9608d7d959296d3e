package pool_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

func TestManyCallersShareOneConnection(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), patient())
	const callers = 256
	var asking sync.WaitGroup
	for i := range callers {
		asking.Go(func() {
			key := fmt.Sprint(i)
			for range 4 {
				acquired, released := make(inbox, 2), make(inbox, 2)
				node.Send(time.Now(), pool.Acquire(key, "token", ttl), acquired, 0)
				if (<-acquired).Answer != pool.Yes {
					t.Error("a key of its own is held")
				}
				node.Send(time.Now(), pool.Release(key, "token", ttl), released, 0)
				if (<-released).Answer != pool.Yes {
					t.Error("a key of its own is gone")
				}
			}
		})
	}
	most := 0
	for range 20 {
		most = max(most, len(clients(t, server)))
	}
	asking.Wait()
	require.LessOrEqual(t, most, 1)
	require.Len(t, clients(t, server), 1)
	info := do(t, server, "INFO", "stats")
	require.Contains(t, string(info.([]byte)), "evicted_clients:0")
}

func TestCommandsDoNotWaitForTheAnswersBeforeThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var arrived atomic.Int32
		f := newFake(t, func(c *peer, args []string) string {
			if args[0] == "SET" {
				arrived.Add(1)
				return ""
			}
			return likeRedis(c, args)
		})
		node := f.open(t)
		for range 300 {
			node.Send(time.Now(), pool.Acquire("key", "token", ttl), nil, 0)
		}
		synctest.Wait()
		require.EqualValues(t, 300, arrived.Load())
		require.Equal(t, 1, f.connections())
	})
}

func TestTheCommandsOfACallerAreCarriedOutInTheirOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		var asking sync.WaitGroup
		for i := range 32 {
			asking.Go(func() {
				key := fmt.Sprint(i)
				replies := make(inbox, 1000)
				for j := range 25 {
					token := fmt.Sprint(j)
					node.Send(time.Now(), pool.Acquire(key, token, ttl), replies, 0)
					node.Send(time.Now(), pool.Acquire(key, "other", ttl), replies, 0)
					node.Send(time.Now(), pool.Extend(key, token, 2*ttl), replies, 0)
					node.Send(time.Now(), pool.Release(key, token, ttl), replies, 0)
				}
				for j := range 100 {
					want := pool.Yes
					if j%4 == 1 {
						want = pool.No
					}
					if got := (<-replies).Answer; got != want {
						t.Errorf("command %d of caller %d: %v", j, i, got)
					}
				}
			})
		}
		asking.Wait()
		require.EqualValues(t, 0, do(t, server, "DBSIZE"))
	})
}

func TestReceiversMaySendFromWithinReply(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), patient())
	chain := &chain{node: node, done: make(chan struct{})}
	chain.left.Store(1000)
	for range 8 {
		node.Send(time.Now(), pool.Acquire("key", "token", ttl), chain, 0)
	}
	<-chain.done
}

// chain is a Receiver that sends the next command when the one before has ended.
type chain struct {
	node *pool.Node
	left atomic.Int32
	done chan struct{}
}

func (c *chain) Reply(_ int, _ *pool.Command, _ pool.Reply) {
	switch left := c.left.Add(-1); {
	case left == 0:
		close(c.done)
	case left > 0:
		c.node.Send(time.Now(), pool.Release("key", "token", ttl), c, 0)
	}
}
