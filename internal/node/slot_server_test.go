package node_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/cluster"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/inquiry/inquirytest"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// slotted is a node of a cluster.
type slotted struct {
	*testredis.Cluster
	*node.Node
	found *cluster.Node
	to    *dialled
}

// openSlotted opens the i-th of three nodes.
func openSlotted(t *testing.T, c *testredis.Cluster, i int, opts ...option) *slotted {
	t.Helper()
	s := &slotted{Cluster: c, found: cluster.New(inquirytest.At(c.Addrs()...)).Node(i, 3), to: &dialled{addrs: map[string]int{}}}
	s.Node = open(t, "node", append(opts, withDialer(s.to.dial), patient(), func(c *node.Config) {
		c.Server.Finder, c.Server.Tag = s.found, s.found.Tag()
	})...)
	return s
}

// owner returns the server of the node.
func (s *slotted) owner() *testredis.Process { return s.Owner(s.found.Slot()) }

func (s *slotted) key(name string) string { return s.found.Tag() + name }

func TestSlot_TheNodeFollowsItsSlotForOneRefusal(t *testing.T) {
	t.Parallel()
	c := testredis.NewCluster(t)
	s := openSlotted(t, c, 0)
	requireYes(t, s.Node, newAcquire("held", "token", ttl))
	require.Equal(t, "token", holds(t, s.owner(), s.key("held")))
	l := listen(s.Node, "channel")
	l.await(t, "0 active")
	for _, move := range []func(){
		func() { c.FailOver(s.found.Slot()) },
		func() { c.Migrate(s.found.Slot(), openSlotted(t, c, 1).owner()) },
		func() { c.FailOver(s.found.Slot()) },
		func() { c.FailOver(s.found.Slot()) },
	} {
		move()
		to := s.to.times(s.owner().Addr())
		requireRefused(t, ask(t, s.Node, newAcquire("key", "refused", ttl)), "MOVED")
		requireYes(t, s.Node, newExtend("held", "token", 2*ttl))
		requireYes(t, s.Node, newAcquire("key", "token", ttl))
		requireYes(t, s.Node, newRelease("key", "token", ttl))
		require.Equal(t, to+1, s.to.times(s.owner().Addr()), "one dial")
		l.await(t, "0 active")

		requireTracked(t, s.Node, "observed")
		do(t, s.owner(), "INCR", s.key("observed"))
		l.await(t, "0 invalidated observed")
		requireYes(t, s.Node, node.Publish("channel", "text"))
		l.await(t, "0 message text")
	}
}

// The danger: a release that the former master has refused is lost, and the key stays for its TTL.
func TestSlot_AReleaseThatWasRefusedGoesToTheNextMaster(t *testing.T) {
	t.Parallel()
	c := testredis.NewCluster(t)
	s := openSlotted(t, c, 1)
	for _, move := range []func(){
		func() { c.FailOver(s.found.Slot()) },
		func() { c.Migrate(s.found.Slot(), openSlotted(t, c, 2).owner()) },
	} {
		acquires, releases := several(5) // these are joined too
		for _, cmd := range append(acquires, newAcquire("held", "token", ttl)) {
			requireYes(t, s.Node, cmd)
		}
		move()
		for _, r := range sendAll(s.Node, append(releases, newRelease("held", "token", ttl))) {
			require.NotEqual(t, quorum.No, r.next(t).Answer)
		}
		require.Eventually(t, func() bool {
			keys, err := redis.Strings(do(t, s.owner(), "CLUSTER", "GETKEYSINSLOT", s.found.Slot(), 100), nil)
			require.NoError(t, err)
			return len(keys) == 5 // the counters
		}, bound, tick)
	}
}

func TestSlot_AMasterThatIsKilledIsReplaced(t *testing.T) {
	t.Parallel()
	c := testredis.NewCluster(t)
	s := openSlotted(t, c, 2, withTimeout(time.Second))
	former := ask(t, s.Node, newAcquire("held", "token", time.Hour)).Server
	l := listen(s.Node, "")
	l.await(t, "0 active")
	c.Kill(s.found.Slot())
	l.await(t, "0 lost")
	l.await(t, "0 active") // nobody asks for it
	require.Eventually(t, func() bool {
		reply := ask(t, s.Node, newExtend("held", "token", time.Hour))
		return (reply.Answer == quorum.Yes || reply.Answer == quorum.Recreated) && reply.Server != former
	}, bound, tick)
}

