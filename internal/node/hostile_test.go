package node_test

import (
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// hostile is a way in which a server may misbehave.
type hostile struct {
	attack func(c net.Conn) // returns when the client has had enough, or when the server has
	// broken means that what comes is against the protocol wherever it comes, so that the reason is nodeerr.ErrProtocol.
	broken bool
	// whole means that it may be an answer to a command: only what comes behind it is against the protocol.
	whole bool
}

// writes sends a text, and repeats another behind it until the connection is closed.
func writes(text, then string) func(net.Conn) {
	chunk := []byte(strings.Repeat(then, 1+4096/len(then)))
	return func(c net.Conn) {
		_, err := io.WriteString(c, text)
		for err == nil {
			_, err = c.Write(chunk)
		}
	}
}

// drain waits until the client closes the connection.
func drain(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// attacks are what a server may send, beside what tests of package wire read.
var attacks = map[string]hostile{
	"announces an array of 10^11":     {attack: writes("*99999999999\r\n", "x"), broken: true},
	"announces a text of 10^14 bytes": {attack: writes("$99999999999999\r\n", "x"), broken: true},
	"nests arrays for ever":           {attack: writes("", "*1\r\n"), broken: true},
	"sends small arrays in arrays":    {attack: writes("*16384\r\n", "*1000\r\n"), broken: true},
	"sends texts up to the bound":     {attack: writes("*16384\r\n", testredis.Bulk(strings.Repeat("x", 1000))), broken: true},
	"sends a line without an end":     {attack: writes("", "+x"), broken: true},
	"sends an error without an end":   {attack: writes("-ERR ", "x"), broken: true},
	"sends another protocol":          {attack: writes("", "HTTP/1.1 400 Bad Request\r\n\r\n"), broken: true},
	"sends small arrays for ever":     {attack: writes("", "*2\r\n:1\r\n:1\r\n"), whole: true},
	"sends OK for ever":               {attack: writes("", "+OK\r\n"), whole: true},
	"sends null for ever":             {attack: writes("", "_\r\n"), whole: true},
	"refuses for ever":                {attack: writes("", "-ERR no\r\n"), whole: true},
	"pushes invalidations for ever":   {attack: writes("", invalidation("key")), broken: true},
	"pushes that all was flushed":     {attack: writes("", ">2\r\n"+testredis.Bulk("invalidate")+"_\r\n"), broken: true},
	"pushes messages for ever":        {attack: writes("", push("message", "channel")+testredis.Bulk("text")), broken: true},
	"pushes subscriptions for ever":   {attack: writes("", push("subscribe", "channel")+":1\r\n"), broken: true},
	"pushes pongs for ever":           {attack: writes("", ">2\r\n"+testredis.Bulk("pong")+testredis.Bulk("")), broken: true},
	"pushes nothing for ever":         {attack: writes("", ">0\r\n"), broken: true},
	"is silent":                       {attack: drain},
	"sends one byte now and then": {attack: func(c net.Conn) {
		go drain(c)
		for range 100 {
			pass(10 * time.Millisecond) // a second, to a node with timeouts a hundred times as long
			if _, err := io.WriteString(c, "+"); err != nil {
				return
			}
		}
	}},
	"closes at once": {attack: func(net.Conn) {}},
}

// allocated returns how many bytes were allocated while f ran.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// stages are when an attack begins: on commands of a name, and behind an answer if there is one.
var stages = map[string]struct{ command, answer string }{
	"before the greeting": {}, "during the greeting": {"INFO", ""},
	"as an answer": {"SET", ""}, "unasked after an answer": {"SET", "+OK\r\n"},
}

// strike reads whatever still comes while the attack goes on, and hangs up after it.
func strike(c *peer, answer string, attack func(net.Conn)) string {
	if answer != "" {
		_, _ = io.WriteString(c, answer)
	}
	attack(c)
	_ = c.Close()
	return ""
}

// Whatever a server does, and when: the process lives, memory stays flat, commands end with an error, the node does not
// connect again and again without a pause, and it works when the server is good again.
func TestHostile_ServersAreSurvived(t *testing.T) {
	for stage, when := range stages {
		for name, h := range attacks {
			bubble(t, stage+"/"+name, func(t *testing.T) {
				var good atomic.Bool
				f := newFake(t, func(c *peer, args []string) string {
					if good.Load() || !strings.HasPrefix(args[0], when.command) {
						return likeRedis(c, args)
					}
					return strike(c, when.answer, h.attack)
				})
				wait := 25 * time.Millisecond
				if h.broken { // which ends it, sooner or later
					wait = bound
				}
				n := f.open(t, withTimeout(wait), withDialTimeout(wait), withMaxOverdue(wait))
				runtime.GC()
				var asked, yes, protocol int
				grown := allocated(func() {
					for ; f.connections() <= 2 || asked <= 2; asked++ {
						reply := ask(t, n, newAcquire("key", "token", ttl))
						if reply.Answer == quorum.Yes {
							yes++
						} else if errors.Is(reply.Err, nodeerr.ErrProtocol) {
							protocol++
						}
						pass(time.Millisecond)
					}
				})
				require.Less(t, grown, uint64(64<<20))
				// There is a pause after each connection that was of no use.
				require.LessOrEqual(t, f.connections(), 6+yes)
				if stage != "unasked after an answer" && (stage != "as an answer" || !h.whole) {
					require.Zero(t, yes)
				}
				if h.broken && stage != "unasked after an answer" {
					require.Positive(t, protocol)
				}
				good.Store(true)
				require.Eventually(t, func() bool {
					return ask(t, n, newAcquire("key", "token", ttl)).Answer == quorum.Yes
				}, bound, tick)
			})
		}
	}
}

// What has no end before a command is sent ends the connection too: nobody has asked.
func TestHostile_StreamsOnAnIdleConnectionEndIt(t *testing.T) {
	for name, h := range attacks {
		if !h.broken && !h.whole {
			continue
		}
		t.Run(name, func(t *testing.T) {
			f := newFake(t, nil)
			n := f.open(t, patient())
			requireYes(t, n, newAcquire("key", "token", ttl))
			require.Less(t, allocated(func() {
				h.attack(f.peer(1)) // returns, since the node hangs up
				require.Eventually(t, func() bool { return f.connections() > 1 }, bound, tick)
			}), uint64(64<<20))
			requireYes(t, n, newAcquire("key", "token", ttl))
			require.Equal(t, 2, f.connections())
		})
	}
}

// While the node tracks, invalidations are what it has asked for, but nothing else is.
func TestHostile_PushesThatWereNotAskedForEndAConnectionThatTracks(t *testing.T) {
	for name, text := range map[string]string{
		"a message on another channel":      push("message", "other") + testredis.Bulk("text"),
		"a pattern's message":               ">4\r\n" + testredis.Bulk("pmessage") + testredis.Bulk("*") + testredis.Bulk("channel") + testredis.Bulk("text"),
		"a subscription":                    push("subscribe", "channel") + ":1\r\n",
		"a pong":                            ">2\r\n" + testredis.Bulk("pong") + testredis.Bulk(""),
		"an invalidation of no keys at all": ">1\r\n" + testredis.Bulk("invalidate"),
		"an invalidation of a number":       ">2\r\n" + testredis.Bulk("invalidate") + ":1\r\n",
		"a message without a text":          ">2\r\n" + testredis.Bulk("message") + testredis.Bulk("channel"),
		"a push of a kind unknown":          ">2\r\n" + testredis.Bulk("monitor") + testredis.Bulk("channel"),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, nil)
			n := f.open(t, patient())
			l := listen(n, "channel")
			require.Equal(t, "0 active", l.next(t))
			require.Eventually(t, func() bool { return f.count("SUBSCRIBE") == 1 }, bound, tick)
			requireYes(t, n, newAcquire("key", "token", ttl))
			require.Equal(t, "0 invalidated key", l.next(t), "by the node itself")
			f.send(t, 1, text)
			require.Equal(t, "0 lost", l.next(t))
			require.Equal(t, "0 active", l.next(t))
			require.Empty(t, l)
		})
	}
}

