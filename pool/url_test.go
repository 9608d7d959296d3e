package pool_test

import (
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
)

func TestURL_ABadOneIsNamedByItsIndexAndWhatIsWrong(t *testing.T) {
	for url, want := range map[string]string{
		"":                                  "scheme:",
		"localhost":                         "scheme:",
		"localhost:6379":                    "scheme:",
		"127.0.0.1:6379":                    "scheme:",
		"http://host":                       "scheme:",
		"redis:host":                        "scheme:",
		"redis:/host":                       "scheme:",
		"redis://":                          "host:",
		"redis:///1":                        "host:",
		"redis://:6379":                     "host:",
		"redis://:hunter2@":                 "host:",
		"redis://host:x":                    "not a URL",
		"redis://host:0":                    "port:",
		"redis://host:65536":                "port:",
		"redis://host:99999999999999999999": "port:",
		"redis://host/x":                    "database: must",
		"redis://host/-1":                   "database: must",
		"redis://host/1/2":                  "database: must",
		"redis://host/99999999999999999999": "database: must",
		"redis://host?db=x":                 "database: must",
		"redis://host/1?db=1":               "database: given twice",
		"redis://host?db=1&db=2":            "database: given twice",
		"redis://host?timeout=1s":           "parameters: only db",
		"redis://host?db=%zz":               "parameters:",
		"redis://host?db=1;x=2":             "parameters:",
		"redis://host#1":                    "fragment:",
		"redis://]":                         "host:",
		"redis://[::1":                      "not a URL",
		"redis://ho st":                     "an invalid character in the host",
		"redis://host%zz":                   "an invalid escape",
		"redis://host\x7f":                  "not a URL",
		"unix://":                           "socket:",
		"unix://run/redis.sock":             "socket:",
		"unix:run/redis.sock":               "scheme:",
		"redis://user@host":                 "user name without a password",
		"redis://user:@host":                "user name without a password",
		"redis://:hunter2@host:0":           "port:",
		"redis://:hunter2@host:x":           "not a URL",
		"redis://u:hunter2@host/x":          "database: must",
		"redis://u:hunter2@host?a=b":        "parameters: only db",
		"redis://u:hunter2@host#f":          "fragment:",
		"http://u:hunter2@host":             "scheme:",
		"unix://u:hunter2@run/x.sock":       "socket:",
		"valkeys://host:0":                  "port:",
		"valkey://host/x":                   "database: must",
		"valkey://user@host":                "user name without a password",
		"redis://u:x/y@host":                "cannot be separated",
		"unix://u:hunter2@/run/a@b.sock":    "cannot be separated",
	} {
		nodes, err := pool.Open([]string{"redis://a", "redis://b", url})
		requireRejected(t, nodes, err, "URL 2", want)
	}
}

