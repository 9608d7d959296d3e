package redlock_test

import (
	"bytes"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// gate is a way to a server. While it is shut, what clients send is held up, as by a lost TCP segment; what the server sends
// passes.
type gate struct {
	url   string
	mu    sync.RWMutex // held for writing while the gate is shut
	named atomic.Int32 // how many times something about the key "name" has come to it
}

// newGate makes a gate before a server. It is gone when the test ends.
func newGate(t *testing.T, addr string) *gate {
	t.Helper()
	g := &gate{}
	g.url = "redis://" + testredis.Listen(t, func(client net.Conn) {
		server, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		end := func() { _, _ = client.Close(), server.Close() }
		arrived := make(chan []byte, 1024)
		var running sync.WaitGroup
		running.Go(func() {
			defer close(arrived)
			for {
				buffer := make([]byte, 16<<10)
				n, err := client.Read(buffer)
				if err != nil {
					return
				}
				if bytes.Contains(buffer[:n], []byte("\r\nname\r\n")) {
					g.named.Add(1)
				}
				arrived <- buffer[:n]
			}
		})
		running.Go(func() {
			defer end()
			for sent := range arrived {
				g.mu.RLock()
				_, _ = server.Write(sent) // if it fails, the client is told below
				g.mu.RUnlock()
			}
		})
		_, _ = io.Copy(client, server)
		end()
		running.Wait()
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
func (r *recorder) answers(of ...protocol.Answer) (n int) {
	for _, v := range r.votesOn("extend", "name") {
		if slices.Contains(of, v.Answer) {
			n++
		}
	}
	return n
}

const renewedTTL = 30 * time.Minute

// gated is a lock that has been renewed once, on three nodes behind gates.
type gated struct {
	c      *cluster
	gates  []*gate
	clock  *clocktest.Fake
	seen   *recorder
	locker *redlock.Locker
	lock   *redlock.Lock
	away   int    // how many gates are shut
	open   func() // after shut
}

// behindGates makes a Locker over three nodes behind gates.
func behindGates(t *testing.T, c *cluster, timeout time.Duration, opts ...redlock.Option) *gated {
	t.Helper()
	g := &gated{c: c, clock: clocktest.New(), seen: &recorder{}}
	var urls []string
	g.gates, urls = c.gates(t)
	nodes := open(t, urls, pool.WithTimeout(timeout), pool.WithMaxOverdue(long))
	g.locker = lockerOver(t, nodes, append(opts, redlock.WithClock(g.clock), redlock.WithObserver(g.seen))...)
	return g
}

// renewed takes and renews a lock on a cluster of three nodes.
func renewed(t *testing.T, c *cluster, timeout time.Duration, opts ...redlock.Option) *gated {
	t.Helper()
	g := behindGates(t, c, timeout, opts...)
	g.lock = take(t, g.locker, "name", redlock.TTL(renewedTTL), redlock.RenewFor(redlock.NoLimit))
	g.seen.waitForVotes(t, "acquire", "name", 3)
	nextAt(t, g.clock, renewalIn(0, renewedTTL))
	eventually(t, func() bool { return g.seen.answers(protocol.AnswerYes) == 3 }, "the first renewal")
	return g
}

// shut holds up what is sent to the first nodes, until open.
func (g *gated) shut(t *testing.T, nodes int) {
	g.away = nodes
	for _, gate := range g.gates[:nodes] {
		gate.mu.Lock()
	}
	g.open = sync.OnceFunc(func() {
		for _, gate := range g.gates[:nodes] {
			gate.mu.Unlock()
		}
	})
	t.Cleanup(g.open)
}

// renew begins a renewal, of which the first nodes get nothing.
func (g *gated) renew(t *testing.T, away int) {
	t.Helper()
	g.shut(t, away)
	nextAt(t, g.clock, renewalIn(1, renewedTTL))
	eventually(t, func() bool { return g.seen.answers(protocol.AnswerYes) == 6-away }, "the renewal has been sent")
}

// comeAndGo is another holder, after two nodes have lost the key.
func (g *gated) comeAndGo(t *testing.T, opts ...redlock.Option) {
	t.Helper()
	g.c.doFirst(2, "FLUSHALL")
	unlock(t, take(t, g.c.locker(opts...), "name"))
}

// timeOut waits until the nodes are not waited for any more.
func (g *gated) timeOut(t *testing.T) {
	t.Helper()
	eventually(t, func() bool { return g.seen.answers(protocol.AnswerUnknown, protocol.AnswerUnsent) >= g.away }, "nobody waits")
	require.NoError(t, g.lock.Err())
}

// The danger: a lost TCP segment holds up a renewal on its way to two of three nodes. They lose the key meanwhile, another
// holder comes and goes, and the renewal sets the key again, which every later look takes for the old one.
func TestRenewFor_ALockThatALateRenewalSetsAgainIsLost(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} {
		for _, opts := range [][]redlock.Option{nil, {redlock.WithFencing()}} {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				c := onReal(t, 3)
				if silent {
					c.silence()
				}
				g := renewed(t, c, brief, opts...)
				g.renew(t, 2)
				g.comeAndGo(t, opts...)
				g.timeOut(t)
				g.open()

				receive(t, g.lock.Done(), "the loss")
				require.ErrorIs(t, g.lock.Err(), redlock.ErrGone)
				require.ErrorIs(t, g.lock.Unlock(t.Context()), redlock.ErrNotHeld)
				g.c.each(func(i int) {
					eventually(t, func() bool { return g.c.do(i, "EXISTS", "name") == int64(0) }, "what was set again is released")
				})
			})
		}
	}
}

// The danger: the same for one node of three, while the others confirm the renewal. One of those loses the key, too.
func TestRenewFor_ALockThatAConfirmedRenewalSetsAgainIsLost(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} {
		for _, timeout := range []time.Duration{brief, long} {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				c := onReal(t, 3)
				if silent {
					c.silence()
				}
				g := renewed(t, c, timeout)
				g.renew(t, 1)
				g.comeAndGo(t)
				if timeout == brief {
					g.timeOut(t)
				}
				g.open()
				if silent {
					eventually(t, func() bool { return c.do(0, "EXISTS", "name") == int64(1) }, "the renewal sets the key again")
				} else {
					receive(t, g.lock.Done(), "the loss")
					require.ErrorIs(t, g.lock.Err(), redlock.ErrGone)
				}
				require.ErrorIs(t, g.lock.Unlock(t.Context()), redlock.ErrNotHeld)
			})
		}
	}
}

