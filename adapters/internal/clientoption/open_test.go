package clientoption_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/adapters/internal/clientoption"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// bound is how long a test waits for what has to happen: far above what it takes.
	bound = 20 * time.Second
	tick  = 2 * time.Millisecond
	// quarantine is the restart guard of the tests, which each new primary waits for.
	quarantine = 2 * time.Second
)

// client is what a program says to a client.
type client struct {
	InitAddress                    []string
	Username, Password, ClientName string
	SelectDB                       int
	Dialer                         net.Dialer
	TLSConfig                      *tls.Config
	AuthCredentialsFn              func(net.Addr) (string, string, error)
	DialFn                         func(string, *net.Dialer, *tls.Config) (net.Conn, error)
	DialCtxFn                      func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)
	Sentinel                       clientoption.Sentinel
	Standalone                     struct{ ReplicaAddress []string }

	ReplicaOnly, ShuffleInit bool
	ForceSingleClient        bool
	SendToReplicas           func() bool
	OnInvalidations          func()
	NewInVersion9            int
}

func carried(c *client) clientoption.Option {
	return clientoption.Option{
		InitAddress: c.InitAddress, Username: c.Username, Password: c.Password, ClientName: c.ClientName, SelectDB: c.SelectDB,
		Dialer: c.Dialer, TLSConfig: c.TLSConfig, Credentials: c.AuthCredentialsFn, DialFn: c.DialFn, DialCtxFn: c.DialCtxFn, Sentinel: c.Sentinel,
	}
}

func nodesOf(servers []client, opts ...pool.Option) ([]*pool.Node, error) {
	return clientoption.Open("adapter", servers, carried, opts)
}

// open makes a Locker over nodes of the options. All of it ends with the test.
func open(t *testing.T, servers ...client) *redlock.Locker {
	t.Helper()
	nodes, err := nodesOf(servers, pool.WithDialTimeout(bound), pool.WithTimeout(time.Second), pool.WithRestartGuard(quarantine))
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

// lock takes a lock, which is released, and returns its token.
func lock(t *testing.T, locker *redlock.Locker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	lock, err := locker.Lock(ctx, "name")
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
}

// encrypted returns an address that leads to a server over TLS, and the configuration for it.
func encrypted(t *testing.T, server string) (addr string, config *tls.Config) {
	t.Helper()
	with := httptest.NewTLSServer(nil) // for its certificate
	with.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: with.TLS.Certificates})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer in.Close()
				out, err := new(net.Dialer).DialContext(ctx, "tcp", server)
				if err != nil {
					return
				}
				defer context.AfterFunc(ctx, func() { _, _ = in.Close(), out.Close() })()
				running.Go(func() {
					_, _ = io.Copy(out, in)
					_ = out.Close()
				})
				_, _ = io.Copy(in, out)
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, l.Close())
		running.Wait()
	})
	roots := x509.NewCertPool()
	roots.AddCert(with.Certificate())
	return l.Addr().String(), &tls.Config{RootCAs: roots}
}

// dialler records what is dialled.
type dialler struct {
	to string // where all addresses lead; otherwise "" and each leads to itself

	mu  sync.Mutex
	all []string
}

func (d *dialler) dial(ctx context.Context, address string, with *net.Dialer, config *tls.Config) (net.Conn, error) {
	d.mu.Lock()
	d.all = append(d.all, address+map[bool]string{true: " with TLS"}[config != nil]+" within "+with.Timeout.String())
	d.mu.Unlock()
	return with.DialContext(ctx, "tcp", cmp.Or(d.to, address))
}

func (d *dialler) dialled() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.all, "\n")
}

func TestOpen_TheFunctionThatDialsGetsWhatTheClientWouldGiveIt(t *testing.T) {
	t.Parallel()
	servers := testredis.Real(t, 2)
	first, second := &dialler{}, &dialler{}
	lock(t, open(t, client{
		InitAddress: []string{servers[0].Addr()}, TLSConfig: &tls.Config{}, DialCtxFn: first.dial,
		DialFn: func(string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return nil, errors.New("DialCtxFn comes first")
		},
	}, client{
		InitAddress: []string{servers[1].Addr()}, Dialer: net.Dialer{Timeout: time.Minute},
		DialFn: func(address string, with *net.Dialer, config *tls.Config) (net.Conn, error) {
			return second.dial(t.Context(), address, with, config)
		},
	}))
	require.Contains(t, first.dialled(), servers[0].Addr()+" with TLS within 5s")
	require.Contains(t, second.dialled(), servers[1].Addr()+" within 1m0s")
}

