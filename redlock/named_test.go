package redlock_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// onlyTo dials servers of this machine that are called by this host, and by no other.
func onlyTo(t *testing.T, host string) pool.Option {
	return pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		called, port, err := net.SplitHostPort(address)
		if err != nil || called != host {
			t.Errorf("dials %q, and not %s", address, host)
		}
		if net.ParseIP(host) == nil {
			address = net.JoinHostPort("127.0.0.1", port)
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	})
}

// requireIPv6 skips a test where ::1 cannot be listened on.
func requireIPv6(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("left out: there is no ::1: ", err)
	}
	require.NoError(t, l.Close())
}

// requireLocks has two programs take locks on three nodes, one wake the other, and the same again after a failover.
func requireLocks(t *testing.T, open func() []*pool.Node, failOver func()) {
	t.Helper()
	one, seen := observed(t, open())
	other := lockerOver(t, open(), noPolls)
	for turn := range 2 {
		if turn > 0 {
			failOver()
		}
		held := seen.takeOnAll(t, one, 3)
		waiter := queue(t, t.Context(), other, held.Name())
		eventually(t, func() bool { return redlock.Sees(other, held.Name()) }, "the holder")
		unlock(t, held)
		unlock(t, won(t, waiter))
	}
}

// The danger: CLUSTER SLOTS names a port without TLS, or a name that the certificate does not have.
func TestSlotted_TheServersMayHaveAnyAddressAndTLS(t *testing.T) {
	t.Parallel()
	const name = "redis.test"
	withNames := []string{"--cluster-announce-hostname", name, "--cluster-preferred-endpoint-type", "hostname"}
	onIPv6 := []string{"--bind", "127.0.0.1", "::1", "--cluster-announce-ip", "::1"}
	inParallel(t, map[string]struct {
		host string
		tls  bool
		args []string
	}{
		"TLS":                {"127.0.0.1", true, nil},
		"TLS and host names": {name, true, withNames},
		"host names":         {name, false, withNames},
		"IPv6":               {"::1", false, onIPv6},
		"TLS and IPv6":       {"::1", true, onIPv6},
	}, func(t *testing.T, row struct {
		host string
		tls  bool
		args []string
	}) {
		if row.host == "::1" {
			requireIPv6(t)
		}
		if row.host == name && testredis.IsOld(t, testredis.Real(t, 1)[0]) {
			t.Skip("Redis 6.2 announces no host names")
		}
		args, opts := row.args, []pool.Option{onlyTo(t, row.host)}
		if row.tls {
			cert := testredis.NewCertificate(t, time.Hour, row.host)
			args = append(append(cert.Args(), "--tls-cluster", "yes", "--tls-replication", "yes"), args...)
			opts = append(opts, pool.WithTLSConfig(cert.Trusts()))
		}
		s := newSlotted(t, 0, args...)
		host := row.host
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		url := strings.ReplaceAll(s.URL(3), "127.0.0.1", host)
		requireLocks(t, func() []*pool.Node { return openGuarded(t, []string{url}, 0, opts...) }, func() { s.FailOver(s.slot(1)) })
	})
}

func TestGroup_TheServersMayHaveIPv6Addresses(t *testing.T) {
	t.Parallel()
	requireIPv6(t)
	s := testredis.SentinelSetup{IPv6: true}.New(t, groupNames...)
	var urls []string
	for _, name := range groupNames {
		urls = append(urls, strings.ReplaceAll(s.URL(name), "127.0.0.1", "[::1]"))
	}
	requireLocks(t, func() []*pool.Node { return openGuarded(t, urls, 0, onlyTo(t, "::1")) }, s.Group("b").FailOver)
}
