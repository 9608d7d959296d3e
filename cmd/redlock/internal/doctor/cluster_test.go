package doctor_test

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	slots "github.com/quorumlock/quorumlock/internal/cluster"
	"github.com/quorumlock/quorumlock/internal/inquiry/inquirytest"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// clustered is a cluster that makes three nodes.
type clustered struct {
	*testredis.Cluster
	servers []*node.Server
}

// wellSetCluster starts a cluster that nothing is wrong with, but for the args.
func wellSetCluster(t *testing.T, args ...string) *clustered {
	t.Helper()
	args = slices.Concat(wellSet, []string{"--masterauth", "secret", "--cluster-require-full-coverage", "no"}, args)
	c := &clustered{Cluster: testredis.NewCluster(t, args...)}
	c.servers = nodesOf(3, c.Addrs()...)
	for i, s := range c.servers {
		owner := c.owner(i)
		stamp, left := testredis.OwnStamp(t, owner), 60*24*time.Hour-time.Hour
		do(t, owner, "SET", s.Tag+testredis.Stamps+s.StampName(), stamp, "PX", left.Milliseconds())
	}
	return c
}

// nodesOf returns how to reach n nodes of the cluster to which servers belong, all with the password "secret".
func nodesOf(n int, addrs ...string) (nodes []*node.Server) {
	servers := inquirytest.At(addrs...)
	for i := range servers {
		servers[i].Password = "secret"
	}
	all := slots.New(servers)
	for i := range n {
		found := all.Node(i, n)
		s := serverAt(found.Name() + "@" + addrs[0])
		s.Finder, s.Tag = found, found.Tag()
		nodes = append(nodes, s)
	}
	return nodes
}

func (c *clustered) slot(i int) int                 { return c.servers[i].Finder.(*slots.Node).Slot() }
func (c *clustered) owner(i int) *testredis.Process { return c.Owner(c.slot(i)) }
func (c *clustered) addr(i int) string              { return c.servers[i].Address }
func onEach(c *clustered, severity doctor.Severity, check string) (all []string) {
	for i := range c.servers {
		all = append(all, is(severity, check, c.addr(i)))
	}
	return all
}

func TestCluster_IsSilentForOneThatIsWellSet(t *testing.T) {
	t.Parallel()
	c := wellSetCluster(t)
	o := patient(doctor.Options{RestartGuard: time.Minute, Fencing: true, Shared: true})
	do(t, c.owner(0), "SET", "x"+c.servers[0].Tag+"lock:beside", "data") // which never expires, and is of another program
	do(t, c.owner(0), "SET", c.servers[0].Tag+"other", "data")
	r := finds(t, c.servers, o)
	require.Empty(t, r.Unexamined)
	require.Contains(t, r.Checks, "full-coverage")
	for i, keys := range []int{3, 1, 1} {
		require.EqualValues(t, keys, do(t, c.owner(i), "CLUSTER", "COUNTKEYSINSLOT", c.slot(i)), "only its stamp stays")
	}

	for i := range c.servers {
		do(t, c.owner(i), "SET", c.servers[i].Tag+"lock:left", "somebody")
	}
	r = finds(t, c.servers, o, onEach(c, doctor.Warning, "keys-no-ttl")...)
	require.Contains(t, r.Findings[0].What, `1 key without a TTL: "lock:left"`)
	for i := range c.servers {
		do(t, c.owner(i), "DEL", c.servers[i].Tag+"lock:left")
	}

	o.Only = []string{"quarantine", "prepare"}
	o.Prepare = true
	stampKey := c.servers[1].Tag + testredis.Stamps + c.servers[1].StampName()
	do(t, c.owner(1), "DEL", stampKey)
	finds(t, c.servers, o, is(doctor.Warning, "quarantine", c.addr(1)))
	require.Equal(t, testredis.OwnStamp(t, c.owner(1)), string(do(t, c.owner(1), "GET", stampKey).([]byte)))

	c.BeginMigration(c.slot(0), c.owner(1)) // keys may be missing
	r = finds(t, c.servers, patient(doctor.Options{RestartGuard: time.Minute, Only: []string{"keys-no-ttl"}}))
	require.Len(t, r.Unexamined, 1)
	require.Contains(t, r.Unexamined[0].Needs, "the whole slot of the node: ASK")
}

