package goredis_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/adapters/goredis"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// secure starts a server that speaks TLS at the address of the options.
func secure(t *testing.T) (*testredis.Process, *redis.Options) {
	t.Helper()
	process, o, _ := secured(t)
	return process, o
}

// secured does the same, and returns the certificate too.
func secured(t *testing.T) (*testredis.Process, *redis.Options, tls.Certificate) {
	t.Helper()
	cert := testredis.NewCertificate(t, time.Hour, "127.0.0.1")
	stopped := testredis.Mini(t, 1)[0] // whose port nobody else takes
	stopped.Stop()
	_, port, err := net.SplitHostPort(stopped.Addr())
	require.NoError(t, err)
	server := testredis.Real(t, 1, append(cert.Args(), "--tls-port", port)...)[0]
	return server, &redis.Options{Addr: stopped.Addr(), TLSConfig: cert.Trusts()}, cert.Certificate
}

// setUser gives the user locker of a server a password, and nothing else.
func setUser(t *testing.T, server testredis.Server, password string) {
	t.Helper()
	_, err := server.Do("ACL", "SETUSER", "locker", "reset", "on", ">"+password, "~*", "&*", "+@all")
	require.NoError(t, err)
}

// different starts five servers, to each of which a program connects in another way, and with another name.
func different(t *testing.T) (servers []*testredis.Process, options []*redis.Options) {
	t.Helper()
	encrypted, overTLS := secure(t)
	servers = append(testredis.Real(t, 4, "--unixsocket", "redis.sock"), encrypted)
	setUser(t, servers[0], "secret")
	setUser(t, servers[1], "of a provider")
	options = []*redis.Options{
		{Addr: servers[0].Addr(), Username: "locker", Password: "secret", DB: 3, ClientName: "biller-0"},
		{Addr: servers[1].Addr(), ClientName: "biller-1", CredentialsProvider: func() (string, string) { return "locker", "of a provider" }},
		{Addr: "behind the tunnel", ClientName: "biller-2", Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if network != "tcp" || addr != "behind the tunnel" {
				return nil, fmt.Errorf("dialled %s %s", network, addr)
			}
			return new(net.Dialer).DialContext(ctx, "tcp", servers[2].Addr())
		}},
		{Addr: filepath.Join(servers[3].Dir(), "redis.sock"), DB: 1, ClientName: "biller-3"},
		overTLS,
	}
	overTLS.ClientName = "biller-4"
	return servers, options
}

func TestOpen_TheNodesAreWhereGoRedisConnectsTo(t *testing.T) {
	t.Parallel()
	_, options := different(t)
	lock, err := open(t, options...).TryLock(t.Context(), "name")
	require.NoError(t, err)
	for i, o := range options {
		c := client(t, o)
		require.Eventually(t, func() bool { // beyond the majority the answers come later
			token, err := c.Get(t.Context(), "name").Result()
			return err == nil && token == string(lock.Token())
		}, bound, tick, "options %d", i)
		clients, err := c.ClientList(t.Context()).Result()
		require.NoError(t, err)
		require.Equal(t, 2, strings.Count(clients, " name="+o.ClientName+" "), "options %d: the node has the name of the client", i)
	}
}

func TestOpen_ALockIsHeldWhileOneOfTheServersIsDown(t *testing.T) {
	t.Parallel()
	servers, options := different(t)
	locker := open(t, options...)
	require.NoError(t, locker.Do(within(t), "name", func(_ context.Context, lock *redlock.Lock) error {
		servers[0].Stop()
		require.NoError(t, lock.Extend(t.Context(), time.Hour))
		return nil
	}))
	lock, err := locker.Lock(within(t), "another")
	require.NoError(t, err)
	state, err := locker.Inspect(t.Context(), "another")
	require.NoError(t, err)
	require.Equal(t, redlock.VerdictHeld, state.Verdict)
	for i, n := range state.Nodes {
		require.Equal(t, options[i].Addr, n.Addr)
		require.Equal(t, i == 0, n.Err != nil, n.Err)
	}
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestOpen_TakesTheOptionsOfAClientToo(t *testing.T) {
	t.Parallel()
	_, options := secure(t)
	of := client(t, options).Options()
	require.NotNil(t, of.Dialer, "go-redis puts its own there")
	lock, err := open(t, of).TryLock(t.Context(), "name")
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
}

// streamed is a StreamingCredentialsProvider. Whoever unsubscribes gets an error, and the second time there is no function for it.
type streamed struct {
	password func() string

	mu        sync.Mutex
	listeners map[auth.CredentialsListener]int // how often they have subscribed
}

func (s *streamed) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners[l]++
	var unsubscribe auth.UnsubscribeFunc
	if s.listeners[l] == 1 {
		unsubscribe = func() error { return errors.New("nobody listens, so the provider stops") }
	}
	return auth.NewBasicCredentials("locker", s.password()), unsubscribe, nil
}

