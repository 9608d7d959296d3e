package node_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/inquiry/inquirytest"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/sentinel"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// dialled is where nodes have connected to.
type dialled struct {
	mu    sync.Mutex
	addrs map[string]int
}

func (d *dialled) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.addrs[address]++
	}
	return conn, err
}

func (d *dialled) times(address string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.addrs[address]
}

// withGroup makes the primary of a group the server of a node.
func withGroup(s *testredis.Sentinels, group string) option {
	return func(c *node.Config) { c.Server.Finder = sentinel.New(group, inquirytest.At(s.Addrs()...)) }
}

func TestGroup_TheNodeFollowsThePrimary(t *testing.T) {
	t.Parallel()
	s := testredis.NewSentinels(t, "group")
	g, to := s.Group("group"), &dialled{addrs: map[string]int{}}
	n := open(t, "group", withGroup(s, "group"), withDialer(to.dial), patient())
	requireYes(t, n, newAcquire("held", "token", time.Hour))
	for range 2 {
		former := g.Primary()
		was := ask(t, n, form.Exclusive{}.Observe("held")).Server
		g.FailOver()
		next := g.WaitForPrimary(former)
		require.Eventually(t, func() bool { return to.times(next.Addr()) > 0 }, bound, tick, "it is told, and does not have to be asked")
		reply := ask(t, n, newExtend("held", "token", time.Hour))
		require.Contains(t, []quorum.Answer{quorum.Yes, quorum.Recreated}, reply.Answer, reply.Err) // replicas may lag
		require.NotEqual(t, was, reply.Server)
		g.WaitForReplicas(next)
	}
}

// The danger: a primary that was frozen past its failover goes on as one when it is thawed, until the sentinels make it
// a replica.
func TestGroup_APrimaryThatWasFrozenPastItsFailoverTakesNoWrite(t *testing.T) {
	t.Parallel()
	s := testredis.NewSentinels(t, "group")
	g, to := s.Group("group"), &dialled{addrs: map[string]int{}}
	n := open(t, "group", withGroup(s, "group"), withDialer(to.dial), patient())
	former := g.Primary()
	wrong := ask(t, n, newAcquire("held", "token", time.Hour)).Server
	former.Freeze()
	next := g.WaitForPrimary(former)
	require.Eventually(t, func() bool { return to.times(next.Addr()) > 0 }, bound, tick)
	former.Thaw()
	for i := range 200 {
		key := string(rune('a' + i%26))
		reply := ask(t, n, newAcquire(key, "token", time.Hour))
		require.NotEqual(t, wrong, reply.Server)
		require.NotEqual(t, quorum.Unsent, reply.Answer)
	}
	require.Equal(t, 1, to.times(former.Addr()))
}

func TestGroup_TheNextPrimaryVotesWhenItsGuardIsOver(t *testing.T) {
	t.Parallel()
	s := testredis.NewSentinels(t, "group")
	g := s.Group("group")
	testredis.InUse(t, g.Primary(), "group", time.Hour)
	opened := func() *node.Node { return open(t, "group", withGroup(s, "group"), patient(), withGuard(3*time.Second)) }
	before := opened()
	former := ask(t, before, newAcquire("before", "token", ttl)).Server
	g.FailOver()
	for _, n := range []*node.Node{before, opened()} {
		require.Eventually(t, func() bool { // the one that was connected may still have to move
			reply := ask(t, n, newAcquire("key", "token", ttl))
			require.True(t, reply.Answer != quorum.Yes || reply.Server == former)
			return reply.Answer == quorum.Unsent && errors.Is(reply.Err, nodeerr.ErrQuarantined)
		}, bound, tick)
	}
	require.Eventually(t, func() bool {
		return ask(t, before, newAcquire("key", "token", ttl)).Answer == quorum.Yes
	}, bound, tick)
}
