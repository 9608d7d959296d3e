package pool_test

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
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
	nodes, err = pool.Open([]string{"redis://a", "rediss://b"}, pool.WithTLSConfig(&tls.Config{}))
	require.NoError(t, err)
	require.Len(t, nodes, 2)
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