// A flood of what was asked for is worked off: it costs time and no memory, and answers come through.
func TestHostile_AFloodOfInvalidationsCostsNoMemory(t *testing.T) {
	f := newFake(t, nil)
	n := f.open(t, patient())
	l := make(events, 200_000)
	n.Listen(l, 0, "")
	l.await(t, "0 active")
	flood := []byte(strings.Repeat(invalidation("a", "b", "c"), 1000))
	require.Less(t, allocated(func() {
		for range 50 {
			_, err := f.peer(1).Write(flood)
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool { return len(l) == 150_000 }, bound, tick)
	}), uint64(64<<20))
	requireYes(t, n, newAcquire("key", "token", ttl))
	require.Equal(t, 1, f.connections())
}

// A server that is protected or full refuses before it has read anything, and hangs up.
func TestHostile_ARefusalBeforeAnythingIsTheReason(t *testing.T) {
	for code, text := range map[string]string{
		"DENIED": "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set.\r\n",
		"ERR":    "-ERR max number of clients reached\r\n",
		"NOAUTH": "-NOAUTH Authentication required.\r\n",
	} {
		for _, login := range []option{patient(), withLogin("user", "pw")} {
			f := newFake(t, func(c *peer, _ []string) string {
				return strike(c, text, func(net.Conn) {})
			})
			requireUnconnected(t, ask(t, f.open(t, patient(), login), newAcquire("key", "token", ttl)), code)
		}
	}
}

