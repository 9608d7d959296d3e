package clientoption_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/adapters/internal/clientoption"
	"github.com/quorumlock/quorumlock/adapters/internal/clustertest"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// openCluster makes a Locker over one node of the options. All of it ends with the test.
func openCluster(t *testing.T, c client) (*redlock.Locker, *pool.Node) {
	t.Helper()
	nodes, err := clientoption.OpenCluster("adapter", c, carried, 1, []pool.Option{pool.WithRestartGuard(quarantine), pool.WithDialTimeout(bound)})
	require.NoError(t, err)
	locker, err := redlock.New(nodes, redlock.TTL(quarantine))
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, locker.Close())
		assert.NoError(t, nodes[0].Close())
	})
	return locker, nodes[0]
}

// announce makes a server call itself by an address.
func announce(t *testing.T, server *testredis.Process, host, port string) {
	t.Helper()
	for name, value := range map[string]string{"cluster-announce-ip": host, "cluster-announce-port": port} {
		_, err := server.Do("CONFIG", "SET", name, value)
		require.NoError(t, err)
	}
}

func TestOpenCluster_TLSIsForAllServers(t *testing.T) {
	t.Parallel()
	server := testredis.Real(t, 1, "--cluster-enabled", "yes")[0]
	clustertest.Join(t, server)
	addr, config := encrypted(t, server.Addr())
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	announce(t, server, host, port)
	locker, node := openCluster(t, client{InitAddress: []string{addr}, TLSConfig: config})
	require.Equal(t, "q0/1.1@"+addr, node.Addr())
	lock(t, locker)
	locker, _ = openCluster(t, client{InitAddress: []string{addr}, TLSConfig: &tls.Config{RootCAs: x509.NewCertPool()}})
	_, err = locker.TryLock(t.Context(), "name")
	require.ErrorAs(t, err, new(*tls.CertificateVerificationError))
}

func TestOpenCluster_TheFunctionThatDialsIsForAllServers(t *testing.T) {
	t.Parallel()
	server := testredis.Real(t, 1, "--cluster-enabled", "yes")[0]
	clustertest.Join(t, server)
	announce(t, server, "10.9.9.9", "7")
	d := &dialler{to: server.Addr()}
	seeds := []string{"Beyond the tunnel"}
	locker, node := openCluster(t, client{InitAddress: seeds, TLSConfig: &tls.Config{}, DialCtxFn: d.dial})
	seeds[0] = "changed afterwards"
	require.Equal(t, "q0/1.1@Beyond the tunnel", node.Addr())
	lock(t, locker)
	require.Contains(t, d.dialled(), "Beyond the tunnel with TLS within 5s")
	require.Contains(t, d.dialled(), "10.9.9.9:7 with TLS within 5s")
}

func TestOpenCluster_RefusesWhatItCannotCarryOverAndNamesIt(t *testing.T) {
	t.Parallel()
	guarded := pool.WithRestartGuard(quarantine)
	for says, change := range map[string]func(*client){
		"options: InitAddress: must have an address":            func(c *client) { c.InitAddress = nil },
		"options: InitAddress: address b: missing port":         func(c *client) { c.InitAddress[1] = "b" },
		"options: InitAddress: missing port":                    func(c *client) { c.InitAddress[1], c.DialCtxFn = "", new(dialler).dial },
		`options: address "A:01" is given twice`:                func(c *client) { c.InitAddress[1] = "A:01" },
		"options: SelectDB: a cluster has no database":          func(c *client) { c.SelectDB = 1 },
		"options: ForceSingleClient: the options are for a":     func(c *client) { c.ForceSingleClient = true },
		"options: Sentinel.MasterSet: the options are for":      func(c *client) { c.Sentinel.MasterSet = "a" },
		"options: ReplicaOnly: the nodes":                       func(c *client) { c.ReplicaOnly = true },
		"options: NewInVersion9: this version of the adapter":   func(c *client) { c.NewInVersion9 = 1 },
		"options: Dialer: Timeout -1ns: must not be below zero": func(c *client) { c.Dialer.Timeout = -1 },
		`pool: WithClientName("a b"): printable ASCII`:          func(c *client) { c.ClientName = "a b" },
	} {
		c := client{InitAddress: []string{"a:1", "b:1"}}
		change(&c)
		nodes, err := clientoption.OpenCluster("adapter", c, carried, 3, []pool.Option{guarded})
		require.ErrorIs(t, err, redlock.ErrInvalid)
		require.ErrorContains(t, err, "adapter: "+says)
		require.Nil(t, nodes)
	}
	c := client{InitAddress: []string{"a:1"}}
	for _, n := range []int{-1, 0, 17} {
		_, err := clientoption.OpenCluster("adapter", c, carried, n, []pool.Option{guarded})
		require.ErrorIs(t, err, redlock.ErrInvalid)
		require.EqualError(t, err, fmt.Sprintf("adapter: %d nodes of a cluster: must be from 1 to 16, the same number in all programs", n))
	}
	_, err := clientoption.OpenCluster("adapter", c, carried, 3, nil)
	require.ErrorIs(t, err, redlock.ErrInvalid)
	require.ErrorContains(t, err, "adapter: pool: the servers of node 0 fail over, which may lose locks: WithRestartGuard is needed")
	_, err = clientoption.OpenCluster("adapter", c, carried, 3, []pool.Option{guarded, pool.WithTLSConfig(&tls.Config{})})
	require.ErrorContains(t, err, "WithTLSConfig")
}
