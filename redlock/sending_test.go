package redlock

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
)

// blocker is a Reporter that keeps its node busy, so that a Send to it waits.
type blocker struct {
	begin func() // closes begun
	begun chan struct{}
	goOn  chan struct{}
}

func (b *blocker) Health(int, node.Health) {
	b.begin()
	<-b.goOn
}

// block keeps a node of a Locker busy until release is called.
func block(l *Locker, node int) (release func()) {
	b := &blocker{begun: make(chan struct{}), goOn: make(chan struct{})}
	b.begin = sync.OnceFunc(func() { close(b.begun) })
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		l.engine.Nodes[node].Report(b, node)
	}()
	<-b.begun
	return func() {
		close(b.goOn)
		<-reported
	}
}

// called reports whether a server has been sent a command.
func called(t *testing.T, s *testredis.Process, command string) bool {
	t.Helper()
	stats, err := redis.String(s.Do("INFO", "commandstats"))
	require.NoError(t, err)
	return strings.Contains(stats, "cmdstat_"+command)
}

// warm returns a Locker over three servers, to all of which it is connected. They have carried out all that was sent to them.
func warm(t *testing.T) ([]*testredis.Process, []*pool.Node, *Locker) {
	servers := testredis.Real(t, 3)
	nodes, err := pool.Open(testredis.URLs(servers), pool.WithTimeout(time.Minute))
	require.NoError(t, err)
	l, err := New(nodes, TTL(time.Hour))
	require.NoError(t, err)
	first, err := l.TryLock(t.Context(), "warm")
	require.NoError(t, err)
	require.NoError(t, first.Unlock(t.Context()))
	for _, s := range servers {
		require.Eventually(t, func() bool { return called(t, s, "eval") }, time.Minute, time.Millisecond)
	}
	return servers, nodes, l
}

// The danger: a call that returns before another goroutine, which lost its round, has sent the releases. Who closes everything
// then leaves keys behind.
func TestTryLock_DoesNotReturnBeforeItsReleasesAreSent(t *testing.T) {
	t.Parallel()
	servers, nodes, l := warm(t)
	for _, s := range servers[:2] {
		for _, cmd := range [][]any{{"SET", "name", "other", "PX", 3600_000}, {"CONFIG", "RESETSTAT"}} {
			_, err := s.Do(cmd[0].(string), cmd[1:]...)
			require.NoError(t, err)
		}
		s.Freeze()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	returned := make(chan error, 1)
	go func() {
		_, err := l.TryLock(ctx, "name")
		returned <- err
	}()
	has := func(s *testredis.Process, key string) bool {
		n, err := s.Do("EXISTS", key)
		require.NoError(t, err)
		return n == int64(1)
	}
	require.Eventually(t, func() bool { return has(servers[2], "name") }, time.Minute, time.Millisecond)
	release := block(l, 2)
	for _, s := range servers[:2] {
		s.Thaw() // which refuses: the second refusal loses the round
	}
	for _, s := range servers[:2] {
		require.Eventually(t, func() bool { return called(t, s, "set") }, time.Minute, time.Millisecond)
	}
	cancel()
	select {
	case err := <-returned:
		returned <- err
		t.Error("it returned though a release is still to be sent")
	case <-time.After(50 * time.Millisecond):
	}
	release()
	require.Error(t, <-returned)
	require.NoError(t, l.Close())
	for _, n := range nodes {
		require.NoError(t, n.Close())
	}
	require.False(t, has(servers[2], "name"))
}

// The danger: a release that overtakes its acquire, and leaves the key there. Two nodes refuse while the command to the third is still
// to be sent.
func TestTryLock_ReleasesNothingBeforeTheAcquireHasGoneToEveryNode(t *testing.T) {
	t.Parallel()
	servers, nodes, l := warm(t)
	for _, s := range servers[:2] {
		_, err := s.Do("SET", "name", "other", "PX", 3600_000)
		require.NoError(t, err)
		_, err = s.Do("CONFIG", "RESETSTAT")
		require.NoError(t, err)
	}
	release := block(l, 2)
	returned := make(chan error, 1)
	go func() {
		_, err := l.TryLock(t.Context(), "name")
		returned <- err
	}()
	for _, s := range servers[:2] {
		require.Eventually(t, func() bool { return called(t, s, "set:") }, time.Minute, time.Millisecond)
	}
	for range 20 { // the refusals have come, or will come soon
		for _, s := range servers[:2] {
			require.False(t, called(t, s, "eval"), "the release has been sent, and the acquire has not gone to the third node")
		}
	}
	release()
	require.ErrorIs(t, <-returned, ErrTaken)
	require.NoError(t, l.Close())
	for _, node := range nodes {
		require.NoError(t, node.Close())
	}
	n, err := servers[2].Do("EXISTS", "name")
	require.NoError(t, err)
	require.Zero(t, n)
}
