package pool_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

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

func TestABadURLIsNamedByItsIndexAndWhatIsWrong(t *testing.T) {
	for url, want := range map[string]string{
		"":                                  `scheme ""`,
		"localhost":                         `scheme ""`,
		"localhost:6379":                    `scheme "localhost"`,
		"127.0.0.1:6379":                    "not a URL",
		"http://host":                       `scheme "http"`,
		"redis:host":                        "must be followed by //",
		"redis://":                          `host ""`,
		"redis:///1":                        `host ""`,
		"redis://:6379":                     `host ""`,
		"redis://:hunter2@":                 `host ""`,
		"redis://host:x":                    "not a URL",
		"redis://host:0":                    `port "0"`,
		"redis://host:65536":                `port "65536"`,
		"redis://host:99999999999999999999": "port",
		"redis://host/x":                    `database "x"`,
		"redis://host/-1":                   `database "-1"`,
		"redis://host/1/2":                  `database "1/2"`,
		"redis://host/99999999999999999999": "database",
		"redis://host?db=x":                 `database "x"`,
		"redis://host/1?db=1":               "database given twice",
		"redis://host?db=1&db=2":            "database given twice",
		"redis://host?timeout=1s":           `parameter "timeout"`,
		"redis://host?db=%zz":               "parameters",
		"redis://host?db=1;x=2":             "parameters",
		"redis://host#1":                    `fragment "1"`,
		"redis://]":                         `host "]"`,
		"redis://[::1":                      "not a URL",
		"redis://ho st":                     "not a URL",
		"redis://host\x7f":                  "not a URL",
		"unix://":                           `socket ""`,
		"unix://run/redis.sock":             `socket "run/redis.sock"`,
		"unix:run/redis.sock":               "must be followed by //",
		"redis://user@host":                 "user name without a password",
		"redis://user:@host":                "user name without a password",
		"redis://:hunter2@host:0":           `port "0"`,
		"redis://:hunter2@host:x":           "not a URL",
		"redis://u:hunter2@host/x":          `database "x"`,
		"redis://u:hunter2@host?a=b":        `parameter "a"`,
		"redis://u:hunter2@host#f":          `fragment "f"`,
		"http://u:hunter2@host":             `scheme "http"`,
		"unix://u:hunter2@run/x.sock":       `socket "run/x.sock"`,
	} {
		nodes, err := pool.Open([]string{"redis://a", "redis://b", url})
		requireRejected(t, nodes, err, "URL 2", want)
	}
}

// Such a password ends where the URL says it does, which is too early.
func TestAPasswordThatIsNotEscapedDoesNotGetIntoAnError(t *testing.T) {
	for _, url := range []string{
		"redis://hunter2@host", // what other tools take for a password
		"redis://:hunter2/x@host",
		"redis://:x/hunter2@host",
		"redis://u:hunter2/x@host:6379",
		"redis://u:hunter2?x@host",
		"redis://u:hunter2#x@host",
		"redis://u:123/hunter2@host",
		"redis://u:123?hunter2@host",
		"redis://u:123?hunter2=1@host",
		"redis://u:123?db=hunter2@host",
		"redis://u:123?db=1&db=hunter2@host",
		"redis://u:123#hunter2@host",
		"redis://u:x@hunter2/y@host",
		"redis://u:x@hunter2:0/y@host",
		"redis://u:hunter2%zz@host",
		"redis://u:%hunter2@host",
		"redis://u:hunter2 x@host",
		"redis://u:hunter2\n@host",
		"redis://u:hunter2[x@host",
		"redis://u:hunter2\x00@host",
		"redis://u:hunter2@[::1",
		"redis:u:hunter2@host",
		"redis:/u:hunter2@host",
		"redis//u:hunter2@host",
		"//u:hunter2@host",
		"u:hunter2@host",
		":hunter2@host",
		"unix://:hunter2/x@/run/redis.sock",
		"unix://:x/hunter2@/run/redis.sock",
	} {
		nodes, err := pool.Open([]string{url})
		requireRejected(t, nodes, err, "URL 0")
		require.NotContains(t, err.Error(), "unter2")
		require.NotContains(t, err.Error(), "%hu")
	}
}

