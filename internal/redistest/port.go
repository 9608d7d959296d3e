package redistest

import (
	"net"
	"testing"

	"github.com/quorumlock/quorumlock/internal/redisserver"
)

// FreePort returns a port of 127.0.0.1 on which nothing listens, for a server that needs one more than its own,
// such as --tls-port. Another process may take it before the server does.
func FreePort(tb testing.TB) int {
	tb.Helper()
	l, err := redisserver.Listen()
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
