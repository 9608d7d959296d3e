package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Servers listen below the ports that systems hand to outgoing connections (from 32768 on Linux, from 49152
// elsewhere). A client could otherwise be given the port of a stopped server, which then could not come back.
const (
	firstPort = 10000
	lastPort  = 32767
)

// FreePort returns a port of 127.0.0.1 on which nothing listens, for a server that needs one more than its own,
// such as --tls-port. Another process may take it before the server does.
func FreePort(tb testing.TB) int {
	tb.Helper()
	l, err := listen()
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// listen listens on a random free port of 127.0.0.1.
func listen() (net.Listener, error) {
	var last error
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(lastPort-firstPort+1)))
		if err == nil {
			return l, nil
		}
		last = err
	}
	return nil, fmt.Errorf("redistest: no free port between %d and %d: %w", firstPort, lastPort, last)
}
