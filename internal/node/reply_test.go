package node_test

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// answered is the reply to a command of what a server has sent.
func answered(t testing.TB, cmd *wire.Command, sent string) wire.Reply {
	t.Helper()
	v, err := wire.NewReader(strings.NewReader(sent), "").Read()
	require.NoError(t, err)
	return cmd.Reply(&v)
}

// noPlaces are not the places of two keys of which some exist.
var noPlaces = slices.Clip([]string{
	"*0\r\n", "*-1\r\n", "*1\r\n:0\r\n", "*1\r\n:-3\r\n", "*1\r\n:-9223372036854775808\r\n", "*2\r\n:-1\r\n:-1\r\n", "*2\r\n:-2\r\n:-1\r\n",
	"*2\r\n:-1\r\n:0\r\n", "*3\r\n:-1\r\n:-2\r\n:-2\r\n", "*2\r\n:-1\r\n:5\r\n", "*2\r\n:5\r\n:-1\r\n", "*1\r\n" + testredis.Bulk("-1"), "*1\r\n*1\r\n:-1\r\n",
	"*1\r\n*-1\r\n", "*1\r\n$-1\r\n", "*2\r\n:-1\r\n-ERR x\r\n", "*1\r\n,-1\r\n", "*1\r\n#t\r\n", "%1\r\n:-1\r\n:-2\r\n",
})

// What cannot be the answer to the command is neither yes nor no.
func TestReply_ThatDoesNotBelongToTheCommandIsUnknown(t *testing.T) {
	for kind, odd := range map[string][]string{
		"acquire": {"+ok\r\n", "+QUEUED\r\n", "+\r\n", ":1\r\n", ":0\r\n", "*0\r\n", "*1\r\n+OK\r\n", testredis.Bulk("OK"), testredis.Bulk("")},
		"release": {
			"+OK\r\n", "+1\r\n", ":2\r\n", ":-4\r\n", "$-1\r\n", "*-1\r\n",
			"*0\r\n", "*1\r\n:1\r\n", "*2\r\n*1\r\n-ERR\r\n+x\r\n", testredis.Bulk("1"),
		},
		"acquire with fencing": {":0\r\n", ":-1\r\n", ":9007199254740992\r\n", "+OK\r\n", testredis.Bulk("5")},
		"acquire all": append(noPlaces,
			"+OK\r\n", ":0\r\n", ":2\r\n", ":-1\r\n", "$-1\r\n", testredis.Bulk("1"), "*1\r\n:1\r\n", "*2\r\n:5\r\n:6\r\n"),
		"acquire all with fencing": append(noPlaces,
			"+OK\r\n", ":0\r\n", ":1\r\n", ":5\r\n", ":-1\r\n", "$-1\r\n", testredis.Bulk("5"), "*1\r\n:5\r\n", "*3\r\n:5\r\n:6\r\n:7\r\n",
			"*2\r\n:5\r\n:0\r\n", "*2\r\n:5\r\n:9007199254740992\r\n", "*2\r\n:5\r\n$-1\r\n", "*2\r\n:5\r\n"+testredis.Bulk("6"), "*2\r\n:5\r\n-ERR x\r\n", "*2\r\n:5\r\n*1\r\n:6\r\n"),
		"observe": {
			":1\r\n", testredis.Bulk("v"), "*0\r\n", "*1\r\n" + testredis.Bulk("v"), "*2\r\n" + testredis.Bulk("v") + ":-2\r\n", "*2\r\n:1\r\n:1\r\n",
			"*2\r\n$-1\r\n:-1\r\n", "*2\r\n$-1\r\n:-2\r\n", "*3\r\n" + testredis.Bulk("v") + ":1\r\n:1\r\n",
		},
	} {
		for _, sent := range odd {
			requireReply(t, quorum.Unknown, nodeerr.ErrProtocol, answered(t, everyKind()[kind], sent))
		}
	}
}

// The last millisecond of a key is not the end of time.
func TestReply_NoTTLOnlyIfTheKeyHasNone(t *testing.T) {
	for left, want := range map[string]time.Duration{":0": 0, ":1": time.Millisecond, ":-1": wire.NoTTL} {
		reply := answered(t, form.Exclusive{}.Observe("key"), "*2\r\n"+testredis.Bulk("v")+left+"\r\n")
		requireReply(t, quorum.Yes, nil, reply)
		require.Equal(t, want, reply.TTL, left)
	}
}

// Nobody knows what comes behind it.
func TestReply_ThatDoesNotBelongToTheCommandEndsTheConnectionAndMakesAShortError(t *testing.T) {
	long := testredis.Bulk(strings.Repeat("x", 100_000))
	for _, open := range transports {
		for _, text := range []string{":1\r\n", long, "*3\r\n" + long + long + long} {
			f := newFake(t, answering("SET", text))
			reply := ask(t, open(f, t, patient()), newAcquire("key", "token", ttl))
			requireReply(t, quorum.Unknown, nodeerr.ErrProtocol, reply)
			require.Less(t, len(reply.Err.Error()), 200)
			require.Eventually(t, func() bool { return f.connections() > 1 }, bound, tick)
		}
	}
}

