package goredis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/adapters/goredis"
	"github.com/quorumlock/quorumlock/adapters/internal/nodes"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// quarantine is the restart guard of the tests, which each new primary waits for.
const quarantine = 2 * time.Second

// openFailover makes a Locker over nodes of the options. All of it ends with the test.
func openFailover(t *testing.T, groups ...*redis.FailoverOptions) *redlock.Locker {
	t.Helper()
	nodes, err := goredis.OpenFailover(groups, pool.WithRestartGuard(quarantine), pool.WithDialTimeout(bound))
	require.NoError(t, err)
	locker, err := redlock.New(nodes, redlock.TTL(quarantine))
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, locker.Close())
		for _, n := range nodes {
			assert.NoError(t, n.Close())
		}
	})
	return locker
}

// tokens returns what the primaries of groups have at a key.
func tokens(t *testing.T, key string, groups ...*redis.FailoverOptions) (all []string) {
	for _, o := range groups {
		c := redis.NewFailoverClient(o)
		token, err := c.Get(t.Context(), key).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			token = err.Error()
		}
		all = append(all, token)
		require.NoError(t, c.Close())
	}
	return all
}

func TestOpenFailover_ALockIsHeldByTheGroupsOverAFailover(t *testing.T) {
	t.Parallel()
	sentinels := testredis.SentinelSetup{
		Args: []string{"--requirepass", "secret", "--masterauth", "secret"}, Password: "of sentinels",
	}.New(t, "a", "b", "c")
	groups := make([]*redis.FailoverOptions, 3)
	for i, name := range []string{"a", "b", "c"} {
		groups[i] = &redis.FailoverOptions{
			MasterName: name, SentinelAddrs: sentinels.Addrs(), SentinelPassword: "of sentinels", Password: "secret", DB: 3, ClientName: "biller-" + name,
		}
	}
	groups[1].Password, groups[1].CredentialsProvider = "wrong", func() (string, string) { return "default", "secret" }
	locker := openFailover(t, groups...)
	lock, err := locker.Lock(within(t), "name", redlock.RenewFor(redlock.NoLimit))
	require.NoError(t, err)
	require.Eventually(t, func() bool { // beyond the majority the answers come later
		found := tokens(t, "name", groups...)
		return found[0] == string(lock.Token()) && found[1] == found[0] && found[2] == found[0]
	}, bound, 50*time.Millisecond)
	for i, o := range groups {
		require.True(t, named(t, sentinels.Group(o.MasterName).Primary(), o.ClientName), "options %d", i)
	}

	sentinels.Group("a").FailOver()
	require.Eventually(t, func() bool { return named(t, sentinels.Group("a").Primary(), "biller-a") }, bound, tick, "the node has moved")
	require.NoError(t, lock.Err())
	require.NoError(t, lock.Unlock(t.Context()))

	sentinels.Group("b").Primary().Stop()
	lock, err = locker.Lock(within(t), "name") // by a and c
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
	state, err := locker.Inspect(t.Context(), "name")
	require.NoError(t, err)
	for i, n := range state.Nodes {
		require.Equal(t, groups[i].MasterName+"@"+sentinels.Addrs()[0], n.Addr)
	}
}

// named reports whether a server has a connection of that name.
func named(t *testing.T, p *testredis.Process, name string) bool {
	t.Helper()
	clients, err := p.Do("CLIENT", "LIST")
	require.NoError(t, err)
	return strings.Contains(string(clients.([]byte)), " name="+name+" ")
}