func TestCluster_SaysWhatIsWrongWithIt(t *testing.T) {
	t.Parallel()
	c := wellSetCluster(t)
	o := patient(doctor.Options{RestartGuard: time.Minute, Only: []string{
		"count", "databases", "duplicate", "reachable", "role", "replicas", "sentinel", "sentinels", "min-replicas", "cluster", "cluster-servers", "full-coverage", "lock",
	}})
	finds(t, c.servers, o)
	set := func(name, value string) {
		for _, s := range c.Servers() {
			do(t, s, "CONFIG", "SET", name, value)
		}
	}
	set("cluster-require-full-coverage", "yes")
	r := finds(t, c.servers, o, onEach(c, doctor.Warning, "full-coverage")...)
	require.Contains(t, r.Findings[0].Fix, "CONFIG SET cluster-require-full-coverage no")
	set("cluster-require-full-coverage", "no")
	set("min-replicas-to-write", "1")
	finds(t, c.servers, o, onEach(c, doctor.Warning, "min-replicas")...)
	set("min-replicas-to-write", "2")
	finds(t, c.servers, o, onEach(c, doctor.Fault, "min-replicas")...)
	set("min-replicas-to-write", "0")
	finds(t, nodesOf(2, c.Addrs()...), patient(doctor.Options{RestartGuard: time.Minute, Only: []string{"count"}}), is(doctor.Warning, "count", ""))

	plain := testredis.Real(t, 1, "--requirepass", "secret")[0].Addr()
	gone := testredis.Listen(t, func(conn net.Conn) { _ = conn.Close() })
	some := nodesOf(3, c.Addrs()[0], plain, gone)
	only := patient(doctor.Options{RestartGuard: time.Minute, Only: []string{"cluster-servers"}})
	r = examine(t, some, only)
	require.Len(t, r.Findings, 6)
	require.Len(t, r.Groups()[0].Nodes, 3, "it is the same for all nodes")
	require.Contains(t, r.Findings[0].What, "the cluster node "+plain)
	require.Contains(t, r.Findings[0].What, "it is not in cluster mode")
	require.Contains(t, r.Findings[1].What, "the cluster node "+gone)

	_, third := c.Replica(c.slot(2)), c.addr(2)
	c.Replica(c.slot(2)).Stop()
	require.Eventually(t, func() bool { return testredis.Info(t, c.owner(2), "replication", "connected_slaves") == "0" }, bound, 10*time.Millisecond)
	o.Only = slices.DeleteFunc(o.Only, func(check string) bool { return check == "cluster-servers" })
	finds(t, c.servers, o, is(doctor.Warning, "replicas", third))

	c.Migrate(c.slot(0), c.owner(1))
	r = finds(t, c.servers, o, is(doctor.Fault, "duplicate", c.addr(1)), is(doctor.Warning, "replicas", third))
	require.Contains(t, r.Findings[0].What, "one master has the slots 8224 and 2866")

	set = func(name, value string) { do(t, c.owner(1), "CONFIG", "SET", name, value) }
	set("cluster-require-full-coverage", "yes")
	unassign := []*testredis.Process{c.owner(2), c.owner(1)}
	require.Eventually(t, func() bool {
		for _, s := range unassign {
			_, _ = s.Do("CLUSTER", "DELSLOTS", 16000) // an error says that it is done
		}
		state, is := do(t, c.owner(1), "CLUSTER", "INFO").([]byte)
		return is && strings.HasPrefix(string(state), "cluster_state:fail")
	}, bound, 10*time.Millisecond)
	o.Only = []string{"cluster", "lock"}
	r = finds(t, c.servers, o, is(doctor.Fault, "cluster", c.addr(0)), is(doctor.Fault, "cluster", c.addr(1)))
	require.Contains(t, r.Findings[0].What, "16383 of 16384 slots have a master")
	r = examine(t, nodesOf(3, c.owner(1).Addr(), c.owner(2).Addr()), only)
	require.Equal(t, []string{"cluster-servers"}, slices.Compact(r.Checks))
	require.Len(t, r.Findings, 3)
	require.Equal(t, "the cluster node "+c.owner(1).Addr()+" has a cluster_state that is not ok", r.Findings[0].What)
}

// The danger: two programs ask servers of two clusters, and each of them gets the lock.
func TestCluster_ServersOfTwoClustersAreAFault(t *testing.T) {
	t.Parallel()
	a, b := wellSetCluster(t), wellSetCluster(t)
	r := examine(t, nodesOf(3, a.Addrs()[0], b.Addrs()[0]), patient(doctor.Options{RestartGuard: time.Minute, Only: []string{"cluster-servers"}}))
	require.Len(t, r.Findings, 3)
	require.Equal(t, doctor.Fault, r.Findings[0].Severity)
	require.Contains(t, r.Findings[0].What, "do not agree on the master of the slot 2866")
}