var (
	// redigo allocates whatever length is announced, and wraps numbers that are too long.
	immoderate = regexp.MustCompile(`[$*]0*[0-9]{4,}|:-?[0-9]{19,}`)
	one        = regexp.MustCompile(`^:0*1\r\n`)
	// What yes is to the commands, and what recreated is to extend.
	yes = map[string]*regexp.Regexp{
		"acquire": regexp.MustCompile(`^\+OK\r\n`), "release": one, "extend": one, "delete": one, "heal": one,
		"publish":              regexp.MustCompile(`^:\+?0*[1-9]\d*\r\n`),
		"acquire with fencing": regexp.MustCompile(`^:0*[1-9]\d{0,15}\r\n`), "raise": one,
		"release with fencing": one, "extend with fencing": one,
		"acquire all": one, "acquire all with fencing": regexp.MustCompile(`^\*0*2\r\n(:0*[1-9]\d{0,15}\r\n){2}`),
		"observe": regexp.MustCompile(`(?s)^\*0*2\r\n[$=]\d+\r\n.*\r\n:(-0*1|-?0+|0*\d+)\r\n`),
	}
	recreated = regexp.MustCompile(`^:0*2\r\n`)
	// What says of two keys that some exist.
	exist = regexp.MustCompile(`^\*0*(1\r\n:-0*[12]|2\r\n:-0*1\r\n:-0*2)\r\n`)
)

// Whatever a server sends in answer to a command: nothing panics, and it ends with yes only if the server sent yes.
func FuzzReply(f *testing.F) {
	for _, reply := range []string{
		"+OK\r\n", "$-1\r\n", "*-1\r\n", ":1\r\n", ":0\r\n", ":-1\r\n", ":2\r\n", "+PONG\r\n", "+QUEUED\r\n", "$2\r\nOK\r\n",
		"-NOSCRIPT No matching script.\r\n", "-WRONGTYPE x\r\n", "-\r\n", "- \r\n", "*1\r\n:1\r\n", "*2\r\n$1\r\na\r\n*0\r\n",
		"+OK\r\n+OK\r\n", "+OK", "+OK\n", "+OKAY\r\n", "HTTP/1.1 200 OK\r\n\r\n", "\r\n", "", "$5\r\nab\r\n", ":\r\n", ":+1\r\n", "*2\r\n$1\r\na\r\n:5\r\n", "*2\r\n$1\r\na\r\n:-1\r\n", "*2\r\n$1\r\na\r\n:-2\r\n", "*2\r\n$-1\r\n:5\r\n", "*1\r\n:-1\r\n", "*1\r\n:-2\r\n", "*2\r\n:-1\r\n:-2\r\n", "*2\r\n:-2\r\n:-2\r\n", "*2\r\n:7\r\n:8\r\n", "*2\r\n:7\r\n:-1\r\n", "*2\r\n:7\r\n", "%1\r\n+a\r\n+b\r\n", ",1\r\n", "_\r\n", "#t\r\n",
	} {
		f.Add([]byte(reply))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for kind, cmd := range everyKind() {
			if v, err := wire.NewReader(bytes.NewReader(data), "").Read(); err == nil {
				requireSense(t, kind, data, cmd.Reply(&v))
			}
		}
	})
}

// Whatever a server sends to several commands at once: nothing panics, each ends once, and with yes only if the server sent yes to it.
func FuzzJoined(f *testing.F) {
	for _, reply := range []string{
		"*4\r\n:5\r\n:5\r\n:1\r\n:1\r\n", "*4\r\n$-1\r\n:5\r\n:0\r\n:-1\r\n", "*4\r\n-WRONGTYPE x\r\n:5\r\n-ERR x\r\n:1\r\n", "*3\r\n:1\r\n:1\r\n:1\r\n",
		"*-1\r\n", "$-1\r\n", ":1\r\n", "-NOSCRIPT x\r\n", "-ERR x\r\n", "+OK\r\n", "*4\r\n:5\r\n:5\r\n", "*4\r\n*1\r\n:5\r\n:5\r\n:1\r\n:1\r\n", "",
	} {
		f.Add([]byte(reply))
	}
	sent := regexp.MustCompile(`(?s)^(-|!|\*0*4\r\n)`) // what is refused together goes out one by one
	f.Fuzz(func(t *testing.T, data []byte) {
		answer := func(c *peer, args []string) string {
			if joinedOf(args) == 0 {
				return likeRedis(c, args)
			}
			_, _ = c.Write(data)
			_ = c.Close()
			return ""
		}
		for transport, open := range transports {
			if transport == "wrapped" && immoderate.Match(data) {
				continue
			}
			t.Run(transport, func(t *testing.T) {
				server := newHeldFake(t, answer)
				n := open(server.fake, t, patient())
				acquires, releases := several(2)
				for i, reply := range server.together(t, n, append(acquires, releases...)) {
					switch reply.Answer {
					case quorum.Yes:
						require.Regexp(t, sent, string(data))
						require.Equal(t, i < 2, reply.Number() > 0)
					case quorum.No:
						if !errors.Is(reply.Err, nodeerr.ErrForeign) {
							require.Regexp(t, sent, string(data))
						}
					case quorum.Refused:
						require.ErrorAs(t, reply.Err, new(*nodeerr.ServerError))
					default:
						require.Equal(t, quorum.Unknown, reply.Answer)
						require.Error(t, reply.Err)
					}
				}
				closeInTime(t, n)
			})
		}
	})
}

