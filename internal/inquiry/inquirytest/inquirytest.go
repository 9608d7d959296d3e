// Package inquirytest has what the tests of finders share.
package inquirytest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Bound is how long a test waits for what has to happen.
const Bound = 30 * time.Second

// At returns how to reach servers. Their hosts are IP addresses: no name server is asked for a name that was made up.
func At(addrs ...string) (servers []node.Server) {
	for _, addr := range addrs {
		servers = append(servers, node.Server{Network: "tcp", Address: addr, Dial: dial})
	}
	return servers
}

func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if host, _, _ := net.SplitHostPort(addr); net.ParseIP(host) == nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
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

// Refuses tests that f does not believe an odd answer. The error names the server that gave it, and is want, where
// "protocol" stands for nodeerr.ErrProtocol.
func Refuses(tb testing.TB, f node.Finder, server, odd, want string) {
	tb.Helper()
	_, err := f.Find(tb.Context())
	require.ErrorContains(tb, err, server+": ", odd)
	if want == "protocol" {
		require.ErrorIs(tb, err, nodeerr.ErrProtocol, odd)
	} else {
		require.ErrorContains(tb, err, want)
	}
}