func TestOpen_AsksTheProviderOfCredentialsForEveryConnection(t *testing.T) {
	t.Parallel()
	for name, with := range map[string]func(t *testing.T, o *redis.Options, password func() string){
		"CredentialsProvider": func(_ *testing.T, o *redis.Options, password func() string) {
			o.CredentialsProvider = func() (string, string) { return "locker", password() }
		},
		"CredentialsProviderContext": func(_ *testing.T, o *redis.Options, password func() string) {
			o.CredentialsProvider = func() (string, string) { return "wrong", "wrong" }
			o.CredentialsProviderContext = func(ctx context.Context) (string, string, error) {
				_, bounded := ctx.Deadline()
				return map[bool]string{true: "locker"}[bounded], password(), nil
			}
		},
		"StreamingCredentialsProvider": func(t *testing.T, o *redis.Options, password func() string) {
			o.CredentialsProviderContext = func(context.Context) (string, string, error) { return "", "", errors.New("wrong") }
			provider := &streamed{password: password, listeners: map[auth.CredentialsListener]int{}}
			o.StreamingCredentialsProvider = provider
			t.Cleanup(func() {
				require.Len(t, provider.listeners, 1, "a node listens once, and stays")
				for _, times := range provider.listeners {
					require.Equal(t, 2, times, "it asks for each connection")
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testredis.Real(t, 1)[0]
			var password atomic.Value
			password.Store("first")
			setUser(t, server, "first")
			o := &redis.Options{Addr: server.Addr(), Username: "wrong", Password: "wrong"}
			with(t, o, func() string { return password.Load().(string) })
			locker := open(t, o)
			lock, err := locker.TryLock(t.Context(), "name")
			require.NoError(t, err)
			who, err := server.Do("CLIENT", "LIST")
			require.NoError(t, err)
			require.Contains(t, string(who.([]byte)), " user=locker ")

			setUser(t, server, "second")
			password.Store("second")
			killed, err := server.Do("CLIENT", "KILL", "USER", "locker")
			require.NoError(t, err)
			require.EqualValues(t, 1, killed)
			require.Eventually(t, func() bool { return lock.Extend(t.Context(), time.Hour) == nil }, bound, tick)
			require.NoError(t, lock.Unlock(t.Context()))
		})
	}
}

func TestOpen_AnErrorOfTheProviderIsTheReasonOfTheNode(t *testing.T) {
	t.Parallel()
	sealed := errors.New("the vault is sealed")
	_, err := open(t, &redis.Options{CredentialsProviderContext: func(context.Context) (string, string, error) {
		return "", "", sealed
	}}).TryLock(t.Context(), "name")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorIs(t, err, sealed)
	require.ErrorContains(t, err, "localhost:6379")
}

// mute is a StreamingCredentialsProvider that returns nothing.
type mute struct{}

func (mute) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	return nil, nil, nil
}

// The danger: a mistake in a function of the program ends the process.
func TestOpen_AFunctionThatReturnsNothingIsTheReasonOfTheNode(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context, string, string) (net.Conn, error) { return nil, nil }
	for _, o := range []*redis.Options{{Dialer: nothing}, {Dialer: nothing, TLSConfig: &tls.Config{}}} {
		_, err := open(t, o).TryLock(t.Context(), "name")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "the dialer returned no connection and no error")
	}
	_, err := openFailover(t, &redis.FailoverOptions{MasterName: "a", SentinelAddrs: []string{"s1:26379"}, Dialer: nothing}).TryLock(t.Context(), "name")
	require.ErrorContains(t, err, "sentinel s1:26379: the dialer returned no connection and no error")
	_, err = open(t, &redis.Options{StreamingCredentialsProvider: mute{}}).TryLock(t.Context(), "name")
	require.ErrorContains(t, err, "StreamingCredentialsProvider returned no credentials and no error")
}

