package redlocktest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	// nodeTimeout is long enough for a busy machine in real time. An Unlock without a majority takes that long.
	nodeTimeout = 3 * time.Second
	// dialTimeout is longer than any node is down, because a connection to such a node is made only when the node
	// starts.
	dialTimeout = 100 * 365 * 24 * time.Hour
)

// Cluster is a set of nodes in memory. Make it with [New]. Its methods may be called from several goroutines. But
// methods that can fail the test must be called from the test's own goroutine, because misuse ends the test.
type Cluster struct {
	t      testing.TB
	bubble bool // the Cluster was made in a bubble of testing/synctest
	clock  clock.Clock
	nodes  []*node
	other  func() *redlock.Locker // makes the Locker of Hold and Steal
	turn   chan struct{}          // held by the call that is in inTurn; a mutex would keep a bubble's time from moving

	mu      sync.Mutex
	lockers []*redlock.Locker
	clients []*pool.Node // of all lockers
}

// Option changes how a Cluster is made.
type Option interface{ apply(*options) error }

type options struct{ nodes int }

type option func(*options) error

func (o option) apply(to *options) error { return o(to) }

// WithNodes sets the number of nodes, at least 1. The default is 3.
func WithNodes(n int) Option {
	return option(func(o *options) error {
		if n < 1 {
			return fmt.Errorf("WithNodes(%d): a lock needs at least one node", n)
		}
		o.nodes = n
		return nil
	})
}

// New starts the nodes. They and all Lockers of the Cluster end with the test.
func New(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	o := options{nodes: 3}
	for _, opt := range opts {
		if err := opt.apply(&o); err != nil {
			t.Fatalf("redlocktest: %v", err)
		}
	}
	c := &Cluster{t: t, bubble: inBubble(), clock: clock.System(), turn: make(chan struct{}, 1)}
	if c.bubble {
		c.clock = bubbleClock{}
	}
	c.other = sync.OnceValue(func() *redlock.Locker { return c.Locker(redlock.TTL(time.Hour)) })
	t.Cleanup(c.close)
	for i := range o.nodes {
		n, err := startNode(fmt.Sprintf("node-%d", i), c.clock)
		if err != nil {
			t.Fatalf("redlocktest: %v", err)
		}
		c.nodes = append(c.nodes, n)
	}
	return c
}

