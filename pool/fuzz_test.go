package pool_test

import (
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
)

var (
	// redigo allocates whatever length is announced, and wraps numbers that are too long.
	immoderate = regexp.MustCompile(`[$*]0*[0-9]{4,}|:-?[0-9]{19,}`)
	one        = regexp.MustCompile(`^:0*1\r\n`)
	// What yes is to the commands, and what planted is to extend.
	yes = map[string]*regexp.Regexp{
		"acquire": regexp.MustCompile(`^\+OK\r\n`), "release": one, "extend": one, "restore": one, "force": one, "heal": one,
		"publish":              regexp.MustCompile(`^:-?\d+\r\n`),
		"acquire with fencing": regexp.MustCompile(`^:0*[1-9]\d{0,15}\r\n`), "raise": one,
		"release with fencing": one, "extend with fencing": one, "restore with fencing": one,
		"look": regexp.MustCompile(`(?s)^\*0*2\r\n\$\d+\r\n.*\r\n:(-0*1|-?0+|0*\d+)\r\n`),
	}
	planted = regexp.MustCompile(`^:0*2\r\n`)
)

// Whatever a server says in answer to a command: nothing panics, every command ends once, and it ends with yes
// only where yes was said.
func FuzzClassify(f *testing.F) {
	for _, reply := range []string{
		"+OK\r\n", "$-1\r\n", "*-1\r\n", ":1\r\n", ":0\r\n", ":-1\r\n", ":2\r\n", "+PONG\r\n", "+QUEUED\r\n", "$2\r\nOK\r\n",
		"-NOSCRIPT No matching script.\r\n", "-WRONGTYPE x\r\n", "-\r\n", "- \r\n", "*1\r\n:1\r\n", "*2\r\n$1\r\na\r\n*0\r\n",
		"+OK\r\n+OK\r\n", "+OK", "+OK\n", "+OKAY\r\n", "HTTP/1.1 200 OK\r\n\r\n", "\r\n", "", "$5\r\nab\r\n", ":\r\n", ":+1\r\n", "*2\r\n$1\r\na\r\n:5\r\n", "*2\r\n$1\r\na\r\n:-1\r\n", "*2\r\n$1\r\na\r\n:-2\r\n", "*2\r\n$-1\r\n:5\r\n", "%1\r\n+a\r\n+b\r\n", ",1\r\n", "_\r\n", "#t\r\n",
	} {
		f.Add([]byte(reply))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if immoderate.Match(data) {
			t.Skip()
		}
		server := newFake(t, func(c *peer, args []string) string {
			switch args[0] {
			case "INFO", "CLIENT":
				return likeRedis(c, args)
			}
			_, _ = c.Write(data)
			_ = c.Close()
			return ""
		})
		for wire, open := range wires {
			for kind, cmd := range everyKind() {
				t.Run(wire+"/"+kind, func(t *testing.T) {
					node := open(server, t, patient())
					replies := send(node, cmd)
					requireSense(t, kind, data, replies.next(t))
					closeInTime(t, node)
					require.Empty(t, replies, "told twice")
				})
			}
		}
	})
}

// Whatever a server says to several commands at once: nothing panics, each ends once, and with yes only where that was said to it.
func FuzzJoined(f *testing.F) {
	for _, reply := range []string{
		"*4\r\n:5\r\n:5\r\n:1\r\n:1\r\n", "*4\r\n$-1\r\n:5\r\n:0\r\n:-1\r\n", "*4\r\n-WRONGTYPE x\r\n:5\r\n-ERR x\r\n:1\r\n", "*3\r\n:1\r\n:1\r\n:1\r\n",
		"*-1\r\n", "$-1\r\n", ":1\r\n", "-NOSCRIPT x\r\n", "-ERR x\r\n", "+OK\r\n", "*4\r\n:5\r\n:5\r\n", "*4\r\n*1\r\n:5\r\n:5\r\n:1\r\n:1\r\n", "",
	} {
		f.Add([]byte(reply))
	}
	said := regexp.MustCompile(`(?s)^(-|\*0*4\r\n)`) // what is refused together goes out one by one
	f.Fuzz(func(t *testing.T, data []byte) {
		if immoderate.Match(data) {
			t.Skip()
		}
		answer := func(c *peer, args []string) string {
			if joinedOf(args) == 0 {
				return likeRedis(c, args)
			}
			_, _ = c.Write(data)
			_ = c.Close()
			return ""
		}
		for wire, open := range wires {
			t.Run(wire, func(t *testing.T) {
				server := newPatience(t, answer)
				node := open(server.fake, t, patient())
				acquires, releases := several(2)
				for i, reply := range server.together(t, node, append(acquires, releases...)) {
					switch reply.Answer {
					case pool.Yes:
						require.Regexp(t, said, string(data))
						require.Equal(t, i < 2, reply.Number > 0)
					case pool.No:
						require.Regexp(t, said, string(data))
					case pool.Refused:
						require.ErrorAs(t, reply.Err, new(*pool.ServerError))
					default:
						require.Equal(t, pool.Maybe, reply.Answer)
						require.Error(t, reply.Err)
					}
				}
				closeInTime(t, node)
			})
		}
	})
}

// requireSense fails the test unless the reply is one that may be made of what the server said.
func requireSense(t *testing.T, kind string, said []byte, reply pool.Reply) {
	switch reply.Answer {
	case pool.Yes:
		require.Regexp(t, yes[kind], string(said))
		require.NoError(t, reply.Err)
	case pool.Planted:
		require.Contains(t, []string{"extend", "extend with fencing"}, kind)
		require.Regexp(t, planted, string(said))
		require.Equal(t, pool.ErrPlanted, reply.Err)
	case pool.Refused:
		require.Equal(t, byte('-'), said[0], "%q is a refusal", said)
		require.ErrorAs(t, reply.Err, new(*pool.ServerError))
	case pool.No:
		reasons := []error{pool.ErrHeld, pool.ErrAbsent}
		if strings.HasPrefix(kind, "restore") {
			reasons = append(reasons, pool.ErrBroken)
		}
		require.Contains(t, reasons, reply.Err)
	case pool.Maybe:
		require.Error(t, reply.Err)
	default:
		require.Failf(t, "not an answer to a command that was sent", "%v: %v", reply.Answer, reply.Err)
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