func TestOpen_WithoutAPasswordThereIsNoLoginAsInGoRedis(t *testing.T) {
	t.Parallel()
	server := testredis.Real(t, 1)[0]
	o := &redis.Options{Addr: server.Addr(), Username: "nobody"}
	require.NoError(t, client(t, o).Ping(t.Context()).Err())
	_, err := open(t, o).TryLock(t.Context(), "name")
	require.NoError(t, err)
}

func TestOpen_DialsWhatGoRedisDials(t *testing.T) {
	t.Parallel()
	for _, o := range []redis.Options{
		{}, {Addr: "host:1"}, {Addr: "/run/redis.sock"}, {Network: "tcp6", Addr: "[::1]:7000"}, {Network: "of the tunnel", Addr: "/x"},
		{Addr: "encrypts:1", TLSConfig: &tls.Config{}},
	} {
		dialled := make(chan string, 100)
		o.DialerRetries, o.Dialer = 1, func(_ context.Context, network, addr string) (net.Conn, error) {
			dialled <- network + " " + addr
			return nil, errors.New("no connection")
		}
		nodes, err := goredis.Open([]*redis.Options{&o})
		require.NoError(t, err)
		locker, err := redlock.New(nodes)
		require.NoError(t, err)
		_, err = locker.TryLock(t.Context(), "name")
		require.ErrorContains(t, err, "no connection")
		require.NoError(t, nodes[0].Close())
		ours := <-dialled
		for len(dialled) > 0 {
			<-dialled
		}
		require.ErrorContains(t, client(t, &o).Ping(t.Context()).Err(), "no connection")
		require.Equal(t, <-dialled, ours)
		require.NoError(t, locker.Close())
	}
}

func TestOpen_OptionsChangedAfterwardsChangeNothing(t *testing.T) {
	t.Parallel()
	_, o := secure(t)
	locker := open(t, o)
	o.TLSConfig.RootCAs = x509.NewCertPool()
	o.Addr, o.Dialer = "nowhere", func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("changed") }
	_, err := locker.TryLock(t.Context(), "name")
	require.NoError(t, err)
}

func TestOpen_TheCertificateIsCheckedForTheHostOfAddr(t *testing.T) {
	t.Parallel()
	_, o := secure(t)
	_, port, err := net.SplitHostPort(o.Addr)
	require.NoError(t, err)
	o.Addr = "localhost:" + port // the certificate is for 127.0.0.1
	_, err = open(t, o).TryLock(t.Context(), "name")
	require.ErrorAs(t, err, new(*nodeerr.ConnectError))
	require.ErrorAs(t, err, new(*tls.CertificateVerificationError))
}

// TLS says goodbye when a connection is closed. A server that does not read makes that last five seconds.
func TestOpen_ClosingANodeDoesNotWaitForAServerThatHangs(t *testing.T) {
	t.Parallel()
	cert := testredis.NewCertificate(t, time.Hour, "127.0.0.1").Certificate
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan net.Conn)
		nodes, err := goredis.Open([]*redis.Options{{Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				server := tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{cert}, SessionTicketsDisabled: true})
				_, _ = server.Read(make([]byte, 1<<12)) // the login, which it does not answer
				hung <- theirs
			}()
			c := tls.Client(ours, &tls.Config{InsecureSkipVerify: true})
			return c, c.HandshakeContext(ctx)
		}}}, pool.WithDialTimeout(time.Hour))
		require.NoError(t, err)
		locker, err := redlock.New(nodes)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // of the first attempt to connect, which would be waited for
		defer cancel()
		_, err = locker.TryLock(ctx, "name")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		server := <-hung
		require.NoError(t, locker.Close())
		before := time.Now() // in the time of the bubble
		require.NoError(t, nodes[0].Close())
		require.Less(t, time.Since(before), time.Second)
		require.NoError(t, server.Close())
	})
}

