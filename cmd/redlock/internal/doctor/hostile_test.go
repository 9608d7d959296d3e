package doctor_test

import (
	"cmp"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// pretending starts a server that answers each command with the text that answer returns; "" ends the connection.
func pretending(t testing.TB, answer func(words []string) string) (addr string) {
	t.Helper()
	return testredis.Listen(t, func(c net.Conn) {
		_ = testredis.Answer(c, func(words []string) (reply string, more bool) {
			reply = answer(words)
			return reply, reply != ""
		})
	})
}

func servers(addr string) []*node.Server { return []*node.Server{serverAt(addr)} }

// friendly is what a server answers that means well, in as far as doctor asks.
func friendly(words []string) string {
	switch words[0] {
	case "INFO":
		return testredis.Bulk("redis_version:7.0.0\r\nrun_id:" + strings.Repeat("f", 40) + "\r\nmaster_replid:" + strings.Repeat("e", 40) + "\r\nuptime_in_seconds:100\r\nrole:master\r\nloading:0\r\ncluster_enabled:0\r\nconnected_slaves:0\r\n")
	case "CLIENT":
		return ":7\r\n"
	case "HELLO":
		return "%1\r\n+proto\r\n:3\r\n"
	case "GETRANGE":
		return testredis.Bulk(strings.Repeat("f", 40) + ":" + strings.Repeat("e", 40))
	case "PTTL":
		return ":1000\r\n"
	case "SCAN":
		return "*2\r\n$1\r\n0\r\n*1\r\n" + testredis.Bulk("lock:a")
	}
	return "+OK\r\n"
}

// Each of these comes in the place of the answer to one command, or to all.
func TestExamine_SurvivesAnyAnswer(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"a number":             ":-9223372036854775808\r\n",
		"nothing":              "$-1\r\n",
		"an empty text":        "$0\r\n\r\n",
		"a text":               testredis.Bulk("lock:\x1b[2J"),
		"an error":             "-ERR \x1b[2J\r\n",
		"an empty error":       "- \r\n",
		"no list":              "*-1\r\n",
		"an empty list":        "*0\r\n",
		"a list of nothing":    "*2\r\n$-1\r\n$-1\r\n",
		"lists in a list":      "*2\r\n*1\r\n:1\r\n*1\r\n*0\r\n",
		"a page without end":   "*2\r\n$1\r\n7\r\n*2\r\n" + testredis.Bulk("lock:a") + testredis.Bulk("lock:\x1b[2J"),
		"a time to come":       "*2\r\n$12\r\n999999999999\r\n$6\r\n999999\r\n",
		"no time":              "*2\r\n$30\r\n" + strings.Repeat("9", 30) + "\r\n$1\r\nx\r\n",
		"a key for ever":       "*2\r\n$1\r\nx\r\n:9223372036854775807\r\n",
		"facts of no sense":    testredis.Bulk("run_id:\x1b[2J\r\nredis_version:\xff.9\r\nuptime_in_seconds:99999999999999999999\r\nmaxmemory:-1\r\nused_memory:x\r\nrole\r\n:\r\n"),
		"a text of a gigabyte": "$1073741824\r\nx",
		"a list of millions":   "*1000000000\r\n",
		"a deep list":          strings.Repeat("*1\r\n", 1000),
		"a long line":          "+" + strings.Repeat("x", 1<<20),
		"a text too long":      testredis.Bulk(strings.Repeat("x", 2<<20)),
		"what is no protocol":  "HTTP/1.1 400 Bad Request\r\n\r\n",
		"a push":               ">2\r\n$1\r\nx\r\n$1\r\nx\r\n+OK\r\n",
		"the end":              "",
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, command := range []string{"PING", "INFO", "CLIENT", "CONFIG", "PUBSUB", "HELLO", "TIME", "SET", "EVAL", "SUBSCRIBE", "SCAN", "TYPE", "DEL", "GETRANGE", "PTTL", ""} {
				addr := pretending(t, func(words []string) string {
					if command == "" || words[0] == command {
						return answer
					}
					return friendly(words)
				})
				r := examine(t, servers(addr), doctor.Options{Timeout: time.Second, Samples: 3, RestartGuard: time.Minute, Prepare: true})
				for _, f := range r.Findings {
					require.NotContains(t, f.What+f.Why+f.Fix, "\x1b")
				}
				for _, u := range r.Unexamined {
					require.NotContains(t, u.Needs, "\x1b")
				}
				require.NotContains(t, r.Servers[0].Version+r.Servers[0].RunID, "\x1b")
				require.NotEmpty(t, r.Findings, "one node is too few in any case")
			}
		})
	}
}

func TestExamine_IsNotHeldUpByAServerThatAnswersEachCommandJustInTime(t *testing.T) {
	t.Parallel()
	addr := pretending(t, func(words []string) string {
		<-time.After(500 * time.Millisecond)
		return friendly(words)
	})
	o := doctor.Options{Timeout: time.Second}
	r := finds(t, servers(addr), o, is(doctor.Warning, "count", ""), is(doctor.Fault, "reachable", addr))
	require.Regexp(t, "too slow to be examined: all of it took more than 15s|no answer within 1s", r.Findings[0].What) // that on a busy machine
}

func TestExamine_FindsWhatIsWrongWithAnswers(t *testing.T) {
	t.Parallel()
	var id atomic.Int64
	for name, test := range map[string]struct {
		answer   func(words []string) string // in the place of the friendly one, unless it is ""
		only     []string
		severity doctor.Severity
		check    string
		shows    string
	}{
		"of a proxy that spreads commands": {func(words []string) string {
			if strings.Join(words, " ") == "CLIENT ID" {
				return fmt.Sprintf(":%d\r\n", id.Add(1))
			}
			return ""
		}, []string{"proxy"}, doctor.Fault, "proxy", "CLIENT ID was first 2, then 3"},
		"of a server that loads its data": {func(words []string) string {
			switch words[0] {
			case "INFO":
				return strings.Replace(friendly(words), "loading:0", "loading:1", 1)
			case "AUTH", "HELLO", "CLIENT":
				return ""
			}
			return "-LOADING Redis is loading the dataset in memory\r\n"
		}, []string{"reachable", "state", "lock", "rights-locks"}, doctor.Warning, "state", "loading"},
		"for a reason of its own": {func(words []string) string {
			if testredis.Proven(words)[0] == "SET" {
				return "-ERR of its own\r\n"
			}
			return ""
		}, []string{"reachable", "rights-locks", "commands", "lock"}, doctor.Fault, "lock", "ERR of its own"},
	} {
		t.Run(name, func(t *testing.T) {
			addr := pretending(t, func(words []string) string { return cmp.Or(test.answer(words), friendly(words)) })
			r := finds(t, servers(addr), patient(doctor.Options{Only: test.only}), is(test.severity, test.check, addr))
			require.Contains(t, r.Findings[0].What, test.shows)
		})
	}
}
