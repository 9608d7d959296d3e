package doctor_test

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/internal/inquiry/inquirytest"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/sentinel"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// groupOf returns how to reach a group, with these sentinels.
func groupOf(name string, sentinels ...string) *node.Server {
	s := serverAt(name + "@" + sentinels[0])
	s.Finder, s.Watched = sentinel.New(name, inquirytest.At(sentinels...)), true
	return s
}

// wellSetGroup starts the group "a" that nothing is wrong with.
func wellSetGroup(t *testing.T) *testredis.Sentinels {
	t.Helper()
	return testredis.SentinelSetup{Args: slices.Concat(wellSet, []string{"--masterauth", "secret", "--min-replicas-to-write", "2"})}.New(t, "a")
}

func TestGroup_IsExaminedByItsSentinels(t *testing.T) {
	t.Parallel()
	s := wellSetGroup(t)
	primary := s.Group("a").Primary()
	o := patient(doctor.Options{RestartGuard: time.Minute, Only: []string{"reachable", "role", "replicas", "sentinel", "sentinels", "min-replicas", "quarantine"}})
	testredis.InUse(t, primary, "a", time.Hour)
	group := func(sentinels ...string) []*node.Server { return []*node.Server{groupOf("a", sentinels...)} }
	addr := "a@" + s.Addrs()[0]
	finds(t, group(s.Addrs()...), o)

	set := func(n int) {
		_, err := primary.Do("CONFIG", "SET", "min-replicas-to-write", n)
		require.NoError(t, err)
	}
	set(1)
	finds(t, group(s.Addrs()...), o, is(doctor.Warning, "min-replicas", addr))
	set(0)
	finds(t, group(s.Addrs()...), o, is(doctor.Fault, "min-replicas", addr))
	set(2)
	gone := testredis.Listen(t, func(c net.Conn) { _ = c.Close() })
	finds(t, group(s.Addrs()[0], gone), o, is(doctor.Warning, "sentinels", addr))
	s.Group("a").Replicas()[0].Stop()
	require.Eventually(t, func() bool { return testredis.Info(t, primary, "replication", "connected_slaves") == "1" }, bound, 10*time.Millisecond)
	set(1)
	finds(t, group(s.Addrs()...), o, is(doctor.Warning, "replicas", addr))
}

func TestGroup_SentinelsThatDisagreeAreAFault(t *testing.T) {
	t.Parallel()
	a := wellSetGroup(t)
	b := wellSetGroup(t)
	o := patient(doctor.Options{Only: []string{"sentinels"}})
	finds(t, []*node.Server{groupOf("a", a.Addrs()[0], b.Addrs()[0])}, o, is(doctor.Fault, "sentinels", "a@"+a.Addrs()[0]))
}

// A replica of a group that is made a master by hand grants locks beside the primary.
func TestGroup_NobodyIsToldToMakeAReplicaAMaster(t *testing.T) {
	t.Parallel()
	replica := wellSetServers(t, 1)[0]
	do(t, replica, "REPLICAOF", "127.0.0.1", "1")
	host, port, err := net.SplitHostPort(replica.Addr())
	require.NoError(t, err)
	wrong := pretending(t, func(words []string) string {
		switch strings.Join(words, " ") {
		case "SENTINEL GET-MASTER-ADDR-BY-NAME a":
			return "*2\r\n" + testredis.Bulk(host) + testredis.Bulk(port)
		case "SENTINEL MASTER a":
			return "*2\r\n" + testredis.Bulk("config-epoch") + testredis.Bulk("1")
		}
		return "-ERR unknown command\r\n"
	})
	r := finds(t, []*node.Server{groupOf("a", wrong)}, patient(doctor.Options{Only: []string{"role"}}), is(doctor.Fault, "role", "a@"+wrong))
	require.Contains(t, r.Findings[0].Fix, "Never REPLICAOF NO ONE")
}
