package goredis_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/adapters/goredis"
	"github.com/quorumlock/quorumlock/adapters/internal/clustertest"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestOpenCluster_TheNodesAreThoseOfTheURL(t *testing.T) {
	t.Parallel()
	clustertest.Run(t, func(addresses []string, opts ...pool.Option) ([]*pool.Node, error) {
		return goredis.OpenCluster(&redis.ClusterOptions{
			Addrs: addresses, ClientName: clustertest.ClientName, Username: "wrong", Password: "wrong",
			CredentialsProvider: func() (string, string) { return "default", clustertest.Password },
		}, 3, opts...)
	})
}

// openCluster makes a Locker over one node of the options. All of it ends with the test.
func openCluster(t *testing.T, o *redis.ClusterOptions) (*redlock.Locker, *pool.Node) {
	t.Helper()
	nodes, err := goredis.OpenCluster(o, 1, pool.WithRestartGuard(quarantine), pool.WithDialTimeout(bound))
	require.NoError(t, err)
	locker, err := redlock.New(nodes, redlock.TTL(quarantine))
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, locker.Close())
		assert.NoError(t, nodes[0].Close())
	})
	return locker, nodes[0]
}

func TestOpenCluster_TLSIsForAllServers(t *testing.T) {
	t.Parallel()
	cert := testredis.NewCertificate(t, time.Hour, "127.0.0.1")
	server := testredis.Real(t, 1, append(cert.Args(), "--cluster-enabled", "yes", "--tls-cluster", "yes")...)[0]
	clustertest.Join(t, server)
	o := &redis.ClusterOptions{Addrs: []string{server.Addr()}, TLSConfig: cert.Trusts()}
	locker, _ := openCluster(t, o)
	lock, err := locker.Lock(within(t), "name")
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))

	locker, _ = openCluster(t, &redis.ClusterOptions{Addrs: o.Addrs, TLSConfig: &tls.Config{RootCAs: x509.NewCertPool()}})
	_, err = locker.TryLock(t.Context(), "name")
	require.ErrorAs(t, err, new(*tls.CertificateVerificationError))
}

func TestOpenCluster_TheDialerIsForAllServers(t *testing.T) {
	t.Parallel()
	server := testredis.Real(t, 1, "--cluster-enabled", "yes")[0]
	clustertest.Join(t, server)
	_, port, err := net.SplitHostPort(server.Addr())
	require.NoError(t, err)
	_, err = server.Do("CONFIG", "SET", "cluster-announce-ip", "10.9.9.9")
	require.NoError(t, err)
	var mu sync.Mutex
	var dialled []string
	o := &redis.ClusterOptions{
		Addrs: []string{"Beyond the tunnel"}, TLSConfig: &tls.Config{}, // which go-redis ignores beside a Dialer
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			mu.Lock()
			dialled = append(dialled, network+" "+addr)
			mu.Unlock()
			return new(net.Dialer).DialContext(ctx, network, server.Addr())
		},
	}
	locker, node := openCluster(t, o)
	o.Addrs[0], o.Dialer = "changed afterwards", nil
	require.Equal(t, "q0/1.1@Beyond the tunnel", node.Addr())
	lock, err := locker.Lock(within(t), "name")
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, dialled, "tcp Beyond the tunnel")
	require.Contains(t, dialled, "tcp 10.9.9.9:"+port)
}

// The danger: a program cannot give its options to both, since redis.NewClusterClient writes its defaults into them.
func TestOpenCluster_TakesOptionsThatAClientHasToo(t *testing.T) {
	t.Parallel()
	o := &redis.ClusterOptions{Addrs: []string{"S1:06379", "s2:6379"}}
	c := redis.NewClusterClient(o)
	require.NoError(t, c.Close())
	require.NotNil(t, o.NewClient, "go-redis puts its own there")
	for _, o := range []*redis.ClusterOptions{o, c.Options()} {
		nodes, err := goredis.OpenCluster(o, 2, pool.WithRestartGuard(quarantine))
		require.NoError(t, err)
		require.Equal(t, "q1/2.69@s1:6379", nodes[1].Addr())
	}
	nodes, err := goredis.OpenCluster(o, 2, pool.WithRestartGuard(quarantine), pool.WithName(func(i int) string { return fmt.Sprint("node ", i) }))
	require.NoError(t, err)
	require.Equal(t, "node 1", nodes[1].Addr())
}