// The danger: another node hangs while the one that was given the key does not count yet.
func TestRenewFor_ANodeThatIsGivenTheKeyCountsATenthOfASecondLater(t *testing.T) {
	t.Parallel()
	inParallel(t, map[string]int{"in time": 0, "after the outcome": 1}, func(t *testing.T, away int) {
		g := renewed(t, onReal(t, 3), long)
		g.c.do(0, "DEL", "name")
		g.shut(t, away)
		nextAt(t, g.clock, renewalIn(1, renewedTTL))
		eventually(t, func() bool { return g.seen.renewals() == 2 }, "the renewal that gives it the key")
		g.open()
		eventually(t, func() bool { return g.seen.answers(protocol.AnswerRecreated) == 1 }, "it has the key")
		nextAt(t, g.clock, 100*time.Millisecond)
		eventually(t, func() bool { return g.seen.renewals() == 3 }, "the renewal that confirms that")
		g.c.processes[1].Freeze()
		defer g.c.processes[1].Thaw()
		require.NoError(t, g.lock.Extend(t.Context(), renewedTTL))
	})
}

// The danger: the same for the acquire. It has won the lock with the other nodes.
func TestUnlock_ALockThatALateAcquireHasSetAgainWasNotHeld(t *testing.T) {
	t.Parallel()
	g := behindGates(t, onReal(t, 3), brief)
	require.NoError(t, g.seen.takeOnAll(t, g.locker, 3).Unlock(t.Context()))
	g.c.eventuallyEmpty()
	g.shut(t, 1)
	before := g.gates[0].named.Load()
	lock := take(t, g.locker, "name", redlock.TTL(renewedTTL))
	eventually(t, func() bool { return g.gates[0].named.Load() > before }, "the acquire is held up")
	g.comeAndGo(t)
	eventually(t, func() bool {
		return slices.ContainsFunc(g.seen.votesOn("acquire", "name"), func(v protocol.Vote) bool { return v.Answer == protocol.AnswerUnknown })
	}, "nobody waits")
	g.open()
	eventually(t, func() bool { return g.c.do(0, "EXISTS", "name") == int64(1) }, "the acquire sets the key")
	require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
}

