package pool_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// requireRejected fails the test unless the error says all that it should and nothing that it must not.
func requireRejected(t testing.TB, nodes []*pool.Node, err error, want ...string) {
	t.Helper()
	require.Error(t, err)
	require.Nil(t, nodes)
	require.True(t, strings.HasPrefix(err.Error(), "pool: "), err)
	for _, part := range want {
		require.ErrorContains(t, err, part)
	}
	require.NotContains(t, err.Error(), "hunter2")
	require.NotContains(t, err.Error(), "\n")
}

func TestOpen_RefusesTwoURLsOfOneAddress(t *testing.T) {
	for first, second := range map[string]string{
		"redis://host":            "redis://host",
		"redis://a.example":       "redis://A.Example:6379",
		"redis://b":               "redis://b:06379",
		"redis://c/1":             "redis://c/2",
		"redis://u:hunter2@d":     "redis://:hunter2@d",
		"redis://e:1":             "rediss://e:1",
		"redis://f:6379":          "valkey://f",
		"valkey://g":              "rediss://g",
		"valkeys://h":             "redis://h",
		"redis://i.example.":      "valkey://i.example:6379",
		"redis://[2001:db8::1]":   "redis://[2001:db8:0:0::1]",
		"redis://10.0.0.1":        "redis://[::ffff:10.0.0.1]",
		"redis://[::1]":           "redis://[::1]:6379",
		"unix:///run/a.sock":      "unix:///run/a.sock?db=1",
		"unix://:hunter2@/b.sock": "unix:///b.sock",
	} {
		nodes, err := pool.Open([]string{"redis://other", first, "redis://another", second})
		requireRejected(t, nodes, err, "URL 3 names the same server as URL 1")
	}
}

func TestOpen_NodesAreInTheOrderOfTheirURLs(t *testing.T) {
	nodes, err := pool.Open([]string{"redis://c", "redis://a", "redis://b"})
	require.NoError(t, err)
	for i, addr := range []string{"c:6379", "a:6379", "b:6379"} {
		require.Equal(t, addr, nodes[i].Addr())
	}
	nodes, err = pool.Open([]string{"redis://c", "redis://a"}, pool.WithName(func(i int) string { return []string{"first", "second"}[i] }))
	require.NoError(t, err)
	require.Equal(t, "first", nodes[0].Addr())
	require.Equal(t, "second", nodes[1].Addr())
}

func TestOpen_AndWrapRefuseAnEmptyList(t *testing.T) {
	nodes, err := pool.Open(nil)
	requireRejected(t, nodes, err, "no URL")
	nodes, err = pool.Wrap(nil)
	requireRejected(t, nodes, err, "no pool")
}

func TestOpen_RefusesATLSConfigurationThatWouldEncryptNothing(t *testing.T) {
	nodes, err := pool.Open([]string{"redis://a", "unix:///run/b"}, pool.WithTLSConfig(&tls.Config{}))
	requireRejected(t, nodes, err, "WithTLSConfig", "rediss://")
	requireRejected(t, nodes, err, "valkeys://")
	for _, encrypted := range []string{"rediss://b", "valkeys://b"} {
		nodes, err = pool.Open([]string{"redis://a", "valkey://c", encrypted}, pool.WithTLSConfig(&tls.Config{}))
		require.NoError(t, err)
		require.Len(t, nodes, 3)
	}
}

func TestWrap_APoolThatCannotBeWrappedIsNamedByItsIndex(t *testing.T) {
	a, b := &redis.Pool{}, &redis.Pool{}
	nodes, err := pool.Wrap([]*redis.Pool{a, b, nil})
	requireRejected(t, nodes, err, "pool 2 is nil")
	nodes, err = pool.Wrap([]*redis.Pool{a, b, a})
	requireRejected(t, nodes, err, "pool 2 is the same as pool 0")
}

func TestWrap_ANodeIsNamedByItsIndexUnlessItHasAName(t *testing.T) {
	pools := []*redis.Pool{{}, {}}
	nodes, err := pool.Wrap(pools)
	require.NoError(t, err)
	require.Equal(t, "node-0", nodes[0].Addr())
	require.Equal(t, "node-1", nodes[1].Addr())
	nodes, err = pool.Wrap(pools, pool.WithName(func(i int) string { return string(rune('a' + i)) }))
	require.NoError(t, err)
	require.Equal(t, "b", nodes[1].Addr())
}

// answers receives the replies to commands.
type answers chan wire.Reply

func (a answers) Reply(_ wire.Tag, reply *wire.Reply) { a <- *reply }

// ask puts a command to the node and waits for the reply.
func ask(n *pool.Node) wire.Reply {
	replies := make(answers, 1)
	acquire := new(wire.Command)
	form.Exclusive{}.Acquire(acquire, form.ID{Key: "key", Token: "token"}, form.Ask{TTL: time.Minute})
	if err := (*node.Node)(n).Send(time.Now(), acquire, replies, wire.Tag{}); err != nil {
		return wire.Reply{Err: err}
	}
	return <-replies
}