// sentinel starts what answers as a sentinel does, over TLS. It names the server as the primary of each group.
func sentinel(t *testing.T, cert tls.Certificate, primary string) (addr string) {
	t.Helper()
	host, port, err := net.SplitHostPort(primary)
	require.NoError(t, err)
	s, err := server.NewServerTLS("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	for name, answer := range map[string]func(c *server.Peer, _ string, args []string){
		"AUTH":   func(c *server.Peer, _ string, _ []string) { c.WriteOK() },
		"CLIENT": func(c *server.Peer, _ string, _ []string) { c.WriteOK() },
		"SENTINEL": func(c *server.Peer, _ string, args []string) {
			if !strings.EqualFold(args[0], "GET-MASTER-ADDR-BY-NAME") {
				c.WriteLen(0)
				return
			}
			c.WriteLen(2)
			c.WriteBulk(host)
			c.WriteBulk(port)
		},
	} {
		require.NoError(t, s.Register(name, answer))
	}
	return s.Addr().String()
}

func TestOpenFailover_TLSIsForSentinelsAndServers(t *testing.T) {
	t.Parallel()
	_, of, cert := secured(t)
	o := &redis.FailoverOptions{MasterName: "a", SentinelAddrs: []string{sentinel(t, cert, of.Addr)}, TLSConfig: of.TLSConfig}
	lock, err := openFailover(t, o).Lock(within(t), "name")
	require.NoError(t, err)
	require.Equal(t, []string{string(lock.Token())}, tokens(t, "name", o))
	require.NoError(t, lock.Unlock(t.Context()))

	o = &redis.FailoverOptions{MasterName: "a", SentinelAddrs: o.SentinelAddrs, TLSConfig: &tls.Config{}}
	_, err = openFailover(t, o).TryLock(t.Context(), "name")
	require.ErrorAs(t, err, new(*tls.CertificateVerificationError))
}

func TestOpenFailover_TheDialerIsForSentinelsAndServers(t *testing.T) {
	t.Parallel()
	sentinels := testredis.NewSentinels(t, "a")
	var mu sync.Mutex
	var dialled []string
	o := &redis.FailoverOptions{
		MasterName: "a", SentinelAddrs: []string{"Beyond the tunnel"},
		TLSConfig: &tls.Config{}, // which go-redis ignores beside a Dialer
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			mu.Lock()
			dialled = append(dialled, network+" "+addr)
			mu.Unlock()
			if addr == "Beyond the tunnel" {
				addr = sentinels.Addrs()[1]
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}
	lock, err := openFailover(t, o).Lock(within(t), "name")
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, dialled, "tcp Beyond the tunnel")
	require.Contains(t, dialled, "tcp "+sentinels.Group("a").Primary().Addr())
}