// The danger: the release finds what the renewal before it has set again, and takes it for what was held all the time.
func TestUnlock_ALockThatALateRenewalHasSetAgainWasNotHeld(t *testing.T) {
	t.Parallel()
	inParallel(t, map[string]bool{"the renewal is under way": false, "the renewal is overdue": true}, func(t *testing.T, overdue bool) {
		timeout := long
		if overdue {
			timeout = 5 * brief // that the release has, too
		}
		g := renewed(t, onReal(t, 3), timeout)
		g.renew(t, 2)
		g.comeAndGo(t)
		if overdue {
			g.timeOut(t)
		}
		unlocked := beside(func() error { return g.lock.Unlock(t.Context()) })
		eventually(t, func() bool { return len(g.seen.votesOn("unlock", "name")) == 1 }, "the release has been sent")
		g.open()
		require.ErrorIs(t, receive(t, unlocked, "the end of Unlock"), redlock.ErrNotHeld)
	})
}

// The danger: a push asks for a look at the key while the node owes the answer to a command for another lock.
func TestRenewFor_ALockThatIsDeletedWhileANodeIsOverdueForAnotherIsLost(t *testing.T) {
	t.Parallel()
	g := renewed(t, onReal(t, 3), brief)
	g.c.eventuallyTracked()
	second := g.seen.takeOnAll(t, g.locker, 3)
	g.shut(t, 2)
	require.ErrorIs(t, errOf(g.locker.TryLock(t.Context(), "other")), redlock.ErrNoQuorum)
	for i := range 2 {
		before := g.gates[i].named.Load()
		g.c.do(i, "DEL", "name")
		eventually(t, func() bool { return g.gates[i].named.Load() > before }, "the key is looked at")
	}
	require.ErrorIs(t, second.Unlock(t.Context()), redlock.ErrNoQuorum, "what was sent before is overdue too")
	require.NoError(t, g.lock.Err())
	g.open()
	receive(t, g.lock.Done(), "the loss")
	require.ErrorIs(t, g.lock.Err(), redlock.ErrGone)
}

// The danger: a push comes while the answer to a renewal is outstanding, and that is an error, which shows nothing.
func TestRenewFor_ALockThatIsDeletedBesideARenewalThatIsRefusedIsLost(t *testing.T) {
	t.Parallel()
	g := renewed(t, onReal(t, 3), long)
	g.c.eventuallyTracked()
	g.renew(t, 2)
	for i := range 2 {
		g.c.do(i, "CONFIG", "SET", "maxmemory", 1)
		g.c.do(i, "DEL", "name")
	}
	require.NoError(t, g.lock.Err())
	g.open()
	receive(t, g.lock.Done(), "the loss")
	require.ErrorIs(t, g.lock.Err(), redlock.ErrGone)
	eventually(t, func() bool { return g.seen.answers(protocol.AnswerRefused) == 2 }, "the answers that refused")
}