func TestOpenCluster_RefusesWhatItCannotCarryOverAndNamesIt(t *testing.T) {
	t.Parallel()
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("not to be dialled") }
	for says, change := range map[string]func(*redis.ClusterOptions){
		"Addrs: must have an address":               func(o *redis.ClusterOptions) { o.Addrs = nil },
		"Addrs: address s2: missing port":           func(o *redis.ClusterOptions) { o.Addrs[1] = "s2" },
		"Addrs: address /run/redis.sock: missing":   func(o *redis.ClusterOptions) { o.Addrs[0] = "/run/redis.sock" },
		"Addrs: missing port":                       func(o *redis.ClusterOptions) { o.Addrs[0], o.Dialer = "", dial },
		`address "S1:06379" is given twice`:         func(o *redis.ClusterOptions) { o.Addrs[1] = "S1:06379" },
		"ReadOnly: the nodes of a lock":             func(o *redis.ClusterOptions) { o.ReadOnly = true },
		"RouteByLatency: the nodes of a lock":       func(o *redis.ClusterOptions) { o.RouteByLatency = true },
		"RouteRandomly: the nodes of a lock":        func(o *redis.ClusterOptions) { o.RouteRandomly = true },
		"NewClient: a node has no client":           func(o *redis.ClusterOptions) { o.NewClient = func(*redis.Options) *redis.Client { return nil } },
		"OnConnect: a node has no connection of go": func(o *redis.ClusterOptions) { o.OnConnect = func(context.Context, *redis.Conn) error { return nil } },
		"ClusterSlots: a node asks the servers": func(o *redis.ClusterOptions) {
			o.ClusterSlots = func(context.Context) ([]redis.ClusterSlot, error) { return nil, nil }
		},
		"DialTimeout -1ns": func(o *redis.ClusterOptions) { o.DialTimeout = -1 },
	} {
		o := &redis.ClusterOptions{Addrs: []string{"s1:6379", "s2:6379"}}
		change(o)
		nodes, err := goredis.OpenCluster(o, 3, pool.WithRestartGuard(quarantine))
		require.ErrorIs(t, err, redlock.ErrInvalid)
		require.ErrorContains(t, err, "goredis: options: "+says)
		require.Nil(t, nodes)
	}
	_, err := goredis.OpenCluster(nil, 3)
	require.ErrorIs(t, err, redlock.ErrInvalid)
	require.EqualError(t, err, "goredis: options: nil")
	o := &redis.ClusterOptions{Addrs: []string{"s1:6379"}}
	for _, n := range []int{-1, 0, 17} {
		_, err = goredis.OpenCluster(o, n, pool.WithRestartGuard(quarantine))
		require.ErrorIs(t, err, redlock.ErrInvalid)
		require.EqualError(t, err, fmt.Sprintf("goredis: %d nodes of a cluster: must be from 1 to 16, the same number in all programs", n))
	}
	for name, opt := range map[string]pool.Option{
		"WithDialer": pool.WithDialer(dial), "WithTLSConfig": pool.WithTLSConfig(&tls.Config{}), "WithClientName": pool.WithClientName("x"),
	} {
		_, err = goredis.OpenCluster(o, 3, pool.WithRestartGuard(quarantine), opt)
		require.ErrorContains(t, err, name)
	}
}

// The danger: each failover loses locks that the former master has granted.
func TestOpenCluster_NeedsARestartGuard(t *testing.T) {
	t.Parallel()
	o := &redis.ClusterOptions{Addrs: []string{"s1:6379"}}
	_, err := goredis.OpenCluster(o, 3)
	require.ErrorIs(t, err, redlock.ErrInvalid)
	require.ErrorContains(t, err, "goredis: pool: the servers of node 0 fail over, which may lose locks: WithRestartGuard is needed")
	_, err = goredis.OpenCluster(o, 3, pool.WithRestartGuard(quarantine), pool.WithDurable(func(i int) bool { return i == 1 }))
	require.ErrorContains(t, err, "WithDurable is true for node 1")
}