func TestOpenFailover_RefusesWhatItCannotCarryOverAndNamesIt(t *testing.T) {
	t.Parallel()
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("not to be dialled") }
	good := func(change func(*redis.FailoverOptions)) []*redis.FailoverOptions {
		o := &redis.FailoverOptions{MasterName: "a", SentinelAddrs: []string{"s1:26379", "s2:26379"}}
		change(o)
		return []*redis.FailoverOptions{{MasterName: "b", SentinelAddrs: []string{"S1:26379"}}, o}
	}
	for name, test := range map[string]struct {
		groups []*redis.FailoverOptions
		says   string
	}{
		"nothing":         {says: "no options given"},
		"nil":             {groups: []*redis.FailoverOptions{nil}, says: "options 0: nil"},
		"no name":         {groups: good(func(o *redis.FailoverOptions) { o.MasterName = "" }), says: "options 1: MasterName"},
		"a name":          {groups: good(func(o *redis.FailoverOptions) { o.MasterName = "a b" }), says: `options 1: group "a b"`},
		"no sentinel":     {groups: good(func(o *redis.FailoverOptions) { o.SentinelAddrs = nil }), says: "options 1: SentinelAddrs"},
		"no port":         {groups: good(func(o *redis.FailoverOptions) { o.SentinelAddrs[1] = "s2" }), says: "options 1: SentinelAddrs: address s2: missing port"},
		"no first port":   {groups: good(func(o *redis.FailoverOptions) { o.SentinelAddrs[0] = "s1" }), says: "options 1: SentinelAddrs: address s1: missing port"},
		"no address":      {groups: good(func(o *redis.FailoverOptions) { o.SentinelAddrs, o.Dialer = []string{"s1:1", ""}, dial }), says: "options 1: SentinelAddrs: missing port in address"},
		"a sentinel":      {groups: good(func(o *redis.FailoverOptions) { o.SentinelAddrs[1] = "S1:026379" }), says: `options 1: sentinel "S1:026379" is given twice`},
		"twice":           {groups: good(func(o *redis.FailoverOptions) { o.MasterName = "b" }), says: `options 1: group "b" of these sentinels is that of options 0 too`},
		"a hook":          {groups: good(func(o *redis.FailoverOptions) { o.OnConnect = func(context.Context, *redis.Conn) error { return nil } }), says: "options 1: OnConnect: "},
		"latency":         {groups: good(func(o *redis.FailoverOptions) { o.RouteByLatency = true }), says: "options 1: RouteByLatency: "},
		"random":          {groups: good(func(o *redis.FailoverOptions) { o.RouteRandomly = true }), says: "options 1: RouteRandomly: "},
		"replicas":        {groups: good(func(o *redis.FailoverOptions) { o.ReplicaOnly = true }), says: "options 1: ReplicaOnly: "},
		"broken replicas": {groups: good(func(o *redis.FailoverOptions) { o.UseDisconnectedReplicas = true }), says: "options 1: UseDisconnectedReplicas: "},
		"a database":      {groups: good(func(o *redis.FailoverOptions) { o.DB = -1 }), says: "options 1: DB -1"},
		"a time":          {groups: good(func(o *redis.FailoverOptions) { o.DialTimeout = -1 }), says: "options 1: DialTimeout -1ns"},
		"a client":        {groups: good(func(o *redis.FailoverOptions) { o.ClientName = "a b" }), says: `"a b"`},
	} {
		t.Run(name, func(t *testing.T) {
			nodes, err := goredis.OpenFailover(test.groups, pool.WithRestartGuard(quarantine))
			require.ErrorIs(t, err, redlock.ErrInvalid)
			require.ErrorContains(t, err, test.says)
			require.Nil(t, nodes)
		})
	}
}

// The danger: each failover loses locks that the former primary has granted.
func TestOpenFailover_NeedsARestartGuard(t *testing.T) {
	t.Parallel()
	groups := []*redis.FailoverOptions{{MasterName: "a", SentinelAddrs: []string{"s1:26379"}}, {MasterName: "b", SentinelAddrs: []string{"s1:26379"}}}
	_, err := goredis.OpenFailover(groups)
	require.ErrorIs(t, err, redlock.ErrInvalid)
	require.ErrorContains(t, err, "goredis: pool: the servers of node 0 fail over, which may lose locks: WithRestartGuard is needed")
	_, err = goredis.OpenFailover(groups, pool.WithRestartGuard(quarantine), pool.WithDurable(func(i int) bool { return i == 1 }))
	require.ErrorContains(t, err, "WithDurable is true for node 1")
	nodes, err := goredis.OpenFailover(groups, pool.WithRestartGuard(quarantine), pool.WithName(func(i int) string { return groups[i].MasterName }))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, []string{nodes[0].Addr(), nodes[1].Addr()})
}

// The danger: a field that a newer go-redis has, or that was forgotten, changes which servers are used, and nobody says so.
func TestFields_EachIsCarriedOverOrRefusedOrNamedAsOneWithoutEffect(t *testing.T) {
	t.Parallel()
	require.Empty(t, goredis.ClusterFields.Undecided(reflect.TypeFor[redis.ClusterOptions]()))
	require.Empty(t, goredis.FailoverFields.Undecided(reflect.TypeFor[redis.FailoverOptions]()))
	require.Empty(t, goredis.Fields.Undecided(reflect.TypeFor[redis.Options]()))
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	for _, fields := range []nodes.Decisions{goredis.ClusterFields, goredis.FailoverFields, goredis.Fields} {
		for name, decision := range fields {
			if decision != nodes.NoEffect {
				require.Regexp(t, `\b`+name+`\b`, string(doc))
			}
		}
	}
}
