package node_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// The danger: READONLY for as long as the program runs.
func TestFailover_BehindANameCostsOneRefusalAndOneDial(t *testing.T) {
	s := testredis.NewService(t)
	n := open(t, "service", withDialer(s.Dial), patient())
	requireYes(t, n, newAcquire("held", "token", ttl))
	for i := range 3 {
		s.FailOver()
		requireRefused(t, ask(t, n, newAcquire("key", "refused", ttl)), "READONLY")
		requireYes(t, n, newExtend("held", "token", 2*ttl))
		requireYes(t, n, newAcquire("key", "token", ttl))
		requireYes(t, n, newRelease("key", "token", ttl))
		require.Equal(t, 2+i, s.Dials())
	}
}

// The danger: a release that the former primary has refused is lost, and the key stays for its TTL.
func TestFailover_AReleaseThatWasRefusedIsCarriedOutOnTheNextConnection(t *testing.T) {
	s := testredis.NewService(t)
	n := open(t, "service", withDialer(s.Dial), patient())
	for _, key := range []string{"a", "b", "c", "d", "e"} { // these are joined too
		requireYes(t, n, newAcquire(key, "token", ttl))
	}
	s.FailOver()
	var all []inbox
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		all = append(all, send(n, newRelease(key, "token", ttl)))
	}
	for _, r := range all {
		require.NotEqual(t, quorum.No, r.next(t).Answer)
	}
	require.Eventually(t, func() bool { return do(t, s.Primary(), "DBSIZE") == int64(0) }, bound, tick)
}

func TestFailover_AReplicaIsRefusedBeforeItServes(t *testing.T) {
	s := testredis.NewService(t)
	n := open(t, s.Replica().Addr(), patient())
	reply := ask(t, n, newAcquire("key", "token", ttl))
	require.Equal(t, quorum.Unsent, reply.Answer)
	require.ErrorContains(t, reply.Err, "READONLY")
}
