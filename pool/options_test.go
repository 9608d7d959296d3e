package pool_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/pool"
)

func TestOption_OutOfRangeIsNamedWithItsValue(t *testing.T) {
	for want, option := range map[string]pool.Option{
		"nil option":               nil,
		"WithTimeout(0s)":          pool.WithTimeout(0),
		"WithTimeout(-1ms)":        pool.WithTimeout(-time.Millisecond),
		"WithDialTimeout(0s)":      pool.WithDialTimeout(0),
		"WithDialTimeout(-1s)":     pool.WithDialTimeout(-time.Second),
		"WithMaxOverdue(0s)":       pool.WithMaxOverdue(0),
		"WithMaxOverdue(-1h0m0s)":  pool.WithMaxOverdue(-time.Hour),
		"WithTLSConfig(nil)":       pool.WithTLSConfig(nil),
		"WithCredentials(nil)":     pool.WithCredentials(nil),
		"WithDialer(nil)":          pool.WithDialer(nil),
		"WithName(nil)":            pool.WithName(nil),
		`WithClientName("")`:       pool.WithClientName(""),
		`WithClientName("a b")`:    pool.WithClientName("a b"),
		`WithClientName("a\nb")`:   pool.WithClientName("a\nb"),
		`WithClientName("é")`:      pool.WithClientName("é"),
		`WithClientName("a\x7fb")`: pool.WithClientName("a\x7fb"),
	} {
		nodes, err := pool.Open([]string{"redis://host"}, pool.WithTimeout(time.Second), option)
		requireRejected(t, nodes, err, want)
		nodes, err = pool.Wrap([]*redis.Pool{{}}, option)
		requireRejected(t, nodes, err)
	}
}

func TestOption_ThoseForOpenAreRefusedByWrap(t *testing.T) {
	for name, option := range map[string]pool.Option{
		"WithTLSConfig":   pool.WithTLSConfig(&tls.Config{}),
		"WithCredentials": pool.WithCredentials(func(context.Context, string) (string, string, error) { return "", "pw", nil }),
		"WithClientName":  pool.WithClientName("name"),
		"WithDialer":      pool.WithDialer(func(context.Context, string, string) (net.Conn, error) { return nil, nil }),
	} {
		nodes, err := pool.Wrap([]*redis.Pool{{}}, option)
		requireRejected(t, nodes, err, name, "for Open")
	}
}

func TestOption_TheLastTimeoutCounts(t *testing.T) {
	nodes, err := pool.Open([]string{"redis://host"})
	require.NoError(t, err)
	require.Equal(t, 300*time.Millisecond, (*node.Node)(nodes[0]).Config().Timeout)
	nodes, err = pool.Open([]string{"redis://host"}, pool.WithTimeout(time.Second), pool.WithTimeout(time.Minute))
	require.NoError(t, err)
	require.Equal(t, time.Minute, (*node.Node)(nodes[0]).Config().Timeout, "the last one counts")
}

func TestOption_DurableNodesAreExemptFromTheGuard(t *testing.T) {
	nodes, err := pool.Open([]string{"redis://a", "redis://b"}, pool.WithRestartGuard(time.Hour),
		pool.WithDurable(func(i int) bool { return i == 1 }))
	require.NoError(t, err)
	require.Equal(t, time.Hour, (*node.Node)(nodes[0]).Config().MaxTTL)
	require.Zero(t, (*node.Node)(nodes[1]).Config().MaxTTL)
}

func TestOption_OfTheGuardOutOfRange(t *testing.T) {
	for text, opts := range map[string][]pool.Option{
		"WithRestartGuard(0s)":             {pool.WithRestartGuard(0)},
		"WithRestartGuard(-1s)":            {pool.WithRestartGuard(-time.Second)},
		"WithRestartGuard(999µs)":          {pool.WithRestartGuard(time.Millisecond - time.Microsecond)},
		"WithRestartGuard(336h0m0.001s)":   {pool.WithRestartGuard(14*24*time.Hour + time.Millisecond)},
		"WithDurable(nil)":                 {pool.WithRestartGuard(time.Second), pool.WithDurable(nil)},
		"WithDurable without WithRestartG": {pool.WithDurable(func(int) bool { return true })},
	} {
		_, err := pool.Open([]string{"redis://host"}, opts...)
		require.ErrorContains(t, err, text)
	}
}