func TestTwoURLsOfOneAddressAreRefused(t *testing.T) {
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

func TestAGoodURLIsAccepted(t *testing.T) {
	for url, addr := range map[string]string{
		"redis://Host":                            "host:6379",
		"redis://host/":                           "host:6379",
		"redis://host:1/0":                        "host:1",
		"redis://host?db=15":                      "host:6379",
		"redis://10.0.0.1:06379":                  "10.0.0.1:6379",
		"redis://[2001:DB8::1]:7000":              "[2001:db8::1]:7000",
		"REDIS://host":                            "host:6379",
		"rediss://host":                           "host:6379",
		"redis://:pw@host":                        "host:6379",
		"redis://user:p%40ss%2Fw%3A%23%3F@host/2": "host:6379",
		"redis://user:p@ss:w@host":                "host:6379",
		"unix:///run/redis.sock":                  "/run/redis.sock",
		"unix:///run/redis@1.sock?db=3":           "/run/redis@1.sock",
		"unix://u:pw@/run/redis@1.sock":           "/run/redis@1.sock",
	} {
		nodes, err := pool.Open([]string{url})
		require.NoError(t, err, url)
		require.Len(t, nodes, 1)
		require.Equal(t, addr, nodes[0].Addr())
		require.NoError(t, nodes[0].Close())
	}
}

func TestNodesAreInTheOrderOfTheirURLs(t *testing.T) {
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

func TestAnEmptyListIsRefused(t *testing.T) {
	nodes, err := pool.Open(nil)
	requireRejected(t, nodes, err, "no URL")
	nodes, err = pool.Wrap(nil)
	requireRejected(t, nodes, err, "no pool")
}

func TestAPoolThatCannotBeWrappedIsNamedByItsIndex(t *testing.T) {
	a, b := &redis.Pool{}, &redis.Pool{}
	nodes, err := pool.Wrap([]*redis.Pool{a, b, nil})
	requireRejected(t, nodes, err, "pool 2 is nil")
	nodes, err = pool.Wrap([]*redis.Pool{a, b, a})
	requireRejected(t, nodes, err, "pool 2 is the same as pool 0")
}

func TestAWrappedPoolIsNamedByItsIndexUnlessItHasAName(t *testing.T) {
	pools := []*redis.Pool{{}, {}}
	nodes, err := pool.Wrap(pools)
	require.NoError(t, err)
	require.Equal(t, "node-0", nodes[0].Addr())
	require.Equal(t, "node-1", nodes[1].Addr())
	nodes, err = pool.Wrap(pools, pool.WithName(func(i int) string { return string(rune('a' + i)) }))
	require.NoError(t, err)
	require.Equal(t, "b", nodes[1].Addr())
}

func TestAnOptionOutOfRangeIsNamedWithItsValue(t *testing.T) {
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

func TestOptionsForOpenAreRefusedByWrap(t *testing.T) {
	for name, option := range map[string]pool.Option{
		"WithTLSConfig":   pool.WithTLSConfig(&tls.Config{}),
		"WithCredentials": password("pw"),
		"WithClientName":  pool.WithClientName("name"),
		"WithDialer":      pool.WithDialer(func(context.Context, string, string) (net.Conn, error) { return nil, nil }),
	} {
		nodes, err := pool.Wrap([]*redis.Pool{{}}, option)
		requireRejected(t, nodes, err, name, "for Open")
	}
}

func TestTheTimeoutOfANodeIsTheOneGiven(t *testing.T) {
	nodes, err := pool.Open([]string{"redis://host"})
	require.NoError(t, err)
	require.Equal(t, 50*time.Millisecond, nodes[0].Timeout())
	nodes, err = pool.Open([]string{"redis://host"}, pool.WithTimeout(time.Second), pool.WithTimeout(time.Minute))
	require.NoError(t, err)
	require.Equal(t, time.Minute, nodes[0].Timeout(), "the last one counts")
}

func TestAnswersAreNamed(t *testing.T) {
	for answer, name := range map[pool.Answer]string{
		pool.Yes: "yes", pool.No: "no", pool.Maybe: "maybe", pool.Refused: "refused", pool.Unsent: "unsent", 0: "Answer(0)", 9: "Answer(9)",
	} {
		require.Equal(t, name, answer.String())
	}
}

func TestATLSConfigurationThatWouldEncryptNothingIsRefused(t *testing.T) {
	nodes, err := pool.Open([]string{"redis://a", "unix:///run/b"}, pool.WithTLSConfig(&tls.Config{}))
	requireRejected(t, nodes, err, "WithTLSConfig", "rediss://")
	nodes, err = pool.Open([]string{"redis://a", "rediss://b"}, pool.WithTLSConfig(&tls.Config{}))
	require.NoError(t, err)
	require.Len(t, nodes, 2)
}