// The danger: a mistake in a function of the program ends the process.
func TestOpen_AFunctionThatReturnsNothingIsTheReasonOfTheNode(t *testing.T) {
	t.Parallel()
	for _, c := range []client{
		{DialFn: func(string, *net.Dialer, *tls.Config) (net.Conn, error) { return nil, nil }},
		{DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return nil, nil }},
	} {
		c.InitAddress = []string{"a:1"}
		_, err := open(t, c).TryLock(t.Context(), "name")
		require.ErrorContains(t, err, "the dialer returned no connection and no error")
		locker, _ := openCluster(t, c)
		_, err = locker.TryLock(t.Context(), "name")
		require.ErrorContains(t, err, "cluster node a:1: the dialer returned no connection and no error")
	}
}

func TestOpen_CredentialsAreAskedForByTheAddress(t *testing.T) {
	t.Parallel()
	server := testredis.Real(t, 1, "--requirepass", "secret")[0]
	_, port, err := net.SplitHostPort(server.Addr())
	require.NoError(t, err)
	for address, want := range map[string]net.Addr{
		server.Addr(): net.TCPAddrFromAddrPort(netip.MustParseAddrPort(server.Addr())), "LocalHost:" + port: nil, "/run/redis.sock": &net.UnixAddr{Name: "/run/redis.sock", Net: "unix"},
	} {
		asked := make(chan net.Addr, 100)
		lock(t, open(t, client{
			InitAddress: []string{address}, Username: "wrong", Password: "wrong",
			AuthCredentialsFn: func(a net.Addr) (string, string, error) {
				asked <- a
				return "", "secret", nil
			},
			DialCtxFn: func(ctx context.Context, _ string, with *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return with.DialContext(ctx, "tcp", server.Addr())
			},
		}))
		if got := <-asked; want != nil {
			require.Equal(t, want, got)
		} else {
			require.Equal(t, "tcp "+address, got.Network()+" "+got.String())
		}
	}
	sealed := errors.New("the vault is sealed")
	_, err = open(t, client{InitAddress: []string{server.Addr()}, AuthCredentialsFn: func(net.Addr) (string, string, error) {
		return "", "", sealed
	}}).TryLock(t.Context(), "name")
	require.ErrorIs(t, err, sealed)
}

func TestOpen_TLSIsForSentinelsOrServersOrBoth(t *testing.T) {
	t.Parallel()
	sentinels := testredis.NewSentinels(t, "a")
	watched, forSentinels := encrypted(t, sentinels.Addrs()[0])
	server, forServer := encrypted(t, testredis.Real(t, 1)[0].Addr())
	group := client{InitAddress: []string{watched}}
	group.Sentinel.MasterSet, group.Sentinel.TLSConfig = "a", forSentinels
	lock(t, open(t, client{InitAddress: []string{server}, TLSConfig: forServer}, group))

	group.TLSConfig, group.Dialer.Timeout = &tls.Config{}, 100*time.Millisecond // for which the server, without TLS, has no answer
	_, err := open(t, group).TryLock(t.Context(), "name")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	group.TLSConfig, group.Sentinel.TLSConfig = nil, &tls.Config{}
	_, err = open(t, group).TryLock(t.Context(), "name")
	require.ErrorAs(t, err, new(*tls.CertificateVerificationError))
}

func TestOpen_TheSentinelsHaveADialerOfTheirOwn(t *testing.T) {
	t.Parallel()
	sentinels := testredis.NewSentinels(t, "a")
	d := &dialler{}
	group := client{InitAddress: sentinels.Addrs()[:1], DialCtxFn: d.dial, Dialer: net.Dialer{Timeout: time.Minute}, ShuffleInit: true}
	group.Sentinel.MasterSet, group.Sentinel.Dialer = "a", net.Dialer{Timeout: time.Hour}
	lock(t, open(t, group))
	require.Contains(t, d.dialled(), sentinels.Addrs()[0]+" within 1h0m0s")
	require.Contains(t, d.dialled(), sentinels.Group("a").Primary().Addr()+" within 1m0s")
}