// The danger: a cluster passes messages on to all servers, each that is passed on multiplies them, and they arrive
// before the release that they follow.
func TestSlot_AMessageArrivesThroughTheNodeThatItWasSentTo(t *testing.T) {
	t.Parallel()
	c := testredis.NewCluster(t)
	l, nodes := make(events, 100), [3]*slotted{}
	for i := range nodes {
		nodes[i] = openSlotted(t, c, i)
		nodes[i].Listen(l, i, "channel")
		l.await(t, fmt.Sprint(i, " active"))
		requireSubscribed(t, nodes[i].owner(), nodes[i].key("channel"), 1)
	}
	for range 10 {
		for i, s := range nodes {
			requireYes(t, s.Node, node.Publish("channel", "text"))
			require.Equal(t, fmt.Sprint(i, " message text"), l.next(t))
		}
	}
	for i, s := range nodes { // what was published on the other servers has arrived before
		requireTracked(t, s.Node, "key")
		do(t, s.owner(), "INCR", s.key("key"))
		require.Equal(t, fmt.Sprint(i, " invalidated key"), l.next(t))
	}
	require.Empty(t, l)
}

// During a migration a server sends clients to the other one for a key that has gone, or is new. It ends soon.
func TestSlot_AMigrationUnderWayPasses(t *testing.T) {
	t.Parallel()
	c := testredis.NewCluster(t)
	s := openSlotted(t, c, 0)
	requireYes(t, s.Node, newAcquire("held", "token", ttl))
	move, end := c.BeginMigration(s.found.Slot(), openSlotted(t, c, 1).owner())
	requireYes(t, s.Node, newExtend("held", "token", 2*ttl))
	move()
	for _, cmd := range []*wire.Command{newAcquire("key", "token", ttl), newExtend("held", "token", ttl)} {
		reply := ask(t, s.Node, cmd)
		requireRefused(t, reply, "ASK")
		require.Equal(t, wire.Passes, wire.OutlookOf(reply.Err))
	}
	end()
	requireRefused(t, ask(t, s.Node, newAcquire("key", "refused", ttl)), "MOVED")
	requireYes(t, s.Node, newExtend("held", "token", 2*ttl))
	require.Equal(t, "token", holds(t, s.owner(), s.key("held")))
}

func TestSlot_TheNextMasterVotesWhenItsGuardIsOver(t *testing.T) {
	t.Parallel()
	c := testredis.NewCluster(t)
	opened := func() *slotted { return openSlotted(t, c, 0, withGuard(3*time.Second)) }
	before := opened()
	granted := func(s *slotted) func() bool {
		return func() bool {
			return ask(t, s.Node, newAcquire(fmt.Sprint("key", time.Now().UnixNano()), "token", ttl)).Answer == quorum.Yes
		}
	}
	require.Eventually(t, granted(before), bound, tick)
	for _, move := range []func(){
		func() { c.FailOver(before.found.Slot()) },
		func() { c.Migrate(before.found.Slot(), openSlotted(t, c, 1).owner()) },
	} {
		move()
		begun := time.Now()
		for _, s := range []*slotted{before, opened()} {
			require.Eventually(t, func() bool { // the one that was connected still has to move
				reply := ask(t, s.Node, newAcquire("key", "token", ttl))
				require.NotEqual(t, quorum.Yes, reply.Answer)
				return reply.Answer == quorum.Unsent && errors.Is(reply.Err, nodeerr.ErrQuarantined)
			}, bound, tick)
		}
		require.Eventually(t, granted(before), bound, tick)
		require.Greater(t, time.Since(begun), 3*time.Second-100*time.Millisecond)
	}
}

// A server in a cluster behind a plain URL has its slots, and refuses the others.
func TestSlot_APlainNodeGoesOnAsBefore(t *testing.T) {
	t.Parallel()
	c := testredis.NewCluster(t)
	n := open(t, c.Owner(c.Slot("key")).Addr(), patient())
	requireYes(t, n, newAcquire("key", "token", ttl))
	other := ""
	for i := 'a'; c.Owner(c.Slot(other)) == c.Owner(c.Slot("key")); i++ {
		other = string(i)
	}
	for range 3 {
		reply := ask(t, n, newAcquire(other, "token", ttl))
		requireRefused(t, reply, "MOVED")
		require.ErrorContains(t, reply.Err, "nodes must be independent")
	}
	require.Equal(t, "token", ask(t, n, form.Exclusive{}.Observe("key")).Value)
}
