package integration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	// nodeTimeout is what every node that goes away costs, and leaves one that is up some room on a busy machine.
	nodeTimeout = 500 * time.Millisecond
	// ampleTimeout is for tests in which no node goes away.
	ampleTimeout = 10 * time.Second
	// A connection to a node that does not answer is given up after nodeTimeout + maxOverdue.
	maxOverdue  = 250 * time.Millisecond
	dialTimeout = 500 * time.Millisecond
	// longTTL outlives every test: what goes earlier was removed.
	longTTL = 10 * time.Minute
	// testBound ends a test that hangs.
	testBound = 60 * time.Second
)

// newClient returns a Locker with nodes, hence connections, of its own.
func newClient(t testing.TB, addrs []string, timeout time.Duration, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	urls := make([]string, len(addrs))
	for i, addr := range addrs {
		urls[i] = "redis://" + addr
	}
	nodes, err := pool.Open(urls, pool.WithTimeout(timeout), pool.WithMaxOverdue(maxOverdue), pool.WithDialTimeout(dialTimeout))
	require.NoError(t, err)
	locker, err := redlock.New(nodes, append([]redlock.Option{redlock.TTL(longTTL)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, locker.Close())
		for _, n := range nodes {
			assert.NoError(t, n.Close())
		}
	})
	return locker
}

// connected returns a client that has a connection to every node.
func (c *cluster) connected(t *testing.T, timeout time.Duration, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	locker := newClient(t, c.addrs(), timeout, opts...)
	c.requireReach(t, locker)
	return locker
}

// requireReach waits until a lock of the client lands on every node, and gives it back.
func (c *cluster) requireReach(t *testing.T, locker *redlock.Locker) {
	t.Helper()
	ctx := bounded(t)
	require.Eventually(t, func() bool {
		lock, err := locker.Lock(ctx, "reach")
		if !assert.NoError(t, err) {
			return true
		}
		reached := c.holding("reach", lock.Token())
		return assert.NoError(t, lock.Unlock(ctx)) && reached == len(c.nodes)
	}, settleBound, settleLook, "the client does not reach every node again")
}

// bounded returns a context for a whole test.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testBound)
	t.Cleanup(cancel)
	return ctx
}

// requireOver waits until the lock is over.
func requireOver(t *testing.T, lock *redlock.Lock) {
	t.Helper()
	select {
	case <-lock.Done():
	case <-bounded(t).Done():
		require.FailNow(t, "the lock does not end at its deadline")
	}
}

// away says whether err is the reason of a node that cannot be reached.
func away(err error) bool {
	connect := (*nodeerr.ConnectError)(nil)
	return errors.Is(err, nodeerr.ErrTimeout) || errors.Is(err, nodeerr.ErrSuspended) ||
		errors.Is(err, nodeerr.ErrBroken) || errors.As(err, &connect)
}

func yes(err error) bool { return err == nil }
func nobody(error) bool  { return false }

// heldSoon also takes a yes: a lock is there with the majority, and its round may not have reached the other nodes yet.
func heldSoon(err error) bool { return yes(err) || errors.Is(err, nodeerr.ErrHeld) }

// requireRefusal checks that err refuses op for want, lists the nodes in the order given to New, and says of
// the first gone ones that they are away and nothing like it of any other: those are what others says. Any node may be
// pending once the outcome is certain without it. For ErrNoQuorum that takes so many nodes away that no majority is left.
func (c *cluster) requireRefusal(t *testing.T, err, want error, op, name string, gone int, others func(error) bool) {
	t.Helper()
	for _, reason := range []error{redlock.ErrTaken, redlock.ErrNoQuorum, redlock.ErrGone, redlock.ErrNotHeld} {
		require.Equal(t, errors.Is(want, reason), errors.Is(err, reason), "%v: %v", reason, err)
	}
	refusal := (*redlock.QuorumError)(nil)
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, op, refusal.Op)
	require.Equal(t, name, refusal.Name)
	require.Equal(t, majority, refusal.Need)
	require.Len(t, refusal.Nodes, size)
	named := 0
	for i, node := range refusal.Nodes {
		require.Equal(t, c.nodes[i].addr(), node.Addr)
		switch {
		case errors.Is(node.Err, nodeerr.ErrUnneeded):
		case i < gone:
			require.True(t, away(node.Err), "node %d is away: %v", i, err)
			named++
		default:
			require.True(t, others(node.Err), "node %d is not away: %v", i, err)
		}
	}
	if errors.Is(want, redlock.ErrNoQuorum) {
		require.Greater(t, named, size-majority, "too few nodes are away for this: %v", err)
	}
}