// What package url finds in brackets and colons depends on the version of Go: then the text only names the host.
func TestURL_AHostMustBeANameOrAnAddress(t *testing.T) {
	for host, want := range map[string]string{
		"a:6379,b:6379":            "one server per URL",
		"a,b":                      "one server per URL",
		"a:6379,b":                 "one server per URL",
		"u:hunter2@a,b:6379":       "one server per URL",
		":hunter2@[::1],[::2]":     "one server per URL",
		"user:hunter2,x":           "one server per URL",
		"a:1,redis://b:2":          "one server per URL",
		"*":                        "host: must be",
		"*:6379":                   "host: must be",
		"<host>:6379":              "host: must be",
		"$HOST":                    "host: must be",
		"{{host}}:6379":            "host",
		"a;b":                      "host: must be",
		"a=b":                      "host: must be",
		"'a'":                      "host: must be",
		"a!(b)":                    "host: must be",
		"a&b":                      "host: must be",
		"~":                        "host: must be",
		".":                        "host: must be",
		".a":                       "host: must be",
		"a..b":                     "host: must be",
		"a..":                      "host: must be",
		"2001:db8::1":              "host",
		"[host]":                   "host",
		"[10.0.0.1]":               "host",
		"[::1]x":                   "host",
		"[fe80::1%25]":             "host",
		"[fe80::1%25eth%200]":      "host",
		"[fe80::1%25eth0%0Aerror]": "",
		":hunter2@bücher.example":  "punycode",
		"b%C3%BCcher.example:6379": "punycode",
		"例え":                       "punycode",
		"host:70000":               "port:",
		"host:65536":               "port:",
		"host:0":                   "port:",
		"host:00000":               "port:",
		"host:abc":                 "with a number for the port",
		"host:-1":                  "host",
		"host:6379:":               "host",
	} {
		for _, scheme := range []string{"redis", "rediss", "valkey", "valkeys"} {
			nodes, err := pool.Open([]string{scheme + "://" + host})
			requireRejected(t, nodes, err, "URL 0", want)
		}
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
		"unix://u:x@/hunter2@/run/redis.sock",
		// Without a host.
		"redis://user:hunter2",
		"redis://:hunter2",
		"redis://user:hunter2/0",
		"redis://user:hunter2?db=1",
		"redis://user:1234567hunter2",
		"redis://user:hunter2,x",
		"redis://hunter2,x",
		"redis://hunter2ü",
		"valkey://hunter2@host",
		"valkeys://u:hunter2/x@host",
		"redis:user:hunter2",
		"redis:hunter2",
		"user:hunter2",
		"hunter2",
		"hunter2://",
		// In a place where other tools take it.
		"redis://host/hunter2",
		"redis://host?hunter2",
		"redis://host?hunter2=1",
		"redis://host?password=hunter2",
		"redis://host?db=hunter2",
		"redis://host#hunter2",
		"redis://host:hunter2",
		"redis://[hunter2",
		"redis://[hunter2]",
		"redis://hunter2%",
		"redis://host hunter2",
		"unix://hunter2/run/redis.sock",
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
		"redis://user:a,b@host":                   "host:6379",
		"valkey://host":                           "host:6379",
		"valkeys://u:pw@Host:7000/3":              "host:7000",
		"redis://redis-1.db_net.example.com":      "redis-1.db_net.example.com:6379",
		"redis://redis.example.com.":              "redis.example.com.:6379",
		"redis://xn--bcher-kva.example":           "xn--bcher-kva.example:6379",
		"redis://127.1":                           "127.1:6379",
		"redis://[2001:db8:0::0:1]":               "[2001:db8::1]:6379",
		"redis://[::ffff:10.0.0.1]":               "10.0.0.1:6379",
		"redis://[fe80::1%25Eth0.1]":              "[fe80::1%Eth0.1]:6379",
		"unix:///run/redis.sock":                  "/run/redis.sock",
		"unix:///run/a,b.sock":                    "/run/a,b.sock",
		"unix:///run/redis@1.sock?db=3":           "/run/redis@1.sock",
		"unix://u:pw@/run/redis%401.sock":         "/run/redis@1.sock",
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
		"valkey://a.b.", "valkeys://u:a,b@a_b-c", "redis://a,b", "redis://ü", "redis://[::ffff:1.2.3.4]",
		"redis+sentinel://a,b:1/g/2?sentinel_user=u&sentinel_password=p", "rediss+sentinel://u:p,@[::1],h/g?db=1",
	} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		nodes, err := pool.Open([]string{url}, guarded)
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
		if group, sentinel, watched := strings.Cut(addr, "@"); watched {
			require.Regexp(t, `^[A-Za-z0-9._-]+$`, group)
			addr = sentinel
		}
		host, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		require.Regexp(t, `^[A-Za-z0-9_.:%-]+$`, host)
		name, _, _ := strings.Cut(host, "%")
		require.Equal(t, strings.ToLower(name), name)
		number, err := strconv.ParseUint(port, 10, 16)
		require.NoError(t, err)
		require.NotZero(t, number)
		_, err = pool.Open([]string{url, url}, guarded)
		require.ErrorContains(t, err, "same server")
	})
}

// Wherever a password stands in a URL, escaped or not: no part of it gets into an error, and none into a name if an @ follows it.
func FuzzPasswordInURL(f *testing.F) {
	for _, parts := range [][3]string{
		{"redis://:", "", "@host"}, {"redis://user:a/", "", "@host:1/2"}, {"redis://:123?db=", "#", "@host"}, {"redis://u:%", "%zz", "@h"},
		{"redis://u:x@", "/y", "@h"}, {"redis://u:1/2?", "=1&db", "@h"}, {"rediss://:[", "]", "@host"}, {"unix://u:v: ", "\n", "@/run/redis.sock"},
		{"redis://u:", "@", "@/run/x?db=1"}, {"redis://u:", "", "@h:x"}, {"http://", "", "@h"}, {"unix://:a@/", "", "@/run/x"}, {"", "", ""}, {"", "://h", ""},
		{"redis://user:", "", ""}, {"redis://user:", "/0", ""}, {"redis://h/", "", ""}, {"redis://h?password=", "", ""}, {"redis://h?", "=", ""},
		{"redis://h#", "", ""}, {"redis:", "", ""}, {"unix://", "/x", ""}, {"redis://[", "", ""}, {"redis://h:1", "", ""}, {"unix:///x?db=", "", ""},
		{"redis+sentinel://u:", "", "@h,i/g"}, {"redis+sentinel://h/g?sentinel_password=", "", ""}, {"redis+sentinel://h,", "", "/g"},
	} {
		f.Add(parts[0], parts[1], parts[2], false)
		f.Add(parts[0], parts[1], parts[2], true)
	}
	const secret, escaped = "hunter2", "%68%75%6e%74%65%72%32"
	leak := regexp.MustCompile(`(?i)hun|unt|nter|er2|%?68|%?75|%?6e`)
	f.Fuzz(func(t *testing.T, before, after, rest string, escape bool) {
		if leak.MatchString(before + "\n" + after + "\n" + rest) {
			t.Skip()
		}
		url := before + secret + after + rest
		if escape {
			url = before + escaped + after + rest
		}
		for i, urls := range [][]string{{url}, {"redis://first", url}, {url, "unix:///last"}} {
			nodes, err := pool.Open(urls, guarded)
			if err != nil {
				require.NotRegexp(t, leak, err.Error())
				require.False(t, strings.ContainsFunc(err.Error(), unicode.IsControl), "%q", err)
			} else if i == 0 && strings.HasPrefix(rest, "@") && !strings.HasPrefix(strings.ToLower(before), "unix:///") {
				require.NotContains(t, nodes[0].Addr(), secret)
			}
			for _, n := range nodes {
				require.NoError(t, n.Close())
			}
		}
	})
}