// accept returns a dialer and where the server's ends of its connections come, with the network and address dialled.
func accept() (pool.Option, chan net.Conn, *string) {
	conns, dialled := make(chan net.Conn, 1), new(string)
	return pool.WithDialer(func(_ context.Context, network, address string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		*dialled = network + " " + address
		conns <- ours
		return theirs, nil
	}), conns, dialled
}

// The danger: a mistake in a function of the program ends the process.
func TestNode_ADialerThatReturnsNothingIsTheReasonOfTheNode(t *testing.T) {
	nothing := pool.WithDialer(func(context.Context, string, string) (net.Conn, error) { return nil, nil })
	for _, url := range []string{"redis://host", "rediss://host", "redis+sentinel://host/group", "rediss+cluster://host/?nodes=1"} {
		nodes, err := pool.Open([]string{url}, nothing, guarded)
		require.NoError(t, err)
		require.ErrorContains(t, ask(nodes[0]).Err, "the dialer returned no connection and no error", url)
		require.NoError(t, nodes[0].Close())
	}
}

func TestNode_ConnectsAsItsURLAndOptionsSay(t *testing.T) {
	credentials := pool.WithCredentials(func(context.Context, string) (string, string, error) { return "vault", "secret", nil })
	for url, want := range map[string]struct {
		dialled, greeting string
		more              []pool.Option
	}{
		"redis://host":                        {"tcp host:6379", "HELLO 3, INFO server, INFO replication", nil},
		"redis://:p%40s%2Fs@host:7000":        {"tcp host:7000", "AUTH p@s/s, HELLO 3", nil},
		"redis://user:pw@[::1]/2":             {"tcp [::1]:6379", "AUTH user pw, HELLO 3, SELECT 2", nil},
		"unix://user:pw@/run/redis.sock?db=3": {"unix /run/redis.sock", "AUTH user pw, HELLO 3, SELECT 3", nil},
		"redis://nobody:nothing@credentials":  {"tcp credentials:6379", "AUTH vault secret, HELLO 3", []pool.Option{credentials}},
		"redis://named?db=4":                  {"tcp named:6379", "HELLO 3, CLIENT SETNAME me, SELECT 4", []pool.Option{pool.WithClientName("me")}},
	} {
		t.Run(url, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dialer, conns, dialled := accept()
				nodes, err := pool.Open([]string{url}, append(want.more, dialer)...)
				require.NoError(t, err)
				replied := make(chan wire.Reply)
				go func() { replied <- ask(nodes[0]) }()
				server := <-conns
				var greeting []string
				require.NoError(t, testredis.Answer(server, func(words []string) (reply string, more bool) {
					greeting = append(greeting, strings.Join(words, " "))
					return "", len(greeting) < strings.Count(want.greeting, ", ")+1
				}))
				require.Equal(t, want.greeting, strings.Join(greeting, ", "))
				require.Equal(t, want.dialled, *dialled)
				require.NoError(t, server.Close())
				require.Equal(t, quorum.Unsent, (<-replied).Answer)
				go func() { // whoever connects again
					for c := range conns {
						_ = c.Close()
					}
				}()
				require.NoError(t, nodes[0].Close())
				close(conns)
			})
		})
	}
}

// serverName returns whom a node asks for in its TLS handshake.
func serverName(t *testing.T, nodes []*pool.Node, conns chan net.Conn) (name string) {
	go ask(nodes[0])
	_ = tls.Server(<-conns, &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		name = hello.ServerName
		return nil, nil
	}}).Handshake()
	go func() {
		for c := range conns {
			_ = c.Close()
		}
	}()
	require.NoError(t, nodes[0].Close())
	close(conns)
	return name
}

func TestNode_TheServerNameOfTLSIsThatOfTheURLUnlessGiven(t *testing.T) {
	for want, opts := range map[string][]pool.Option{
		"host.example":  nil,
		"other.example": {pool.WithTLSConfig(&tls.Config{ServerName: "other.example"})},
	} {
		synctest.Test(t, func(t *testing.T) {
			dialer, conns, _ := accept()
			nodes, err := pool.Open([]string{"rediss://host.example"}, append(opts, dialer)...)
			require.NoError(t, err)
			require.Equal(t, want, serverName(t, nodes, conns))
		})
	}
}

func TestNode_ATLSConfigurationChangedAfterwardsChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialer, conns, _ := accept()
		config := &tls.Config{ServerName: "before"}
		nodes, err := pool.Open([]string{"rediss://host.example"}, dialer, pool.WithTLSConfig(config))
		require.NoError(t, err)
		config.ServerName = "after"
		require.Equal(t, "before", serverName(t, nodes, conns))
	})
}

func TestNode_AfterCloseFailsWithErrClosed(t *testing.T) {
	dialer, conns, _ := accept()
	nodes, err := pool.Open([]string{"redis://host"}, dialer)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, nodes[0].Close())
		require.ErrorIs(t, ask(nodes[0]).Err, nodeerr.ErrClosed)
	}
	require.Empty(t, conns)
}
