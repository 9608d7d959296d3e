package pool_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
)

// TLS says goodbye when it closes a connection. To a server that reads no more that takes seconds, which nobody has.
func TestNobodyWaitsForTLSToSayGoodbye(t *testing.T) {
	ca := newAuthority(t)
	cert, err := tls.X509KeyPair(ca.issue(t, "redis.test"))
	require.NoError(t, err)
	for last, answer := range map[string]string{
		"INFO": "",          // the greeting is never answered
		"SET":  "!x\r\n",    // the connection breaks
		"PING": "+PONG\r\n", // the node is closed
	} {
		t.Run("the last that it reads is "+last, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dial := func(context.Context, string, string) (net.Conn, error) {
					ours, theirs := net.Pipe()
					go readUntil(tls.Server(ours, &tls.Config{Certificates: []tls.Certificate{cert}}), last, answer)
					return theirs, nil
				}
				nodes, err := pool.Open([]string{"rediss://redis.test"}, pool.WithDialer(dial),
					pool.WithTLSConfig(&tls.Config{RootCAs: ca.pool(), Time: func() time.Time { return ca.cert.NotBefore }}))
				require.NoError(t, err)
				start := time.Now()
				ask(t, nodes[0], pool.Acquire("key", "token", ttl))
				require.NoError(t, nodes[0].Close())
				require.Less(t, time.Since(start), 2*time.Second)
			})
		})
	}
}

// readUntil serves a connection until a command comes, which has the answer given and is the last that is read.
func readUntil(c net.Conn, last, answer string) {
	commands := redis.NewConn(c, 0, 0)
	for {
		args, err := redis.Strings(commands.Receive())
		if err != nil {
			return
		}
		if args[0] == last {
			_, _ = c.Write([]byte(answer))
			return
		}
		_, _ = c.Write([]byte(likeRedis(&peer{Conn: c, number: 1}, args)))
	}
}
