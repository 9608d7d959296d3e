// Package inquirytest has what the tests of finders share.
package inquirytest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
)

// Bound is how long a test waits for what has to happen.
const Bound = 30 * time.Second

// At returns how to reach servers.
func At(addrs ...string) (servers []node.Server) {
	for _, addr := range addrs {
		servers = append(servers, node.Server{Network: "tcp", Address: addr, Dial: new(net.Dialer).DialContext})
	}
	return servers
}

// Find returns the address that f finds.
func Find(tb testing.TB, f node.Finder) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), Bound)
	defer cancel()
	address, err := f.Find(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	return address
}