func TestOpen_RefusesWhatItCannotCarryOverAndNamesIt(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*client){
		"InitAddress: must have":                       func(c *client) { c.InitAddress = nil },
		"InitAddress: has 2 addresses without":         func(c *client) { c.InitAddress = append(c.InitAddress, "c:1") },
		"InitAddress: address b: missing port":         func(c *client) { c.InitAddress = []string{"b"} },
		`address "A:01" is that of options 0 too`:      func(c *client) { c.InitAddress = []string{"A:01"} },
		"SelectDB -1: must":                            func(c *client) { c.SelectDB = -1 },
		"Dialer: Timeout -1ns: must":                   func(c *client) { c.Dialer.Timeout = -1 },
		`WithClientName("a b")`:                        func(c *client) { c.ClientName = "a b" },
		"ReplicaOnly: the nodes":                       func(c *client) { c.ReplicaOnly = true },
		"SendToReplicas: the nodes":                    func(c *client) { c.SendToReplicas = func() bool { return false } },
		"Standalone.ReplicaAddress: the nodes":         func(c *client) { c.Standalone.ReplicaAddress = []string{"c:1"} },
		"OnInvalidations: a node":                      func(c *client) { c.OnInvalidations = func() {} },
		"NewInVersion9: this version of the adapter":   func(c *client) { c.NewInVersion9 = 1 },
		`group "a b": a name`:                          func(c *client) { c.Sentinel.MasterSet = "a b" },
		"servers of node 1 fail over":                  func(c *client) { c.Sentinel.MasterSet = "a" },
		"Sentinel.Username: without Sentinel.Password": func(c *client) { c.Sentinel.MasterSet, c.Sentinel.Username = "a", "u" },
		`Sentinel.ClientName "x": must be ClientName`:  func(c *client) { c.Sentinel.MasterSet, c.Sentinel.ClientName = "a", "x" },
		`sentinel "B:1" is given twice`:                func(c *client) { c.Sentinel.MasterSet, c.InitAddress = "a", []string{"b:1", "B:1"} },
		"AuthCredentialsFn: would also have to log in to": func(c *client) {
			c.Sentinel.MasterSet, c.AuthCredentialsFn = "a", func(net.Addr) (string, string, error) { return "", "", nil }
		},
	} {
		c := client{InitAddress: []string{"b:1"}}
		change(&c)
		nodes, err := nodesOf([]client{{InitAddress: []string{"a:1"}}, c})
		require.ErrorIs(t, err, redlock.ErrInvalid)
		require.ErrorContains(t, err, says)
		require.Nil(t, nodes)
		require.True(t, strings.HasPrefix(err.Error(), "adapter: options 1: ") || strings.HasPrefix(err.Error(), "adapter: pool: "), err)
	}
	_, err := nodesOf(nil)
	require.EqualError(t, err, "adapter: no options given: a lock needs at least one node")
	for name, opt := range map[string]pool.Option{
		"WithDialer": pool.WithDialer(new(net.Dialer).DialContext), "WithTLSConfig": pool.WithTLSConfig(&tls.Config{}), "WithClientName": pool.WithClientName("x"),
	} {
		_, err := nodesOf([]client{{InitAddress: []string{"a:1"}}}, opt)
		require.ErrorContains(t, err, name)
	}
}

func TestOpen_OptionsChangedAfterwardsChangeNothing(t *testing.T) {
	t.Parallel()
	addr, config := encrypted(t, testredis.Real(t, 1)[0].Addr())
	servers := []client{{InitAddress: []string{addr}, TLSConfig: config}}
	locker := open(t, servers...)
	servers[0].InitAddress[0], servers[0].DialFn, config.RootCAs = "nowhere", nil, x509.NewCertPool()
	lock(t, locker)
}