func TestOpen_RefusesWhatItCannotCarryOverAndNamesIt(t *testing.T) {
	t.Parallel()
	good := func(addr string) *redis.Options { return &redis.Options{Addr: addr} }
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("not to be dialled") }
	var ofCluster *redis.Options
	readsReplicas := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"a:1"}, RouteRandomly: true, MaxRedirects: -1, DialerRetries: 1, Dialer: dial,
		NewClient: func(o *redis.Options) *redis.Client {
			ofCluster = o
			return redis.NewClient(o)
		},
	})
	require.ErrorContains(t, readsReplicas.Ping(t.Context()).Err(), "not to be dialled")
	require.NoError(t, readsReplicas.Close())
	ofGroup := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "a", SentinelAddrs: []string{"a:1"}})
	require.NoError(t, ofGroup.Close())
	for name, test := range map[string]struct {
		servers []*redis.Options
		opts    []pool.Option
		says    []string
	}{
		"nothing":      {says: []string{"no options given"}},
		"nil":          {servers: []*redis.Options{good("a:1"), nil}, says: []string{"options 1: nil"}},
		"a hook":       {servers: []*redis.Options{{OnConnect: func(context.Context, *redis.Conn) error { return nil }}}, says: []string{"options 0: OnConnect"}},
		"replicas":     {servers: []*redis.Options{ofCluster}, says: []string{"options 0: readOnly: the nodes of a lock are primaries"}},
		"a group":      {servers: []*redis.Options{good("a:1"), ofGroup.Options()}, says: []string{"options 1: Addr FailoverClient", "OpenFailover"}},
		"a database":   {servers: []*redis.Options{{DB: -2}}, says: []string{"options 0: DB -2"}},
		"a time":       {servers: []*redis.Options{{DialTimeout: -time.Second}}, says: []string{"options 0: DialTimeout -1s"}},
		"a network":    {servers: []*redis.Options{{Network: "udp"}}, says: []string{`options 0: Network "udp"`}},
		"no port":      {servers: []*redis.Options{good("host")}, says: []string{"options 0: Addr: address host: missing port"}},
		"a name":       {servers: []*redis.Options{{ClientName: "a b"}}, says: []string{`"a b"`}},
		"twice":        {servers: []*redis.Options{good("a:1"), good("b:1"), good("A:1")}, says: []string{`options 2: address "A:1" is that of options 0 too`}},
		"the default":  {servers: []*redis.Options{good(""), good("localhost:6379")}, says: []string{"options 1"}},
		"two tunnels":  {servers: []*redis.Options{{Addr: "x", Dialer: dial}, {Addr: "x", Dialer: dial}}, says: []string{"options 1"}},
		"TLS":          {servers: []*redis.Options{good("a:1")}, opts: []pool.Option{pool.WithTLSConfig(&tls.Config{})}, says: []string{"WithTLSConfig"}},
		"a dialer":     {servers: []*redis.Options{good("a:1")}, opts: []pool.Option{pool.WithDialer(dial)}, says: []string{"WithDialer"}},
		"our name":     {servers: []*redis.Options{good("a:1")}, opts: []pool.Option{pool.WithClientName("x")}, says: []string{"WithClientName"}},
		"an option":    {servers: []*redis.Options{good("a:1")}, opts: []pool.Option{pool.WithTimeout(-1)}, says: []string{"WithTimeout(-1ns)"}},
		"a nil option": {servers: []*redis.Options{good("a:1")}, opts: []pool.Option{nil}, says: []string{"nil option"}},
		"credentials": {servers: []*redis.Options{good("a:1")}, opts: []pool.Option{
			pool.WithCredentials(func(context.Context, string) (string, string, error) { return "", "", nil })}, says: []string{"WithCredentials"}},
	} {
		t.Run(name, func(t *testing.T) {
			nodes, err := goredis.Open(test.servers, test.opts...)
			require.ErrorIs(t, err, redlock.ErrInvalid)
			require.Nil(t, nodes)
			for _, part := range test.says {
				require.ErrorContains(t, err, part)
			}
		})
	}
	sockets, err := goredis.Open([]*redis.Options{good("/run/a"), good("/run/A")}, pool.WithName(func(i int) string { return []string{"x", "y"}[i] }))
	require.NoError(t, err, "the names of files differ")
	require.Equal(t, "y", sockets[1].Addr())
}
