package pool_test

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/sentinel"
	"github.com/quorumlock/quorumlock/pool"
)

// guarded is the option without which no URL of a group is accepted.
var guarded = pool.WithRestartGuard(time.Minute)

func TestGroup_ABadURLIsNamedByItsIndexAndWhatIsWrong(t *testing.T) {
	for url, want := range map[string]string{
		"redis+sentinel://":                                              "group:",
		"redis+sentinel:///group":                                        "host:",
		"redis+sentinel://host":                                          "group:",
		"redis+sentinel://host/":                                         "group:",
		"redis+sentinel://a,b?db=1":                                      "group:",
		"redis+sentinel://host/my%20group":                               "group:",
		"redis+sentinel://host/gruppe-ä":                                 "group:",
		"redis+sentinel://a,b,/group":                                    "host:",
		"redis+sentinel://a,,b/group":                                    "host:",
		"redis+sentinel://a,A/group":                                     "host: given twice",
		"redis+sentinel://a,a:26379/group":                               "host: given twice",
		"redis+sentinel://a,b:x/group":                                   "not a URL",
		"redis+sentinel://a,b:0/group":                                   "port:",
		"redis+sentinel://a,u:hunter2@b/group/x":                         "",
		"redis+sentinel://a/group/x":                                     "database: must",
		"redis+sentinel://a/group/1/2":                                   "database: must",
		"redis+sentinel://a/group/1?db=1":                                "database: given twice",
		"redis+sentinel://a/group?user=x":                                "parameters: only db",
		"redis+sentinel://a/group?sentinel_user=x":                       "sentinel_user without sentinel_password",
		"redis+sentinel://a/group?sentinel_password=x;":                  "parameters:",
		"redis+sentinel://a/group?sentinel_user=x&sentinel_user=hunter2": "twice",
		"redis+sentinel://a/group#x":                                     "fragment:",
		"redis+sentinel://user@a/group":                                  "user name without a password",
		"redis+sentinel://u:hunter2/x@a/group":                           "cannot be separated",
		"unix+sentinel:///run/x.sock":                                    "scheme:",
		"redis+sentine://a/group":                                        "scheme:",
	} {
		nodes, err := pool.Open([]string{"redis://a", "redis://b", url}, guarded)
		requireRejected(t, nodes, err, "URL 2", want)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestGroup_AGoodURLIsAccepted(t *testing.T) {
	for url, want := range map[string][]string{ // the name of the node, and the sentinels
		"redis+sentinel://s1/group":                             {"group@s1:26379", "s1:26379"},
		"redis+sentinel://S1:1,s2,[::1]/my.group_1-a/2":         {"my.group_1-a@s1:1", "s1:1", "s2:26379", "[::1]:26379"},
		"valkeys+sentinel://u:p%2Cw,x@s1,s2:7/g?db=1":           {"g@s1:26379", "s1:26379", "s2:7"},
		"RediSS+Sentinel://:p@s1/g/?sentinel_password=p%26%3Fw": {"g@s1:26379", "s1:26379"},
	} {
		nodes, err := pool.Open([]string{url}, guarded)
		require.NoError(t, err, url)
		require.Equal(t, want[0], nodes[0].Addr())
		for i, s := range groupOf(nodes[0]).Sentinels() {
			require.Equal(t, want[1+i], s.Address)
		}
		require.NoError(t, nodes[0].Close())
	}
}

func groupOf(n *pool.Node) *sentinel.Group { return server(n).Finder.(*sentinel.Group) }

func server(n *pool.Node) *node.Server { return (*node.Node)(n).Config().Server }

func TestGroup_EachHasItsOwnLogin(t *testing.T) {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	credentials := func(context.Context, string) (string, string, error) { return "", "", nil }
	nodes, err := pool.Open([]string{"rediss+sentinel://u:pw@s1,s2/group/3?sentinel_user=watcher&sentinel_password=secret"},
		guarded, pool.WithTLSConfig(config), pool.WithCredentials(credentials), pool.WithClientName("me"))
	require.NoError(t, err)
	s := server(nodes[0])
	require.Equal(t, []any{"u", "pw", 3, "me"}, []any{s.Username, s.Password, s.Database, s.ClientName})
	require.NotNil(t, s.Credentials)
	require.Empty(t, s.TLS.ServerName, "that of the server that is found")
	for i, name := range []string{"s1", "s2"} {
		one := groupOf(nodes[0]).Sentinels()[i]
		require.Equal(t, []any{"watcher", "secret", 0, "me"}, []any{one.Username, one.Password, one.Database, one.ClientName})
		require.Nil(t, one.Credentials)
		require.Equal(t, name, one.TLS.ServerName)
		require.Equal(t, uint16(tls.VersionTLS13), one.TLS.MinVersion)
	}
}

// The danger: each failover loses locks that the former primary has granted.
func TestGroup_NeedsARestartGuard(t *testing.T) {
	urls := []string{"redis://a", "redis+sentinel://s1/group"}
	nodes, err := pool.Open(urls)
	requireRejected(t, nodes, err, "node 1", "WithRestartGuard")
	nodes, err = pool.Open(urls, guarded, pool.WithDurable(func(i int) bool { return i == 1 }))
	requireRejected(t, nodes, err, "node 1", "WithDurable")
	nodes, err = pool.Open(urls, guarded, pool.WithDurable(func(i int) bool { return i == 0 }))
	require.NoError(t, err)
	require.Len(t, nodes, 2)
}

func TestGroup_IsOneNode(t *testing.T) {
	for _, urls := range [][]string{
		{"redis+sentinel://s1,s2/group", "redis+sentinel://s3,S2:26379/group"},
		{"redis+sentinel://s1/group/1", "valkeys+sentinel://s1/group/2"},
	} {
		nodes, err := pool.Open(urls, guarded)
		requireRejected(t, nodes, err, "URL 1 names the same server as URL 0")
	}
	nodes, err := pool.Open([]string{"redis+sentinel://s1/a", "redis+sentinel://s1/b", "redis+sentinel://s2/a", "redis://s1:26379"}, guarded)
	require.NoError(t, err)
	require.Len(t, nodes, 4)
}
