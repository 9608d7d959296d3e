package pool_test

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
)

func TestURL_ABadOneIsNamedByItsIndexAndWhatIsWrong(t *testing.T) {
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

// The URL ends such a password too early.
func TestURL_APasswordThatIsNotEscapedDoesNotGetIntoAnError(t *testing.T) {
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

func TestURL_AGoodOneIsAccepted(t *testing.T) {
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

// Whatever a URL looks like: nothing panics, and what is accepted can be dialled.
func FuzzOpen(f *testing.F) {
	for _, url := range []string{
		"redis://host", "redis://host:1/2", "rediss://u:p@[::1]:7000?db=3", "unix:///run/redis.sock?db=1", "unix://u:p@/x", "redis://:p%40@h",
		"redis://h:06379/0", "redis:h", "redis:///", "unix://a/b", "//h", ":", "redis://h#f", "redis://h?db=1&db=1", "redis://[fe80::1%25eth0]", "redis://\x00", "redis://]", "",
	} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		nodes, err := pool.Open([]string{url})
		if err != nil {
			require.Nil(t, nodes)
			require.NotContains(t, err.Error(), "\n")
			return
		}
		defer nodes[0].Close()
		addr := nodes[0].Addr()
		if strings.HasPrefix(addr, "/") {
			return
		}
		host, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		require.NotEmpty(t, host)
		require.Equal(t, strings.ToLower(host), host)
		number, err := strconv.ParseUint(port, 10, 16)
		require.NoError(t, err)
		require.NotZero(t, number)
		_, err = pool.Open([]string{url, url})
		require.ErrorContains(t, err, "same server")
	})
}

// Wherever a password stands in a URL, escaped or not: no part of it gets into an error or a name.
func FuzzPasswordInURL(f *testing.F) {
	for _, parts := range [][4]string{
		{"", "", "", "host"}, {"user", "a/", "", "host:1/2"}, {"", "123?db=", "#", "host"}, {"u", "%", "%zz", "h"}, {"u", "x@", "/y", "h"},
		{"u", "1/2?", "=1&db", "h"}, {"", "[", "]", "h"}, {"u:v", " ", "\n", "/run/redis.sock"}, {"u", "", "@", "/run/x?db=1"}, {"u", "", "", "h:x"},
	} {
		f.Add(parts[0], parts[1], parts[2], parts[3])
	}
	f.Fuzz(func(t *testing.T, user, before, after, rest string) {
		if strings.Contains(user+before+after+"\n"+rest, "hunter2") || strings.ContainsAny(user, "/?#") {
			t.Skip()
		}
		for _, scheme := range []string{"redis", "rediss", "unix", "http"} {
			nodes, err := pool.Open([]string{scheme + "://" + user + ":" + before + "hunter2" + after + "@" + rest})
			if err != nil {
				require.NotContains(t, err.Error(), "hunter2")
				continue
			}
			if scheme != "unix" { // the path of a socket may hold an @: what follows the first @/ is taken for it
				require.NotContains(t, nodes[0].Addr(), "hunter2")
			}
			require.NoError(t, nodes[0].Close())
		}
	})
}
