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
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// answers receives the replies to commands.
type answers chan wire.Reply

func (a answers) Reply(_ wire.Tag, reply wire.Reply) { a <- reply }

// ask puts a command to the node and waits for the reply.
func ask(n *pool.Node) wire.Reply {
	replies := make(answers, 1)
	acquire := new(wire.Command)
	form.Exclusive{}.Acquire(acquire, form.Mark{Key: "key", Token: "token"}, form.Ask{TTL: time.Minute})
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

func TestNode_ConnectsAsItsURLAndOptionsSay(t *testing.T) {
	credentials := pool.WithCredentials(func(context.Context, string) (string, string, error) { return "vault", "secret", nil })
	for url, want := range map[string]struct {
		dialled, greeting string
		more              []pool.Option
	}{
		"redis://host":                        {"tcp host:6379", "HELLO 3, INFO server", nil},
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
				commands := redis.NewConn(server, 0, 0) // a command looks like an array reply
				var greeting []string
				for range strings.Split(want.greeting, ", ") {
					args, err := redis.Strings(commands.Receive())
					require.NoError(t, err)
					greeting = append(greeting, strings.Join(args, " "))
				}
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
