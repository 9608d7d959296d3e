package node_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// service is a primary with a replica behind one name, as operators run them: a failover lets the former primary keep its connections.
type service struct {
	t       *testing.T
	servers []*testredis.Process
	primary atomic.Int32
	dials   atomic.Int32
}

func newService(t *testing.T) *service {
	s := &service{t: t, servers: testredis.Real(t, 2)}
	do(t, s.servers[1], "REPLICAOF", "127.0.0.1", port(t, s.servers[0]))
	require.Eventually(t, func() bool { return info(t, s.servers[1], "replication", "master_link_status") == "up" }, bound, tick)
	return s
}

func (s *service) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	s.dials.Add(1)
	return new(net.Dialer).DialContext(ctx, network, s.servers[s.primary.Load()].Addr())
}

// fail lets the replica take over when it has all that the primary has. The former primary is its replica then.
func (s *service) fail() {
	from := s.primary.Load()
	former, next := s.servers[from], s.servers[1-from]
	require.Eventually(s.t, func() bool {
		return info(s.t, former, "replication", "master_repl_offset") == info(s.t, next, "replication", "slave_repl_offset")
	}, bound, tick)
	do(s.t, next, "REPLICAOF", "NO", "ONE")
	s.primary.Store(1 - from)
	do(s.t, former, "REPLICAOF", "127.0.0.1", port(s.t, next))
	require.Eventually(s.t, func() bool { return info(s.t, former, "replication", "master_link_status") == "up" }, bound, tick)
}

func port(t *testing.T, server *testredis.Process) string {
	_, port, err := net.SplitHostPort(server.Addr())
	require.NoError(t, err)
	return port
}

// The danger: READONLY for as long as the program runs.
func TestFailover_BehindANameCostsOneRefusalAndOneDial(t *testing.T) {
	s := newService(t)
	n := open(t, "service", withDialer(s.dial), patient())
	requireYes(t, n, newAcquire("held", "token", ttl))
	for i := range int32(3) {
		s.fail()
		requireRefused(t, ask(t, n, newAcquire("key", "refused", ttl)), "READONLY")
		requireYes(t, n, newExtend("held", "token", 2*ttl))
		requireYes(t, n, newAcquire("key", "token", ttl))
		requireYes(t, n, newRelease("key", "token", ttl))
		require.Equal(t, 2+i, s.dials.Load())
	}
}

// The danger: a release that the former primary has refused is lost, and the key stays for its TTL.
func TestFailover_AReleaseThatWasRefusedIsCarriedOutOnTheNextConnection(t *testing.T) {
	s := newService(t)
	n := open(t, "service", withDialer(s.dial), patient())
	for _, key := range []string{"a", "b", "c", "d", "e"} { // these are joined too
		requireYes(t, n, newAcquire(key, "token", ttl))
	}
	s.fail()
	var all []inbox
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		all = append(all, send(n, newRelease(key, "token", ttl)))
	}
	for _, r := range all {
		require.NotEqual(t, quorum.No, r.next(t).Answer)
	}
	require.Eventually(t, func() bool { return do(t, s.servers[1], "DBSIZE") == int64(0) }, bound, tick)
}

func TestFailover_AReplicaIsRefusedBeforeItServes(t *testing.T) {
	s := newService(t)
	n := open(t, s.servers[1].Addr(), patient())
	reply := ask(t, n, newAcquire("key", "token", ttl))
	require.Equal(t, quorum.Unsent, reply.Answer)
	require.ErrorContains(t, reply.Err, "READONLY")
}
