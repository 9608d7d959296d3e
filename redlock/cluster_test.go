package redlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	// patient is a node timeout for tests in which every node answers, however busy the machine is.
	patient = 10 * time.Second
	// brief is a node timeout for tests in which some node does not answer.
	brief = 600 * time.Millisecond
	// long is a TTL that no test lives to see the end of.
	long = time.Hour
)

// cluster is a set of servers that a test takes locks on.
type cluster struct {
	tb        testing.TB
	servers   []redistest.Server
	processes []*redistest.Process // the servers, if they are real ones
}

// onBoth runs a test of what callers see on n servers of each kind.
func onBoth(t *testing.T, n int, test func(t *testing.T, c *cluster)) {
	t.Run("miniredis", func(t *testing.T) { test(t, onMini(t, n)) })
	t.Run("redis-server", func(t *testing.T) { test(t, onReal(t, n)) })
}

// onBothSilent is onBoth with servers that tell nobody of changes: whoever waits goes many rounds.
func onBothSilent(t *testing.T, n int, test func(t *testing.T, c *cluster)) {
	onBoth(t, n, func(t *testing.T, c *cluster) {
		c.silence()
		test(t, c)
	})
}

// silence has real servers refuse what miniredis does not know, from those that connect from now on.
func (c *cluster) silence() {
	c.tb.Helper()
	for i := range c.processes {
		c.do(i, "ACL", "SETUSER", "default", "-client|tracking")
	}
}

func onMini(tb testing.TB, n int) *cluster {
	return &cluster{tb: tb, servers: redistest.Mini(tb, n)}
}

func onReal(tb testing.TB, n int, args ...string) *cluster {
	processes := redistest.Real(tb, n, args...)
	return &cluster{tb: tb, servers: redistest.Servers(processes), processes: processes}
}

// nodes returns nodes for all servers that are closed when the test ends.
func (c *cluster) nodes(opts ...pool.Option) []*pool.Node {
	return open(c.tb, redistest.URLs(c.servers), opts...)
}

// locker returns a Locker with connections of its own, as another process would have.
func (c *cluster) locker(opts ...redlock.Option) *redlock.Locker {
	return lockerOver(c.tb, c.nodes(), opts...)
}

// open makes nodes that are closed when the test ends.
func open(tb testing.TB, urls []string, opts ...pool.Option) []*pool.Node {
	tb.Helper()
	nodes, err := pool.Open(urls, append([]pool.Option{pool.WithTimeout(patient), pool.WithDialTimeout(patient)}, opts...)...)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		for _, node := range nodes {
			assert.NoError(tb, node.Close())
		}
	})
	return nodes
}

// lockerOver makes a Locker that is closed when the test ends.
func lockerOver(tb testing.TB, nodes []*pool.Node, opts ...redlock.Option) *redlock.Locker {
	tb.Helper()
	locker, err := redlock.New(nodes, append([]redlock.Option{redlock.WithTTL(long)}, opts...)...)
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, locker.Close()) })
	return locker
}

// do runs one command on server i.
func (c *cluster) do(i int, cmd string, args ...any) any {
	c.tb.Helper()
	reply, err := c.servers[i].Do(cmd, args...)
	require.NoError(c.tb, err)
	return reply
}

// doAll runs one command on every server.
func (c *cluster) doAll(cmd string, args ...any) {
	c.tb.Helper()
	for i := range c.servers {
		c.do(i, cmd, args...)
	}
}

// value returns what server i holds under key, "" if nothing.
func (c *cluster) value(i int, key string) string {
	c.tb.Helper()
	value, err := redis.String(c.servers[i].Do("GET", key))
	if !errors.Is(err, redis.ErrNil) {
		require.NoError(c.tb, err)
	}
	return value
}

// holding returns how many servers hold value under key.
func (c *cluster) holding(key, value string) int {
	c.tb.Helper()
	n := 0
	for i := range c.servers {
		if c.value(i, key) == value {
			n++
		}
	}
	return n
}

// ttl returns how long server i keeps key: below zero if it is not there or has no TTL.
func (c *cluster) ttl(i int, key string) time.Duration {
	c.tb.Helper()
	left, err := redis.Int64(c.servers[i].Do("PTTL", key))
	require.NoError(c.tb, err)
	return time.Duration(left) * time.Millisecond
}

// eventuallyHeld waits until all servers hold value under key.
func (c *cluster) eventuallyHeld(key, value string) {
	c.tb.Helper()
	eventually(c.tb, func() bool { return c.holding(key, value) == len(c.servers) }, "on all servers: %s = %s", key, value)
}

// eventuallyEmpty waits until no server holds any key.
func (c *cluster) eventuallyEmpty() {
	c.tb.Helper()
	for i := range c.servers {
		eventually(c.tb, func() bool { return c.do(i, "DBSIZE") == int64(0) }, "server %d still holds a key", i)
	}
}

// eventually waits for what is bound to happen; the bound is only there to end a test that has failed.
func eventually(tb testing.TB, happened func() bool, what string, args ...any) {
	tb.Helper()
	require.Eventuallyf(tb, happened, 30*time.Second, 2*time.Millisecond, what, args...)
}

// receive returns what comes from a channel.
func receive[T any](tb testing.TB, from <-chan T, what string) T {
	tb.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(30 * time.Second):
		require.FailNow(tb, "waited too long", what)
		panic("not reached")
	}
}

// briefly returns a context that ends soon.
func briefly(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(tb.Context(), brief)
	tb.Cleanup(cancel)
	return ctx
}

// take takes a lock that is free.
func take(tb testing.TB, locker *redlock.Locker, name string, opts ...redlock.LockOption) *redlock.Lock {
	tb.Helper()
	lock, err := locker.TryLock(tb.Context(), name, opts...)
	require.NoError(tb, err)
	return lock
}

// refused returns the QuorumError in err, after having checked that it is about every node, in order.
func (c *cluster) refused(err error) *redlock.QuorumError {
	c.tb.Helper()
	var refusal *redlock.QuorumError
	require.ErrorAs(c.tb, err, &refusal)
	require.Len(c.tb, refusal.Nodes, len(c.servers))
	for i, node := range refusal.Nodes {
		require.Equal(c.tb, c.servers[i].Addr(), node.Addr)
	}
	require.Equal(c.tb, len(c.servers)/2+1, refusal.Need)
	return refusal
}