// Locker makes a Locker with connections of its own, as another process would have. The Locker is closed when the test
// ends; the test may close it before. An option that redlock.New refuses ends the test, such as an option of package
// pool. redlock.WithClock has no effect. The Locker writes no log without redlock.WithLogger.
func (c *Cluster) Locker(opts ...redlock.Option) *redlock.Locker {
	c.t.Helper()
	c.enter()
	urls := make([]string, len(c.nodes))
	links := make(map[string]*link) // by address
	for i, n := range c.nodes {
		urls[i] = "redis://" + n.name
		links[n.name] = &link{node: n}
	}
	nodes, err := pool.Open(urls,
		pool.WithTimeout(nodeTimeout), pool.WithDialTimeout(dialTimeout),
		pool.WithName(func(i int) string { return c.nodes[i].name }),
		pool.WithDialer(func(_ context.Context, _, address string) (net.Conn, error) {
			name, _, _ := strings.Cut(address, ":")
			return links[name].dial()
		}))
	if err != nil {
		c.t.Fatalf("redlocktest: %v", err)
	}
	all := append([]redlock.Option{redlock.WithLogger(slog.New(slog.DiscardHandler))}, opts...)
	locker, err := redlock.New(nodes, append(all, redlock.WithClock(c.clock))...)
	if err != nil {
		c.t.Fatalf("redlocktest: Locker: %v", err)
	}
	for _, n := range c.nodes {
		n.attach(links[n.name])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lockers = append(c.lockers, locker)
	c.clients = append(c.clients, nodes...)
	return locker
}

// Stop takes nodes down: their connections break, and new ones are refused. They keep their data, whose TTLs run on.
// Stop returns when every Locker has noticed. A node that is already down stays down. Nodes are counted from 0.
//
// If the nodes that are up are no majority, the release of a lock waits for the others. Then Unlock, and Do at its end,
// take the node timeout, which is three seconds.
func (c *Cluster) Stop(nodes ...int) {
	c.t.Helper()
	c.on("Stop", nodes, (*node).stop, (*node).awaitRefused)
}

// Start brings back nodes that Stop took down, with their data: see [Cluster.Wipe] for nodes that lose it. Start
// returns when every Locker is connected to them. A node that is already up stays up.
func (c *Cluster) Start(nodes ...int) {
	c.t.Helper()
	c.on("Start", nodes, (*node).start)
	c.inTurn(func() { c.awaitAnswers(nodes) })
}

// Wipe deletes all data of nodes, whether they are up or down. A restart that loses the data is Stop, Wipe and Start.
func (c *Cluster) Wipe(nodes ...int) {
	c.t.Helper()
	c.on("Wipe", nodes, (*node).wipe)
}

// on runs the steps one after the other, each on all the given nodes. Before the first step and after the last, it
// waits until the nodes have carried out the commands that were sent to them. call is the name for error messages.
func (c *Cluster) on(call string, nodes []int, steps ...func(*node)) {
	c.t.Helper()
	c.enter()
	for _, i := range nodes {
		if i < 0 || i >= len(c.nodes) {
			c.t.Fatalf("redlocktest: %s(%d): the nodes are 0 to %d", call, i, len(c.nodes)-1)
		}
	}
	if len(nodes) == 0 {
		c.t.Fatalf("redlocktest: %s(): say which nodes, of 0 to %d", call, len(c.nodes)-1)
	}
	c.inTurn(c.settle, func() {
		for _, step := range steps {
			for _, i := range nodes {
				step(c.nodes[i])
			}
		}
	}, c.settle)
}

// Hold gives a lock to another holder until release is called, or until the end of the test: the lock does not expire.
// The key of a lock is its name behind the prefix of redlock.WithKeyPrefix. If the lock is not free, or if no majority
// of the nodes is up, the test ends. The holder has no fencing token. For a holder with one, take the lock with a
// second [Cluster.Locker].
func (c *Cluster) Hold(key string) (release func()) {
	c.t.Helper()
	c.enter()
	c.inTurn(c.settle)
	lock, err := c.take(key)
	return c.releaser("Hold", key, lock, err)
}

// Steal takes a lock away from its holder and gives it to another holder, as [Cluster.Hold] does. A holder meets this
// if it was paused for longer than the TTL, or if nodes forget. If no node that is up has the key, the test ends.
func (c *Cluster) Steal(key string) (release func()) {
	c.t.Helper()
	c.remove("Steal", key)
	lock, err := c.take(key)
	for range 100 { // outside a bubble, a call that polls may take the lock first, or a renewal may re-create its key
		if !errors.Is(err, redlock.ErrTaken) {
			break
		}
		c.removeAny(key)
		lock, err = c.take(key)
	}
	return c.releaser("Steal", key, lock, err)
}

// Delete takes a lock away from its holder: it deletes the key on all nodes that are up. Afterwards the lock is free.
// If none of these nodes has the key, the test ends.
func (c *Cluster) Delete(key string) {
	c.t.Helper()
	c.remove("Delete", key)
}

// remove deletes a key. It ends the test if no node that is up has the key.
func (c *Cluster) remove(call, key string) {
	c.t.Helper()
	c.enter()
	c.inTurn(c.settle)
	if !c.removeAny(key) {
		c.t.Fatalf(
			"redlocktest: %s(%q): no node that is up has this key; the key of a lock is its name behind the key prefix",
			call, key)
	}
}

// removeAny deletes a key on all nodes that are up, and reports whether one had it.
func (c *Cluster) removeAny(key string) (found bool) {
	for _, n := range c.nodes {
		found = n.remove(key) || found
	}
	return found
}

// take takes a lock for another holder.
func (c *Cluster) take(key string) (*redlock.Lock, error) {
	ctx := context.WithoutCancel(c.t.Context())
	return c.other().TryLock(ctx, key, redlock.RenewFor(redlock.NoLimit), redlock.Metadata(probe))
}

// releaser returns the function that releases a lock of take. It ends the test if err says that take has failed.
func (c *Cluster) releaser(call, key string, lock *redlock.Lock, err error) (release func()) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("redlocktest: %s(%q): %v", call, key, err)
	}
	return sync.OnceFunc(func() {
		c.t.Helper()
		if err := lock.Unlock(c.t.Context()); err != nil {
			c.t.Errorf("redlocktest: the release of %s(%q): %v", call, key, err)
		}
	})
}

// inTurn calls the functions. Only one call of the Cluster is in inTurn at a time.
func (c *Cluster) inTurn(functions ...func()) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	for _, f := range functions {
		f()
	}
}

// allLockers returns a copy of the list of the Lockers.
func (c *Cluster) allLockers() []*redlock.Locker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.lockers)
}

// close ends the Lockers, their connections and the nodes.
func (c *Cluster) close() {
	for _, n := range c.nodes {
		n.end()
	}
	c.mu.Lock()
	lockers, clients := c.lockers, c.clients
	c.mu.Unlock()
	for _, l := range lockers {
		_ = l.Close() // always nil
	}
	var closing sync.WaitGroup // at the same time, since each may take its timeout
	for _, n := range clients {
		closing.Go(func() { _ = n.Close() }) // always nil
	}
	closing.Wait()
	for _, n := range c.nodes {
		n.close()
	}
}
