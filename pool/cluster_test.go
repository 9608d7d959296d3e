package pool_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/cluster"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/pool"
)

func TestCluster_ABadURLIsNamedByItsIndexAndWhatIsWrong(t *testing.T) {
	for url, want := range map[string]string{
		"redis+cluster://":                              "nodes:",
		"redis+cluster://a":                             "nodes: the parameter must be given once, from 1 to 16",
		"redis+cluster://a/?nodes=":                     "nodes:",
		"redis+cluster://a/?nodes=0":                    "nodes:",
		"redis+cluster://a/?nodes=-3":                   "nodes:",
		"redis+cluster://a/?nodes=17":                   "nodes:",
		"redis+cluster://a/?nodes=three":                "nodes:",
		"redis+cluster://a/?nodes=99999999999999999999": "nodes:",
		"redis+cluster://a/?nodes=3&nodes=3":            "nodes:",
		"redis+cluster://a/?nodes=3;":                   "parameters:",
		"redis+cluster://a/?nodes=3&x=1":                "parameters: only nodes",
		"redis+cluster://a/?nodes=3&sentinel_user=x":    "parameters: only nodes",
		"redis+cluster://a/1?nodes=3":                   "database:",
		"redis+cluster://a/0?nodes=3":                   "database:",
		"redis+cluster://a/?nodes=3&db=1":               "a cluster has no databases",
		"redis+cluster:///?nodes=3":                     "host:",
		"redis+cluster://a,/?nodes=3":                   "host:",
		"redis+cluster://a,b,A:6379/?nodes=3":           "host: given twice",
		"redis+cluster://a,b:x/?nodes=3":                "not a URL",
		"redis+cluster://a,b:0/?nodes=3":                "port:",
		"redis+cluster://a/?nodes=3#x":                  "fragment:",
		"redis+cluster://user@a/?nodes=3":               "user name without a password",
		"redis+cluster://u:hunter2/x@a/?nodes=3":        "cannot be separated",
		"unix+cluster:///run/x.sock?nodes=3":            "scheme:",
		"redis+clusters://a/?nodes=3":                   "scheme:",
		"redis+://a/?nodes=3":                           "scheme:",
	} {
		nodes, err := pool.Open([]string{"redis://p", "redis://q", url}, guarded)
		requireRejected(t, nodes, err, "URL 2", want)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestCluster_AGoodURLMakesSeveralNodes(t *testing.T) {
	for url, want := range map[string][]string{ // the names of the nodes, and the servers
		"redis+cluster://S1?nodes=1":                      {"q0/1.1@s1:6379", "s1:6379"},
		"valkeys+cluster://u:p%2Cw,x@s1:1,[::1]/?nodes=2": {"q0/2.148@s1:1", "q1/2.69@s1:1", "s1:1", "[::1]:6379"},
		"RediSS+Cluster://:p@s1/?nodes=3":                 {"q0/3.111@s1:6379", "q1/3.103@s1:6379", "q2/3.9@s1:6379", "s1:6379"},
	} {
		nodes, err := pool.Open([]string{url}, guarded)
		require.NoError(t, err, url)
		for i, n := range nodes {
			require.Equal(t, want[i], n.Addr())
			require.NoError(t, n.Close())
		}
		for i, s := range clusterOf(nodes[0]).Servers() {
			require.Equal(t, want[len(nodes)+i], s.Address)
		}
	}
}

func clusterOf(n *pool.Node) *cluster.Node { return server(n).Finder.(*cluster.Node) }

func TestCluster_AllServersHaveOneLogin(t *testing.T) {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	credentials := func(context.Context, string) (string, string, error) { return "", "", nil }
	nodes, err := pool.Open([]string{"rediss+cluster://u:pw@s1,s2/?nodes=2"},
		guarded, pool.WithTLSConfig(config), pool.WithCredentials(credentials), pool.WithClientName("me"))
	require.NoError(t, err)
	require.Len(t, nodes, 2)
	for _, n := range nodes {
		require.Equal(t, fmt.Sprintf("{%s}", clusterOf(n).Name()), server(n).Tag)
		require.Same(t, clusterOf(nodes[0]).Cluster, clusterOf(n).Cluster)
	}
	for _, s := range append(clusterOf(nodes[0]).Servers(), *server(nodes[0]), *server(nodes[1])) {
		require.Equal(t, []any{"tcp", "u", "pw", 0, "me"}, []any{s.Network, s.Username, s.Password, s.Database, s.ClientName})
		require.NotNil(t, s.Credentials)
		require.NotNil(t, s.Dial)
		require.Empty(t, s.TLS.ServerName, "that of the server at hand")
		require.Equal(t, uint16(tls.VersionTLS13), s.TLS.MinVersion)
	}
}

// The danger: each failover may lose locks that the former master has granted.
func TestCluster_NeedsARestartGuard(t *testing.T) {
	urls := []string{"redis://a", "redis+cluster://s1/?nodes=3", "redis://b"}
	nodes, err := pool.Open(urls)
	requireRejected(t, nodes, err, "node 1", "WithRestartGuard")
	for i := range 5 {
		nodes, err = pool.Open(urls, guarded, pool.WithDurable(func(node int) bool { return node == i }))
		if i == 0 || i == 4 {
			require.NoError(t, err)
			require.Zero(t, (*node.Node)(nodes[i]).Config().MaxTTL)
			continue
		}
		requireRejected(t, nodes, err, fmt.Sprintf("node %d", i), "WithDurable")
	}
}

func TestCluster_NamesCountNodes(t *testing.T) {
	nodes, err := pool.Open([]string{"redis+cluster://s1/?nodes=3", "redis://b"}, guarded,
		pool.WithName(func(i int) string { return fmt.Sprint("n", i) }))
	require.NoError(t, err)
	require.Len(t, nodes, 4)
	for i, n := range nodes {
		require.Equal(t, fmt.Sprint("n", i), n.Addr())
	}
}

// The danger: one master votes for two nodes.
func TestCluster_IsNamedOnce(t *testing.T) {
	for _, urls := range [][]string{
		{"redis+cluster://s1,s2/?nodes=3", "redis+cluster://s3,S2:6379/?nodes=3"},
		{"redis+cluster://s1/?nodes=3", "valkeys+cluster://s1/?nodes=2"},
		{"redis+cluster://s1,s2/?nodes=3", "redis://s2"},
		{"redis://s2.", "redis+cluster://s1,s2/?nodes=3"},
	} {
		nodes, err := pool.Open(urls, guarded)
		requireRejected(t, nodes, err, "URL 1 names the same server as URL 0")
	}
	nodes, err := pool.Open([]string{"redis+cluster://s1/?nodes=3", "redis+cluster://s2/?nodes=3", "redis+sentinel://s1:6379/group"}, guarded)
	require.NoError(t, err)
	require.Len(t, nodes, 7)
}