func TestCluster_FindsALockThatAnotherListOfNodesRenews(t *testing.T) {
	t.Parallel()
	c := wellSetCluster(t)
	nodes, err := pool.Open([]string{strings.Replace(c.URL(3), "://", "://:secret@", 1)}, pool.WithRestartGuard(time.Minute), pool.WithTimeout(bound))
	require.NoError(t, err)
	locker, err := redlock.New(nodes[:1], redlock.WithKeyPrefix("lock:"), redlock.TTL(3*time.Second))
	require.NoError(t, err)
	held, err := locker.Lock(t.Context(), "job", redlock.RenewFor(redlock.NoLimit))
	require.NoError(t, err)
	r := finds(t, c.servers, patient(doctor.Options{RestartGuard: time.Minute, Only: []string{"keys-other-list"}}), is(doctor.Warning, "keys-other-list", ""))
	require.Contains(t, r.Findings[0].What, `the lock "lock:job" is renewed`)
	require.NoError(t, held.Unlock(t.Context()))
	require.NoError(t, locker.Close())
	for _, n := range nodes {
		require.NoError(t, n.Close())
	}
}

func TestCluster_NeedsRightsWithTheTags(t *testing.T) {
	t.Parallel()
	c := wellSetCluster(t)
	var rules []string
	for _, rule := range slices.Concat(documentedRules(t)...) {
		if strings.ContainsAny(rule[:1], "~&") {
			rule = rule[:1] + "{q*}" + rule[1:]
		}
		rules = append(rules, rule)
	}
	rules = append(rules, "+cluster|slots", "+cluster|info")
	without := func(rule string) {
		for _, s := range c.Servers() {
			setUser(t, s, slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return r == rule }))
		}
	}
	for _, s := range c.servers {
		s.Username = "locker"
		for i := range s.Finder.(*slots.Node).Servers() {
			s.Finder.(*slots.Node).Servers()[i].Username = "locker"
		}
	}
	o := patient(doctor.Options{RestartGuard: time.Minute, Fencing: true, Shared: true})
	without("")
	r := finds(t, c.servers, o)
	var unexamined []string
	for _, u := range r.Unexamined {
		unexamined = append(unexamined, u.Check+" needs "+u.Needs)
	}
	require.Contains(t, unexamined, "full-coverage needs the right +config|get")
	require.Len(t, unexamined, 3*(len(adminOnly)+3))
	for rule, check := range map[string]string{
		"~{q*}lock:*": "rights-locks", "~{q*}{lock:*}:fence": "rights-fencing", "~{q*}quorumlock:*": "rights-identity",
		"~{q*}{lock:*}:wanted": "rights-shared", "+cluster|slots": "reachable", "+cluster|info": "reachable",
	} {
		without(rule)
		r = examine(t, c.servers, o)
		require.NotEmpty(t, r.Findings, rule)
		require.Equal(t, check, r.Findings[0].Check)
		words := strings.Fields(r.Findings[0].Fix)
		require.Equal(t, []string{"ACL", "SETUSER", "locker"}, words[:3], rule)
		require.Contains(t, words, rule)
		if check != "reachable" {
			require.Contains(t, r.Findings[0].What, ": "+rule)
		}
	}
	without("&{q*}quorumlock:*")
	r = finds(t, c.servers, o, onEach(c, doctor.Warning, "rights-waking")...)
	require.Contains(t, r.Findings[0].What, "&{q*}quorumlock:*")
}

func TestCluster_AServerThatIsInNoneIsUnreachableThatWay(t *testing.T) {
	t.Parallel()
	s := testredis.Real(t, 1, "--requirepass", "secret")[0]
	o := patient(doctor.Options{RestartGuard: time.Minute, Only: []string{"reachable"}})
	nodes := nodesOf(1, s.Addr())
	r := finds(t, nodes, o, is(doctor.Fault, "reachable", nodes[0].Address))
	require.Contains(t, r.Findings[0].What, "cluster node "+s.Addr()+": ")
	require.Contains(t, r.Findings[0].What, ": it is not in cluster mode")
	nodes = nodesOf(1, s.Addr(), testredis.Listen(t, func(conn net.Conn) { _ = conn.Close() }))
	r = finds(t, nodes, o, is(doctor.Fault, "reachable", nodes[0].Address))
	require.Contains(t, r.Findings[0].What, "; cluster node ")
	open := testredis.Real(t, 1)[0] // no sentinel knows the password of the servers
	group := groupOf("a", open.Addr())
	r = finds(t, []*node.Server{group}, o, is(doctor.Fault, "reachable", group.Address))
	require.Contains(t, r.Findings[0].What, "sentinel "+open.Addr()+": ")
	require.Contains(t, r.Findings[0].What, ": it is no Sentinel")
	require.Contains(t, r.Findings[0].Fix, "sentinel_user")
}