// requireSense fails the test unless the reply is one that may be made of what the server sent.
func requireSense(t *testing.T, kind string, sent []byte, reply wire.Reply) {
	requireSenseForEach(t, kind, sent, reply)
	switch reply.Answer {
	case quorum.Yes:
		require.Regexp(t, yes[kind], string(sent))
		require.NoError(t, reply.Err)
	case quorum.Recreated:
		require.Contains(t, []string{"extend", "extend with fencing"}, kind)
		require.Regexp(t, recreated, string(sent))
		require.Equal(t, nodeerr.ErrRecreated, reply.Err)
	case quorum.Refused:
		if kind == "observe" && sent[0] == '*' {
			require.ErrorIs(t, reply.Err, nodeerr.ErrForeign)
			return
		}
		require.Contains(t, "-!", string(sent[:1]), "%q is a refusal", sent)
		require.ErrorAs(t, reply.Err, new(*nodeerr.ServerError))
	case quorum.No:
		if errors.Is(reply.Err, nodeerr.ErrForeign) {
			require.Contains(t, []string{"release", "delete", "extend", "release with fencing", "extend with fencing"}, kind)
			require.Regexp(t, "^[-!].*WRONGTYPE", string(sent))
			return
		}
		require.Contains(t, []error{nodeerr.ErrHeld, nodeerr.ErrAbsent}, reply.Err)
	case quorum.Unknown:
		require.Error(t, reply.Err)
	default:
		require.Failf(t, "not an answer to a command that was sent", "%v: %v", reply.Answer, reply.Err)
	}
}

// requireSenseForEach does the same for what the reply says of each of two keys.
func requireSenseForEach(t *testing.T, kind string, sent []byte, reply wire.Reply) {
	if !strings.HasPrefix(kind, "acquire all") || reply.Answer != quorum.Yes && reply.Answer != quorum.No {
		require.Nil(t, reply.Each)
		return
	}
	require.Len(t, reply.Each, 2)
	require.True(t, reply.Answer == quorum.Yes || exist.Match(sent))
	for i, each := range reply.Each {
		place := regexp.MustCompile(fmt.Sprintf(`:-0*%d\r\n`, i+1))
		require.Equal(t, reply.Answer, each.Answer)
		require.Equal(t, reply.Answer == quorum.Yes && kind != "acquire all", each.Number() > 0)
		switch {
		case reply.Answer == quorum.Yes:
			require.NoError(t, each.Err)
		case place.Match(exist.Find(sent)):
			require.Equal(t, nodeerr.ErrHeld, each.Err)
		default:
			require.Equal(t, form.ErrOthersHeld, each.Err)
		}
	}
}

// The name goes into traces: it is that of what the server was sent, also if it has not answered.
func TestReply_NamesTheCommandThatTheServerWasSent(t *testing.T) {
	var forgets atomic.Bool
	f := newHeldFake(t, func(c *peer, args []string) string {
		switch {
		case args[0] == "SET" && args[1] == "cut":
			_ = c.Close()
			return ""
		case forgets.Load() && args[0] == "EVALSHA":
			return "-NOSCRIPT No matching script.\r\n"
		case joinedOf(args) > 0:
			return allYes(joinedOf(args))
		}
		return likeRedis(c, args)
	})
	n := f.open(t, patient())
	acquires, releases := several(4)
	for _, reply := range f.together(t, n, acquires) {
		require.Equal(t, "EVAL", reply.Command, "the server learns the script that joins them")
	}
	name := func(answer quorum.Answer, name string, cmd *wire.Command) {
		t.Helper()
		reply := ask(t, n, cmd)
		require.Equal(t, answer, reply.Answer)
		require.Equal(t, name, reply.Command)
	}
	name(quorum.Yes, "EVAL", newAcquire("key", "token", ttl)) // the first
	name(quorum.Yes, "SET", newAcquire("key", "token", ttl))
	name(quorum.Yes, "EVAL", newRelease("key", "token", ttl))
	name(quorum.Yes, "EVALSHA", newRelease("key", "token", ttl))
	forgets.Store(true)
	name(quorum.Yes, "EVAL", releases[2]) // sent again with its source
	name(quorum.Unknown, "SET", newAcquire("cut", "token", ttl))
	closeInTime(t, n)
	name(quorum.Unsent, "", newAcquire("key", "token", ttl))
}