// Valkey may call its mode server_mode. A Sentinel knows neither the password nor the databases of the servers that it watches.
func TestGreeting_ASentinelIsNamedWhateverItRefuses(t *testing.T) {
	for _, info := range []string{"redis_version:7.0.15\r\nredis_mode:sentinel\r\n", "redis_version:5.0.1\r\nserver_mode:sentinel\r\n"} {
		for _, refused := range []string{"", "AUTH", "SELECT", "CLIENT SETNAME", "AUTH SELECT CLIENT SETNAME"} {
			f := newFake(t, func(c *peer, args []string) string {
				switch {
				case args[0] == "INFO":
					return testredis.Bulk("# Server\r\nrun_id:x\r\n" + info)
				case strings.Contains(refused, args[0]):
					return "-ERR refused\r\n"
				}
				return likeRedis(c, args)
			})
			n := f.open(t, patient(), withLogin("", "pw"), withDatabase(1), withClientName("name"))
			reply := ask(t, n, newAcquire("key", "token", ttl))
			requireReply(t, quorum.Unsent, nodeerr.ErrSentinel, reply)
			require.ErrorAs(t, reply.Err, new(*nodeerr.ConnectError))
		}
		reply := ask(t, wrap(t, newFake(t, answering("INFO", testredis.Bulk(info))).pool(), patient()), newAcquire("key", "token", ttl))
		requireReply(t, quorum.Unsent, nodeerr.ErrSentinel, reply)
	}
	for _, info := range []string{"redis_mode:standalone\r\n", "redis_mode:cluster\r\n", "config_file:/redis_mode:sentinel\r\n"} {
		requireYes(t, newFake(t, answering("INFO", testredis.Bulk(info))).open(t, patient()), newAcquire("key", "token", ttl))
	}
}

// The reason is the refusal, also if the server says no more, or if INFO is refused, too.
func TestGreeting_ARefusedLoginIsTheReasonWhateverComesBehind(t *testing.T) {
	for name, behind := range map[string]func(c *peer, args []string) string{
		"nothing":  func(c *peer, args []string) string { _ = c.Close(); return "" },
		"refusals": func(*peer, []string) string { return "-NOAUTH Authentication required.\r\n" },
		"replies":  likeRedis,
	} {
		f := newFake(t, func(c *peer, args []string) string {
			if args[0] == "AUTH" {
				return "-WRONGPASS no\r\n"
			}
			return behind(c, args)
		})
		reply := ask(t, f.open(t, patient(), withLogin("", "pw"), withDatabase(1)), newAcquire("key", "token", ttl))
		requireUnconnected(t, reply, "WRONGPASS")
		require.NotErrorIs(t, reply.Err, nodeerr.ErrTimeout, name)
	}
}

func TestGreeting_AServerThatIsTooOldIsNamed(t *testing.T) {
	for info, old := range map[string]bool{
		"redis_version:2.8.24\r\n": true, "redis_version:5.0.14\r\n": true, "redis_version:6.0.16\r\n": true, "redis_version:6.2.0\r\n": false,
		"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n": false, "redis_version:255.255.255\r\n": false, "": false,
	} {
		for _, open := range transports {
			n := open(newFake(t, answering("INFO", testredis.Bulk("# Server\r\nrun_id:x\r\n"+info))), t, patient())
			reply := ask(t, n, newAcquire("key", "token", ttl))
			if old {
				requireReply(t, quorum.Unsent, nodeerr.ErrOldServer, reply)
				require.ErrorAs(t, reply.Err, new(*nodeerr.ConnectError))
			} else {
				requireReply(t, quorum.Yes, nil, reply)
			}
		}
	}
}
