package redlock_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock/clocktest"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// gate is a way to a server. While it is shut, what clients send is held up, as by a lost TCP segment; what the server sends
// passes.
type gate struct {
	url string
	mu  sync.RWMutex // held for writing while the gate is shut
}

func (g *gate) shut() { g.mu.Lock() }
func (g *gate) open() { g.mu.Unlock() }

// newGate makes a gate before a server. It is gone when the test ends.
func newGate(t *testing.T, addr string) *gate {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := &gate{url: "redis://" + listener.Addr().String()}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		_ = listener.Close()
		cancel()
		running.Wait()
	})
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", addr)
			if err != nil {
				_ = client.Close()
				continue
			}
			end := func() { _, _ = client.Close(), server.Close() }
			context.AfterFunc(ctx, end)
			pass := func(to, from net.Conn, held bool) {
				defer end()
				buffer := make([]byte, 16<<10)
				for {
					n, err := from.Read(buffer)
					if held {
						g.mu.RLock()
					}
					if err == nil {
						_, err = to.Write(buffer[:n])
					}
					if held {
						g.mu.RUnlock()
					}
					if err != nil {
						return
					}
				}
			}
			running.Go(func() { pass(server, client, true) })
			running.Go(func() { pass(client, server, false) })
		}
	})
	return g
}

// gates puts a gate before every server.
func (c *cluster) gates(t *testing.T) (gates []*gate, urls []string) {
	t.Helper()
	for _, s := range c.servers {
		g := newGate(t, s.Addr())
		gates, urls = append(gates, g), append(urls, g.url)
	}
	return gates, urls
}

// answers returns what the nodes have answered to the extensions of "name".
func (r *recorder) answers(of ...quorum.Answer) (n int) {
	for _, v := range r.votesOn("extend", "name") {
		if slices.Contains(of, v.Answer) {
			n++
		}
	}
	return n
}

// The danger: a lost TCP segment holds up a renewal on its way to two of three nodes. They lose the key meanwhile, another
// holder comes and goes, and the renewal sets the key again, which every later look takes for the old one.
func TestAutoExtend_ALockThatALateRenewalSetsAgainIsLost(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} {
		for _, opts := range [][]redlock.Option{nil, {redlock.WithFencing()}} {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				c := onReal(t, 3)
				gates, urls := c.gates(t)
				if silent {
					c.silence()
				}
				fake, seen := clocktest.New(), &recorder{}
				nodes := open(t, urls, pool.WithTimeout(brief), pool.WithMaxOverdue(long))
				locker := lockerOver(t, nodes, append(opts, redlock.WithClock(fake), redlock.WithObserver(seen))...)
				const ttl = 30 * time.Minute
				lock := take(t, locker, "name", redlock.TTL(ttl), redlock.AutoExtend())
				nextAt(t, fake, renewalIn(0, ttl))
				eventually(t, func() bool { return seen.answers(quorum.Yes) == 3 }, "the first renewal")

				gates[0].shut()
				gates[1].shut()
				nextAt(t, fake, renewalIn(1, ttl))
				eventually(t, func() bool { return seen.answers(quorum.Yes) == 4 }, "the renewal has been sent")
				for i := range 2 {
					c.do(i, "FLUSHALL")
				}
				another, err := c.locker(opts...).TryLock(t.Context(), "name")
				require.NoError(t, err)
				require.NoError(t, another.Unlock(t.Context()))
				eventually(t, func() bool { return seen.answers(quorum.Unknown, quorum.Unsent) >= 2 }, "nobody waits any more")
				require.NoError(t, lock.Err())
				gates[0].open()
				gates[1].open()

				receive(t, lock.Done(), "the loss")
				require.ErrorIs(t, lock.Err(), redlock.ErrLost)
				require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
				for i := range c.servers {
					eventually(t, func() bool { return c.do(i, "EXISTS", "name") == int64(0) }, "what was set again is released")
				}
			})
		}
	}
}
